"""Machines and ranks that the job's own log states."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path

import polars as pl
import pytest

from diagnosis.kinds.logs.decide.locate import locate
from diagnosis.kinds.logs.meaning import roster
from tests.diagnosis.cases import case_of_files, case_of_lines
from tests.patience import no_hang

DATA = tomllib.loads(
    resources.files("diagnosis.kinds.logs.meaning").joinpath("rosters.toml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("row", DATA["statement"], ids=lambda row: row["id"])
def test_each_statement_gives_what_its_example_says_and_nothing_of_its_counter_example(row: dict) -> None:
    found = roster.roster_of_lines([row["example"]])
    assert list(found.nodes) == row["nodes"]
    assert found.nodes_of_ranks() == {int(rank): node for rank, node in row.get("ranks", {}).items()}
    if "counter" in row:
        assert roster.roster_of_lines([row["counter"]]).nodes == ()


@pytest.mark.parametrize("row", DATA["per_node"], ids=lambda row: row["id"])
def test_ranks_per_node_are_read(row: dict) -> None:
    assert roster.roster_of_lines([row["example"]]).per_node == row["count"]


def test_the_rank_below_a_host_in_a_table_of_failures_lives_there() -> None:
    table = [
        "Root Cause (first observed failure):",
        "  time      : 2026-03-22_14:03:59",
        "  host      : 9TRBL31",
        "  rank      : 37 (local_rank: 5)",
        "  exitcode  : 1 (pid: 811)",
    ]
    assert roster.roster_of_lines(table).node_of == {37: "9TRBL31"}


def test_ranks_follow_by_arithmetic_from_a_whole_node_list_and_ranks_per_node() -> None:
    found = roster.roster_of_lines(["SLURM_JOB_NODELIST=ab[01-02],K7QXM02", "--nproc_per_node 8"])
    home = found.nodes_of_ranks()
    assert (home[0], home[8], home[23]) == ("ab01", "ab02", "K7QXM02")


def test_arithmetic_gives_way_to_a_stated_rank_that_contradicts_it() -> None:
    lines = ["SLURM_JOB_NODELIST=ab[01-02]", "--nproc_per_node 8", "srun: error: ab01: task 15: Killed"]
    assert roster.roster_of_lines(lines).nodes_of_ranks() == {15: "ab01"}


def test_a_huge_range_of_a_node_list_is_cut() -> None:
    assert len(roster.expand_node_list("n[0-999999999999]")) == roster.MAX_NODES


def test_a_long_word_of_digits_hangs_no_diagnosis() -> None:
    """Going back over its digits took hours."""
    with no_hang():
        assert roster.roster_of_lines([f"n{'1' * 16_000} (10.0.0.x)"] * 2_000).nodes == ()


def test_a_node_list_of_several_ranges_keeps_leading_zeros_and_tails() -> None:
    assert roster.expand_node_list("x[009-010]-ib") == ["x009-ib", "x010-ib"]


def test_tasks_that_start_the_workers_of_a_whole_node_count_nodes_not_ranks() -> None:
    lines = ["SLURM_JOB_NODELIST=ab[01-04]", "--nproc_per_node 8", "srun: error: ab03: task 2: Exited with exit code 1"]
    assert roster.roster_of_lines(lines).nodes_of_ranks()[2] == "ab01"
    assert roster.roster_of_lines(lines).nodes_of_ranks()[17] == "ab03"


def test_a_pod_is_the_machine_that_it_was_assigned_to() -> None:
    lines = ["Normal Scheduled pod/w-4 Successfully assigned ml/w-4 to a", "Successfully assigned ml/w-4 to K7QXM02"]
    assert roster.roster_of_lines(lines).node_of_pod == {"w-4": "K7QXM02"}


def test_the_rank_before_a_machines_name_is_no_part_of_it() -> None:
    lines = [
        "[default0]:K7QXM02:812:812 [0] NCCL INFO Bootstrap : Using eno1:10.3.0.7<0>",
        "[default0]:K7QXM02:812:990 [0] NCCL INFO comm 0x55d0 rank 37 nranks 512 cudaDev 5 nvmlDev 5 busId 9b000",
    ]
    found = roster.roster_of_lines(lines)
    assert found.nodes == ("K7QXM02",)
    assert found.nodes_of_ranks()[37] == "K7QXM02"
    assert found.host_of_address == {"10.3.0.7": "K7QXM02"}


def test_an_address_behind_a_name_names_the_machine_and_adds_none_to_the_job() -> None:
    found = roster.roster_of_lines(["qg247 (10.67.2.117) starts, rank 232 of 384"])
    assert (found.nodes, found.host_of_address) == ((), {"10.67.2.117": "qg247"})


def test_a_statement_names_its_machine_for_every_form_of_name() -> None:
    known = {name: name for name in ("a", "n1", "n10", "fd00:9::45")}
    assert roster.named_in("srun: error: Node failure on a", known) == {"a"}
    assert roster.named_in("srun: error: Node failure on n10", known) == {"n10"}
    assert roster.named_in("lost fd00:9::45: no answer", known) == {"fd00:9::45"}


def test_very_many_node_lists_hang_no_diagnosis_and_are_cut() -> None:
    """Each new list counted the names of all lists before it."""
    lines = (" ".join(f"nodelist=a{n},b{n}" for n in range(at, at + 400)) for at in range(0, 160_000, 400))
    with no_hang():
        found = roster.roster_of_lines(lines)
    assert sum(map(len, found.lists)) == roster.MAX_NODES


def test_a_table_with_one_rank_a_node_counts_nodes_if_higher_ranks_write(tmp_path: Path) -> None:
    """Flux numbers its shells: "rank=1" is the second node, where the ranks 4 to 7 run."""
    shells = [f"1761435467.20 shell.init rank={n} host=rz{n}" for n in range(3)]
    task = "1761435878.31 flux-shell[0]: FATAL: task 2 (host rz0): Aborted"
    ranks = [f"{rank}: step 10 loss 2.1" for rank in range(12)]
    case = case_of_files(tmp_path, {"events.log": [*shells, task], "out.log": ranks})
    assert [case.node_of(rank) for rank in (1, 2, 4, 11)] == ["rz0", "rz0", "rz1", "rz2"]


def test_a_pod_that_writes_a_file_stands_for_its_node(tmp_path: Path) -> None:
    lines = ["2026-03-02 08:00:01 INFO step 1"]
    case = case_of_files(tmp_path, {"pod-llm-0.log": lines, "pod-llm-1.log": lines})
    pods = {"llm-0": "gpu-1", "llm-1": "gpu-2", "other": "gpu-3"}
    table, found = roster.apply_roster(case.table, (), {}, case.read, pods)
    assert found.nodes == ("gpu-1", "gpu-2")
    assert sorted(table.sources["node"].to_list()) == ["gpu-1", "gpu-2"]


def test_a_statement_is_looked_for_where_a_word_of_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    class Looking:
        def search(self, text: str) -> bool:
            looked.append(text)
            return True

    one = roster.Statement("x", ("rank", "pod"), Looking())  # type: ignore[arg-type]
    monkeypatch.setattr(roster, "statements", lambda: roster.Statements((one,), frozenset()))
    texts = ["[Rank0] loss 2.5", "loaded 7 shards", "pod x-1"]

    found = roster._messages_with_statements(pl.DataFrame({"masked": [5, 6, 7], "example": texts}))

    assert found == [5, 7]
    assert looked == [texts[0], texts[2]]


def test_the_rank_below_a_host_is_read_though_its_line_names_no_host() -> None:
    messages = pl.DataFrame({"masked": [3], "example": ["  rank      : 37 (local_rank: 5)"]})
    assert roster._messages_with_statements(messages) == [3]


def test_a_launcher_that_names_the_lost_node_accuses_it_where_no_line_names_its_writer(tmp_path: Path) -> None:
    lost = [
        "ORTE has lost communication with a remote daemon.",
        "  HNP daemon   : [[4811,0],0] on node n010",
        "  Remote daemon: [[4811,0],3] on node n013",
    ]
    case = case_of_lines(tmp_path, *(f"step {n} / 9000 loss {3 - n / 99:.3f}" for n in range(40)), *lost)
    found = locate(case, "hardware.host.lost")
    assert [(one.node, one.is_suspect) for one in found.nodes] == [("n013", True)]


def test_the_only_machine_is_accused_by_any_decisive_line_of_the_cause(tmp_path: Path) -> None:
    steps = [f"a7: [2026-05-04 09:00:{n:02d}] iter {n}: loss {3 - n / 99:.3f}" for n in range(40)]
    raised = "a7: RuntimeError: CUDA error: unspecified launch failure"
    report = "Unable to determine the device handle for GPU0000:B3:00.0: GPU is lost.  Reboot the system"
    case = case_of_files(tmp_path, {"nvsmi-a7.txt": [report], "train.log": [*steps, raised]})
    found = locate(case, "hardware.gpu.off_bus")
    assert [(one.node, one.is_suspect) for one in found.nodes] == [("a7", True)]
