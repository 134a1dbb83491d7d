"""Slowdowns of training: lasting and passing ones."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from diagnosis.kinds.logs.pace.pacing import Pace, pace
from diagnosis.kinds.logs.pace.progress import Progress
from diagnosis.kinds.logs.rows.clocks import SECOND, Clocks


def paced(durations: Sequence[float], numbers: Sequence[int] | None = None) -> Pace:
    """The pace of lines of progress in one file, each ``durations`` seconds after the one before."""
    at, times = 0.0, []
    for duration in durations:
        at += duration
        times.append(int(at * SECOND))
    beats = pl.DataFrame(
        {"at": times, "n": numbers or range(1, len(times) + 1), "line": range(1, len(times) + 1)},
        schema={"at": pl.Int64, "n": pl.Int64, "line": pl.Int64},
    ).with_columns(file=pl.lit(0), source=pl.lit(0), masked=pl.lit(1), seconds=pl.lit(None, dtype=pl.Float64))
    none = pl.DataFrame(schema={"file": pl.Int32, "shift": pl.Int64})
    local = pl.DataFrame(schema={"file": pl.Int32, "masked": pl.Int32, "local": pl.Int64})
    return pace(Progress("iteration", beats), Clocks(none, local))


def test_a_slowdown_that_passed_is_reported_with_its_iterations_and_a_checkpoint_is_none() -> None:
    found = paced([1.0] * 30 + [3.0] * 10 + [1.0] * 30)
    assert found.slow_from is None
    assert found.phase is not None
    assert found.phase[:2] == (31, 40)
    assert found.phase[2] == pytest.approx(3.0, rel=0.05)
    assert paced([1.0] * 30 + [40.0] + [1.0] * 39).phase is None


def test_a_slowdown_that_lasts_begins_at_its_first_iteration() -> None:
    for start in (12, 30, 50):
        assert paced([1.0 + 0.01 * (k % 3) for k in range(start)] + [1.9] * 25).slow_from == start + 1


def test_steps_without_a_time_of_their_own_shorten_the_silence() -> None:
    """Each has the time of the last line that has one, so only their number says how long training went on."""
    stamped = paced([1.0] * 30)
    assert stamped.silent_from == 30 * SECOND
    assert paced([1.0] * 30 + [0.0] * 100).silent_from == 130 * SECOND
    assert paced([]).silent_from is None
