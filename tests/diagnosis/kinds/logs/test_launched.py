"""A rank that launched fewer collectives than the others of its communicator is named."""

from __future__ import annotations

from pathlib import Path

from diagnosis.kinds.logs.compare import launched
from tests.diagnosis.cases import case_of_files


def behind(tmp_path: Path, last: dict[int, int]) -> list[tuple[str, str]]:
    """Four ranks on two nodes, whose traces end at these numbers."""
    files: dict[str, list[str]] = {"gpu-0.log": [], "gpu-1.log": []}
    for rank, end in last.items():
        node = f"gpu-{rank // 2}"
        head = f"{node}:50{rank}:60{rank} [{rank % 2}] NCCL INFO"
        comm = f"comm 0x550{rank}aa0"
        lines = files[f"{node}.log"]
        lines.append(f"{head} ncclCommInitRank {comm} rank {rank} nranks 4 cudaDev 0 commId 0x1122 - Init COMPLETE")
        lines += [f"{head} AllReduce: opCount {n:x} count 4 datatype 9 {comm} [nranks=4]" for n in range(64, end + 1)]
    return [
        (result.target, result.words.split(" 0x")[0])
        for result in launched.ranks_behind(case_of_files(tmp_path, files))
    ]


def test_the_rank_whose_trace_ends_earlier_is_behind(tmp_path: Path) -> None:
    assert behind(tmp_path, {0: 81, 1: 81, 2: 81, 3: 78}) == [("gpu-1", "rank 3 AllReduce")]


def test_ranks_one_operation_apart_or_at_two_halves_are_not(tmp_path: Path) -> None:
    assert behind(tmp_path / "a", {0: 81, 1: 81, 2: 81, 3: 80}) == []
    assert behind(tmp_path / "b", {0: 81, 1: 81, 2: 78, 3: 78}) == []
