"""Saves that take longer than before are told, though the iterations between them take as long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from diagnosis.kinds.logs.compare.pauses import find_growth, longer_pauses
from tests.diagnosis.cases import case_of_files


def _times(pause: Callable[[int], float], *, each: int = 20, steps: int = 200) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.arange(1, steps + 1)
    pauses = [pause(step) if step % each == 0 else 0.0 for step in numbers]
    times = np.cumsum(0.5 + np.concatenate([[0.0], pauses[:-1]]))
    return numbers, times


def test_pauses_that_become_longer_are_told_with_when_and_how_much() -> None:
    found = find_growth(*_times(lambda step: 2.0 if step < 100 else 40.0))
    assert found is not None
    assert (found.each, found.since, round(found.before), round(found.after)) == (20, 100, 2, 40)
    assert 0.7 < found.share < 0.9


def test_short_pauses_that_stamps_hardly_show_are_compared_by_the_schedule_of_the_long_ones() -> None:
    numbers, times = _times(lambda step: 1.2 if step < 100 else 40.0)
    found = find_growth(numbers, np.floor(times))
    assert found is not None and found.since == 100


@pytest.mark.parametrize(
    "pause", [lambda _: 20.0, lambda step: 2.0 + step % 3, lambda step: 20.0 if step == 100 else 2.0]
)
def test_pauses_that_stay_alike_or_of_which_one_is_long_are_not_told(pause: Callable[[int], float]) -> None:
    assert find_growth(*_times(pause)) is None


def test_pauses_that_follow_no_schedule_are_accidents() -> None:
    numbers, times = np.arange(1, 201), np.full(200, 0.5)
    times[[31, 77, 120, 133, 140, 171]] += 30
    assert find_growth(numbers, np.cumsum(times)) is None


def test_the_result_leads_to_a_line_of_the_iteration(tmp_path: Path) -> None:
    numbers, times = _times(lambda step: 2.0 if step < 100 else 40.0)
    lines = [
        f"2026-03-02 08:{int(at) // 60:02}:{at % 60:06.3f} INFO step={step} loss={9 / step:.3f}"
        for step, at in zip(numbers, times, strict=True)
    ]
    [result] = longer_pauses(case_of_files(tmp_path, {"gpu-1.log": lines}))
    assert (result.path, result.line, result.iteration) == ("gpu-1.log", 100, 100)
