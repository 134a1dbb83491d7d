"""Slowdowns of training: lasting and passing ones."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from diagnosis.kinds.logs.pace.pacing import Pace, pace
from diagnosis.kinds.logs.pace.progress import Progress
from diagnosis.kinds.logs.rows.clocks import SECOND, Clocks


def paced(
    durations: Sequence[float], numbers: Sequence[int] | None = None, stated: Sequence[float | None] | None = None
) -> Pace:
    """The pace of lines of progress in one file, each ``durations`` seconds after the one before, and with ``stated``
    durations in the lines."""
    at, times = 0.0, []
    for duration in durations:
        at += duration
        times.append(int(at * SECOND))
    points = pl.DataFrame(
        {"at": times, "n": numbers or range(1, len(times) + 1), "line": range(1, len(times) + 1)},
        schema={"at": pl.Int64, "n": pl.Int64, "line": pl.Int64},
    ).with_columns(
        file=pl.lit(0),
        source=pl.lit(0),
        masked=pl.lit(1),
        seconds=pl.Series(stated or [None] * len(times), dtype=pl.Float64),
    )
    none = pl.DataFrame(schema={"file": pl.Int32, "shift": pl.Int64})
    local = pl.DataFrame(schema={"file": pl.Int32, "masked": pl.Int32, "local": pl.Int64})
    return pace(Progress("iteration", points), Clocks(none, local))


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


#: Iterations of a second, with a little noise.
FINE = [1.0 + 0.01 * (k % 3) for k in range(60)]
#: Iterations of 1.33 s, stamped in whole seconds.
COARSE = [1, 1, 2, 1, 1, 2] * 4


@pytest.mark.parametrize(
    ("durations", "slow_from", "ratio"),
    [
        ([*FINE[:20], *(1.33 * d for d in FINE[:20])], 21, 1.33),
        ([*FINE[:20], *(1.0 if k % 10 < 1 else 1.9 for k in range(20))], 22, 1.881),  # single short ones are in it
        ([1.01, 1.0, 1.01, 1.0, 1.01, *[2.0] * 5], 7, 1.98),  # three usual ones after the warm-up, three slow ones
        ([1.01, 1.0, *[1.01] * 5, *[2.0] * 3], 8, 1.98),
        ([*COARSE, *[3, 2, 2, 3, 2, 2] * 3], 24, 1.781),
        ([*[9, 9, 10] * 8, *[12, 13, 12] * 4], 25, 1.333),  # long enough for medians, though of whole seconds
        ([*COARSE, *[1, 2, 1] * 4, *[4, 4, 4] * 4], 37, 3.0),
    ],
)
def test_a_slowdown_that_lasts_has_a_beginning_and_a_factor(
    durations: list[float], slow_from: int, ratio: float
) -> None:
    found = paced(durations)
    assert (found.slow_from, found.phase, found.is_even) == (slow_from, None, False)
    assert found.slow_at == pytest.approx(sum(durations[:slow_from]) * SECOND)
    assert found.ratio == pytest.approx(ratio, abs=0.005)


@pytest.mark.parametrize(
    "durations",
    [
        [*FINE[:20], *(1.28 * d for d in FINE[:20])],  # too little to act on
        [*(0.6 + 0.8 * (k % 2) for k in range(20)), *(0.84 + 1.12 * (k % 2) for k in range(20))],  # within the noise
        [*(0.9 + 0.2 * (k % 2) for k in range(20)), *(1.26 + 0.28 * (k % 2) for k in range(20))],
        [*[1.01, 1.0] * 3, 1.01, 2.0, 2.0],  # two slow ones are one checkpoint
        [1.01, 1.0, *[1.01] * 4, *[2.0] * 3],  # two usual ones after the warm-up
        [*COARSE, *[2, 1, 2, 1, 2, 2] * 3],
        [*COARSE, *[1, 1, 40, 1, 1, 2] * 3],  # checkpoints
        [*COARSE[:10], *[4] * 7],  # too few whole seconds
        [30.0, 20.0, *FINE[:30]],  # the warm-up
        [*[0.5] * 300, *(1.0 + 0.01 * (k % 3) for k in range(402))],  # slower than long ago
        [*FINE[:30], *[1.5] * 12, *FINE[:30]],
        [*FINE[:30], *[3.0] * 3, *FINE[:30]],  # too short
        [*FINE[:20], *[3.0] * 24, *FINE[:20]],  # as usual as the others
        [*[3.0] * 8, *FINE[:50]],  # the beginning
        [*FINE[:10], *[3.0] * 8, *FINE[:13]],  # too few others
        [*[2] * 30, *[3] * 10, *[2] * 30],  # one second is the grain of the stamps
    ],
)
def test_what_is_too_small_too_short_or_too_noisy_is_no_slowdown(durations: list[float]) -> None:
    found = paced(durations)
    assert (found.slow_from, found.slow_at, found.ratio, found.phase) == (None, None, 1.0, None)


@pytest.mark.parametrize(
    ("durations", "phase"),
    [
        ([*FINE[:30], *[3.0] * 5, *FINE[:30]], (31, 35, 2.126)),
        ([*FINE[:30], *[3.0] * 4, *FINE[:30]], (31, 34, 1.846)),
        ([*FINE[:30], *[1.7] * 12, *FINE[:30]], (31, 42, 1.683)),
        ([*FINE[:20], *[3.0] * 6, *FINE[:20], *[3.0] * 9, *FINE[:20]], (47, 55, 2.514)),  # the longer one
        ([*[1] * 30, *[2] * 10, *[1] * 30], (31, 40, 2.0)),
        ([*COARSE, *[4] * 12, *[1] * 6], (25, 36, 3.135)),
        (
            [*(0.5 + k % 2 for k in range(40)), *(2.0 + k % 2 for k in range(8)), *(0.5 + k % 2 for k in range(40))],
            (41, 48, 2.413),
        ),
    ],
)
def test_a_slowdown_that_passed_has_its_iterations_and_its_factor(
    durations: list[float], phase: tuple[int, int, float]
) -> None:
    found = paced(durations)
    assert found.phase is not None
    assert (found.slow_from, found.phase[:2]) == (None, phase[:2])
    assert found.phase[2] == pytest.approx(phase[2], abs=0.005)
    assert not found.is_even


def test_a_pace_is_even_from_as_many_durations_as_could_show_a_slowdown() -> None:
    assert [paced([1.0] * count).is_even for count in (7, 8)] == [False, True]
    assert paced([]).last_at is None
    assert paced([1.0] * 8).last_at == 8 * SECOND


def test_stated_durations_count_if_they_fit_the_times_of_their_lines() -> None:
    for stated, expected in ((0.4, 1.0), (0.5, 0.5), (1.9, 1.9), (2.1, 1.0)):
        found = paced([1.0] * 20, stated=[stated] * 20)
        assert found.points["seconds"].to_list()[1:] == pytest.approx([expected] * 19)
    assert paced([1.0] * 5, stated=[None, 0.9, None, None, 0.8]).points["seconds"].to_list() == [None, 0.9, 1, 1, 0.8]


def test_the_usual_time_between_lines_leaves_out_lines_of_one_time_and_their_steps_share_the_next_gap() -> None:
    found = paced([5.0, 4.0, 0.0, 6.0, 0.0], numbers=[1, 3, 4, 6, 8])
    assert found.usual_s == 5.0
    assert found.points["seconds"].to_list() == [None, 2.0, None, 2.0, None]


def test_the_last_progress_of_a_counter_that_began_again_is_its_latest_line() -> None:
    assert paced([2.0] * 20, numbers=[*range(1, 15), *range(1, 7)]).last_at == 40 * SECOND


def test_a_silence_begins_a_usual_time_after_the_last_line_with_a_time() -> None:
    assert paced([2.0] * 30 + [0.0] * 3).silent_from == 66 * SECOND
    assert paced([1.0]).silent_from is None  # of one line no usual time is known


def test_a_passing_slowdown_needs_four_windows_and_at_most_four_tenths_of_them() -> None:
    assert paced([*FINE[:14], *[3.0] * 5, *FINE[:14]]).phase is not None
    assert paced([*FINE[:14], *[3.0] * 5, *FINE[:13]]).phase is None


def test_durations_that_decay_from_the_first_one_are_a_warm_up() -> None:
    decaying = [1.0 + 60.0 / n for n in range(1, 60)]
    assert paced([*decaying, *[1.0] * 200]).phase is None
    assert paced([*FINE[:14], *decaying[5:18], *[1.0] * 40]).phase is not None


def test_slow_steps_among_the_first_ones_are_no_slowdown_that_passed() -> None:
    assert paced([0.9, 1.0, 1.0, *[3.0] * 5, *[1.0] * 40]).phase is None
    assert paced([0.9, *[1.0] * 12, *[3.0] * 5, *[1.0] * 40]).phase is not None


def test_fewer_steps_within_whole_seconds_are_no_slowdown() -> None:
    found = paced([*[1.0, 0.0, 0.0] * 50, *[1.0, 0.0] * 4])
    assert (found.slow_from, found.phase) == (None, None)
