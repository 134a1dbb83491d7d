"""What launchers put around dumps: prefixes, headings, numbers in names."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from diagnosis.kinds.stacks import parse_stack, sniff
from diagnosis.kinds.stacks.ranks.layout import build
from diagnosis.kinds.stacks.read import prefixes
from diagnosis.model import ParseHints
from tests.diagnosis.kinds.reports import stacks_json
from tests.diagnosis.kinds.stacks import simulate
from tests.diagnosis.kinds.stacks.simulate import CULPRITS, FRAMES, hang

CASE = hang({"tp": 2, "pp": 2, "dp": 4}, "tp-dp-pp", {5}, "storage")
TEXT = {r: simulate.pyspy_text(s, 40000 + 7 * r) for r, s in CASE.stacks.items()}


def told(files: dict[str, str]) -> dict:
    """Read as uploaded: what no format claims is not stack evidence."""
    parsed = []
    for path, text in files.items():
        data = text.encode()
        assert sniff(data[:65536], path), path
        parsed.append(parse_stack(io.BytesIO(data), path, ParseHints(), Path()))
    return stacks_json(parsed)


def each_line(label: str) -> str:
    return "".join(
        label.format(rank=r, node=CASE.nodes[r]) + line + "\n" for r, t in TEXT.items() for line in t.splitlines()
    )


def each_node(heading: str) -> str:
    by_node: dict[str, str] = {}
    for rank, text in TEXT.items():
        by_node[CASE.nodes[rank]] = by_node.get(CASE.nodes[rank], "") + text + "\n"
    return "".join(heading.format(node=n) + t for n, t in by_node.items())


@pytest.mark.parametrize(
    ("label", "has_nodes"),
    [
        ("[pod/{node}/pytorch] ", True),
        ("[1,{rank}]<stdout>:", False),
        ("[prterun-7@1,{rank}]<stdout>: ", False),
        ("[rank{rank}]: ", False),
        ("{node}  | ", True),
        ("{rank:>3}: ", False),
    ],
)
def test_prefixes_of_lines_tell_ranks_or_nodes(label: str, has_nodes: bool) -> None:
    got = told({"all.txt": each_line(label)})
    assert got["suspect_ranks"] == [5]
    assert got["suspect_nodes"] == (["node-000"] if has_nodes else [])


@pytest.mark.parametrize(
    "heading",
    [
        "----------------\n{node}\n----------------\n",
        "---------------\n{node} (8)\n---------------\n",
        "{node} | CHANGED | rc=0 >>\n",
        "=== {node} ===\n",
        "=== pod/{node} ===\n",
        "[1] 12:01:02 [SUCCESS] {node}\n",
        "==> {node} <==\n",
        "##### host: {node}\n",
    ],
)
def test_headings_between_processes_tell_nodes(heading: str) -> None:
    got = told({"all.txt": each_node(heading)})
    assert (got["suspect_ranks"], got["suspect_nodes"]) == ([5], ["node-000"])


def test_frames_and_rules_are_no_headings() -> None:
    assert prefixes.heading("    forward (model.py:12)") == {}
    assert prefixes.heading("-" * 80) == {}
    assert prefixes.heading("Process 4784: python3 hang.py", after_rule=True) == {}


def test_json_of_many_processes_in_one_file_is_read() -> None:
    dumps = {r: simulate.pyspy_json(s, 40000 + r) for r, s in CASE.stacks.items()}
    labelled = "".join(f"[1,{r}]<stdout>:{text}\n" for r, text in dumps.items())
    assert told({"all.json": labelled})["suspect_ranks"] == [5]
    by_node = {f"trace-{n}.json": "" for n in CASE.nodes.values()}
    for rank, text in dumps.items():
        by_node[f"trace-{CASE.nodes[rank]}.json"] += text + "\n"
    assert told(by_node)["suspect_ranks"] == [5]


def test_json_that_breaks_off_in_a_bundle_is_said_to_be_cut() -> None:
    whole = simulate.pyspy_json(CASE.stacks[0], 1)
    parsed = simulate.parse(whole + "\n" + whole[:-40], "trace-node-000.json")
    assert [d["status"] for d in parsed.facts["dumps"]] == ["ok", "truncated"]


def test_files_named_after_processes_are_no_ranks() -> None:
    files = {
        f"dumps/{CASE.nodes[r]}/{31000 + 13 * r}.txt": simulate.faulthandler_text(s) for r, s in CASE.stacks.items()
    }
    assert told(files)["suspect_ranks"] == [5]


def test_files_named_by_small_numbers_are_ranks() -> None:
    files = {f"dumps/{r}.txt": simulate.faulthandler_text(s) for r, s in CASE.stacks.items()}
    assert told(files)["suspect_ranks"] == [5]


def test_several_top_directories_with_numbers_are_hosts() -> None:
    files = {f"gpu-{r // 8:02d}/rank_{r}.txt": t for r, t in TEXT.items()}
    assert told(files)["suspect_nodes"] == ["gpu-00"]
    assert told({f"job-17/rank_{r}.txt": t for r, t in TEXT.items()})["suspect_nodes"] == []


def test_a_domain_before_the_rank_belongs_to_the_node() -> None:
    files = {f"pyspy-dgx{r // 8:03d}.cluster.local-rank{r}.dump": t for r, t in TEXT.items()}
    assert told(files)["suspect_nodes"] == ["dgx000.cluster.local"]


def test_workers_of_ray_that_run_a_task_are_trainers() -> None:
    actor = [("inner", "verl/single_controller/base/decorator.py", 1), ("main_loop", "ray/_private/worker.py", 2)]
    files = {}
    for rank in range(8):
        stack = CULPRITS["storage"] if rank == 3 else FRAMES["titan"]["dp"]
        files[f"rank_{rank}.txt"] = simulate.pyspy_text([*stack, *actor], 500 + rank, "ray::WorkerDict.update_actor")
    assert told(files)["suspect_ranks"] == [3]


def test_a_wait_inside_a_layer_is_for_peers() -> None:
    ring = [("wait", "ring_flash_attn/utils.py", 9), ("forward", "ring_flash_attn/ring_flash_attn.py", 40)]
    kernel = [("_flash_attn_forward", "flash_attn/flash_attn_interface.py", 8), *ring[1:]]
    base = [("<module>", "train.py", 3)]
    stacks = {r: kernel if r == 2 else ring if r < 4 else FRAMES["titan"]["dp"] for r in range(16)}
    files = {f"rank_{r}.txt": simulate.pyspy_text([*s, *base], 500 + r) for r, s in stacks.items()}
    assert told(files)["suspect_ranks"] == [2]


@pytest.mark.parametrize("kind", ["storage", "kernel", "user loop"])
def test_many_ranks_that_wait_for_nobody_are_not_taken_for_healthy(kind: str) -> None:
    culprits = set(range(16))
    base = [("<module>", "train.py", 3)]
    stacks = {r: CULPRITS[kind] if r in culprits else FRAMES["titan"]["dp"] for r in range(48)}
    files = {f"rank_{r}.txt": simulate.pyspy_text([*s, *base], 500 + r) for r, s in stacks.items()}
    assert set(told(files)["suspect_ranks"]) == culprits


def test_a_layout_without_sizes_has_no_groups() -> None:
    assert not build({}, world_size=4).is_known
