"""Iteration times on the timeline where stamps are coarser than iterations."""

from itertools import pairwise

import polars as pl
import pytest

from diagnosis.kinds.logs.decide.timeline import smooth_points
from diagnosis.kinds.logs.rows.clocks import SECOND


def points(times_s: list[float]) -> pl.DataFrame:
    at = [int(t * SECOND) for t in times_s]
    gaps = [None, *((b - a) / SECOND for a, b in pairwise(at))][: len(at)]
    return pl.DataFrame({"n": range(len(at)), "at": at, "seconds": gaps}, schema_overrides={"seconds": pl.Float64})


def test_whole_seconds_do_not_draw_short_iterations_as_nothing_and_a_second() -> None:
    shown = smooth_points(points([k // 4 for k in range(80)]))["seconds"]
    assert shown[:16].null_count() == 16  # too early for a mean
    assert shown.drop_nulls().to_list() == pytest.approx([0.25] * 64, rel=0.25)


def test_a_slow_stretch_is_seen_through_the_mean() -> None:
    fast = [k // 4 for k in range(40)]
    slow = [10 + 2 * k for k in range(10)]
    shown = smooth_points(points([*fast, *slow]))["seconds"]
    assert shown[-1] == pytest.approx(2, rel=0.1)
    assert shown[38] < 0.4


@pytest.mark.parametrize("times", [[0.5 * k for k in range(20)], [7.0] * 20, [1.0], []])
def test_fine_stamps_one_stamp_and_no_stamps_stay_as_they_are(times: list[float]) -> None:
    given = points(times)
    assert smooth_points(given).equals(given)
