"""In a hung job, the rank that lacks the last step of all others is accused."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from diagnosis.kinds.logs.compare import behind
from tests.diagnosis.cases import case_of_files


def _files(without_last: Collection[int], ranks: int = 8) -> dict[str, list[str]]:
    def lines(rank: int) -> list[str]:
        steps = range(1, 40 if rank in without_last else 41)
        return [f"2026-03-02 08:00:{step:02}.000 INFO rank={rank} step={step} loss={9 / step:.3f}" for step in steps]

    return {f"gpu-{rank // 2}.log": [*lines(rank), *lines(rank + 1)] for rank in range(0, ranks, 2)}


def _accused(folder: Path, files: dict[str, list[str]]) -> list[tuple[str, str]]:
    results = behind.ranks_behind(case_of_files(folder, files))
    return [(result.target, result.sentence) for result in results]


def test_the_rank_without_the_last_step_is_named_with_both_steps(tmp_path: Path) -> None:
    [(target, sentence)] = _accused(tmp_path, _files({5}))
    assert target == "gpu-2"
    assert sentence == "gpu-2 printed step 39 last, the others step 40 (rank 5)."


def test_nobody_is_behind_where_all_end_alike_or_half_of_them_do_not(tmp_path: Path) -> None:
    assert _accused(tmp_path / "all", _files(())) == []
    assert _accused(tmp_path / "half", _files({0, 3, 5, 6})) == []


def test_a_rank_that_is_ahead_of_the_others_waits_for_them(tmp_path: Path) -> None:
    assert _accused(tmp_path, _files({0, 1, 2, 3, 4, 6, 7})) == []
