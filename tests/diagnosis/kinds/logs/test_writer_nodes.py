"""Where a writer runs when its words and its path disagree."""

from __future__ import annotations

import polars as pl

from diagnosis.evidence.inventory import Inventory
from diagnosis.kinds.logs.rows.writer_nodes import settle_nodes


def settled(
    rows: list[tuple[int, str | None, int | None]], paths: list[str], nodes: tuple[str, ...] = (), **node_of: str
) -> list[str | None]:
    frame = pl.DataFrame(
        [(i, *row) for i, row in enumerate(rows)],
        schema={"source": pl.UInt32, "file": pl.UInt32, "node": pl.String, "rank": pl.Int64},
        orient="row",
    )
    return settle_nodes(frame, paths, nodes, {int(k[1:]): v for k, v in node_of.items()})["node"].to_list()


def test_a_directory_of_the_inventory_beats_a_numbered_file() -> None:
    paths = ["out/cn17/worker_6.log", "out/cn18/worker_7.log"]
    assert settled([(0, "worker_6", None), (1, "worker_7", None)], paths, ("cn17", "cn18")) == ["cn17", "cn18"]


def test_numbered_files_below_several_directories_are_processes_without_an_inventory_too() -> None:
    paths = ["out/cn17/worker_6.log", "out/cn18/worker_7.log"]
    assert settled([(0, "worker_6", None), (1, "worker_7", None)], paths) == ["cn17", "cn18"]
    assert settled([(0, "worker-1", None)], ["logs/worker-1.log"]) == ["worker-1"]


def test_a_file_in_which_several_machines_write_is_not_named_after_one() -> None:
    rows = [(0, "slurm-8512", None), (0, "cn17", None), (0, "cn18", None)]
    assert settled(rows, ["slurm-8512.out"]) == [None, "cn17", "cn18"]


def test_one_other_machine_that_a_file_names_does_not_make_it_the_whole_jobs() -> None:
    assert settled([(0, "cn17", None), (0, "cn18", None)], ["cn17.log"]) == ["cn17", "cn18"]


def test_lines_that_state_no_machine_belong_to_the_one_that_their_file_is_named_after() -> None:
    rows = [(0, None, None), (0, "cn17.fabric", None), (1, None, None)]
    paths = ["out/run7.8815.cn17.fabric.log", "out/run7.8815.cn18.fabric.log"]
    assert settled(rows, paths, ("cn17.fabric", "cn18.fabric")) == ["cn17.fabric", "cn17.fabric", "cn18.fabric"]


def test_a_file_named_after_one_machine_in_which_another_writes_gives_its_name_to_nobody() -> None:
    rows = [(0, None, None), (0, "cn18", None)]
    assert settled(rows, ["out/run7.8815.cn17.log"], ("cn17", "cn18")) == [None, "cn18"]


def test_a_file_whose_lines_name_no_machine_is_of_the_one_in_its_path_that_others_name() -> None:
    rows = [(0, None, None), (1, None, None), (1, "a7", None), (2, None, None)]
    assert settled(rows, ["nvsmi-a7.txt", "train.log", "note-b7.txt"]) == ["a7", None, "a7", None]


def test_a_short_name_of_a_known_machine_counts_behind_a_mark() -> None:
    rows = [(0, None, None), (1, None, None)]
    assert settled(rows, ["dmesg-w3.txt", "dmesg-a.txt"], ("w3", "a")) == ["w3", None]


def test_a_rank_stays_where_it_said_it_was() -> None:
    rows = [(0, "cn17", 3), (0, None, 3), (0, None, 4)]
    assert settled(rows, ["all.log"]) == ["cn17", "cn17", None]


def test_a_description_places_ranks_unless_the_lines_contradict_it() -> None:
    assert settled([(0, None, 0), (0, None, 1)], ["all.log"], r0="a1", r1="a2") == ["a1", "a2"]
    rows = [(0, "a2", 0), (0, "a1", 1), (0, None, 2)]
    assert settled(rows, ["all.log"], r0="a1", r1="a2", r2="a3") == ["a2", "a1", None]


def test_ranks_fill_nodes_in_order_only_where_the_sizes_agree() -> None:
    inventory = Inventory(nodes=("a", "b"), gpus_per_node=2, world_size=4)
    assert inventory.nodes_of_ranks() == {0: "a", 1: "a", 2: "b", 3: "b"}
    assert Inventory(nodes=("a", "b"), gpus_per_node=2, world_size=6).nodes_of_ranks() == {}


def test_a_machines_name_behind_a_word_in_a_path_is_the_machines() -> None:
    paths = ["logs/node_gpu7-17.log", "logs/node_gpu7-18.log", "logs/run-a.log"]
    rows = [(0, "node_gpu7-17", None), (0, "gpu7-17", 3), (1, "node_gpu7-18", None), (2, "run-a", None)]
    assert settled(rows, paths, ("gpu7-17", "gpu7-18", "a")) == ["gpu7-17", "gpu7-17", "gpu7-18", None]


def test_a_directory_whose_files_name_several_machines_is_the_jobs() -> None:
    """The name of a run, "wren-1b5", was accused of what one of its ranks printed."""
    rows = [(0, "wren-1b5", 0), (0, "cn17", None), (1, "wren-1b5", 8), (1, "cn18", None), (2, "wren-1b5", 16)]
    paths = ["wren-1b5/0.out", "wren-1b5/1.out", "wren-1b5/2.out"]
    assert settled(rows, paths) == [None, "cn17", None, "cn18", None]
