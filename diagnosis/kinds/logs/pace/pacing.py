"""The pace of training: durations of iterations, and slowdowns that last or pass (L4, section 3.4)."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.pace.progress import Progress
from diagnosis.kinds.logs.rows.clocks import SECOND, Clocks
from diagnosis.values import stats
from diagnosis.values.extremes import greatest, middle

LIMITS: Final = thresholds.limits("pacing")

THRESHOLDS: Final = thresholds.of("pacing")


class Pace(msgspec.Struct, frozen=True):
    """Progress in time. ``points``: ``n``, ``at`` (ns, job clock), ``seconds`` an iteration;
    ``usual_s`` between printed lines; ``slow_from``: the first iteration of a slowdown that lasts
    to the end, ``ratio`` its factor; ``phase``: first and last iteration of a passing slowdown, and
    its factor; ``last_at``: when the last progress was printed (ns), also of a counter that began
    again."""

    points: pl.DataFrame
    usual_s: float | None = None
    slow_from: int | None = None
    slow_at: int | None = None
    ratio: float = 1.0
    phase: tuple[int, int, float] | None = None
    last_at: int | None = None

    @property
    def silent_from(self) -> float | None:
        """Since when no progress was printed (ns). Lines without a time have that of the last line with one: of several
        with the last time each took as long as usual.
        """
        at = self.points["at"].drop_nulls()
        if self.last_at is None or self.usual_s is None:
            return None
        return self.last_at + max(0, int((at == self.last_at).sum()) - 1) * self.usual_s * SECOND

    @property
    def is_even(self) -> bool:
        """Whether no slowdown is seen, and there are enough durations to see one."""
        is_shown = self.points["seconds"].drop_nulls().len() > 2 * THRESHOLDS.slow_intervals
        return is_shown and self.slow_from is None and self.phase is None


#: No progress.
NONE: Final = Pace(pl.DataFrame(schema={"n": pl.Int64, "at": pl.Int64, "seconds": pl.Float64}))


def pace(progress: Progress, clocks: Clocks) -> Pace:
    """One row an iteration (its earliest line), its duration and the changes. O(points)."""
    if progress.points.is_empty():
        return NONE
    lines = clocks.correct(progress.points, "at")
    first, stated = pl.col("at").min(), pl.col("seconds").median()
    points = lines.group_by("n").agg(at=first, seconds=stated).sort("n")
    # a line without a time has that of the one before it: the steps of one time share the next gap
    is_later = pl.col("at").ne_missing(pl.col("at").shift())
    since = pl.when(is_later).then(pl.col("n")).forward_fill().shift()
    gap, step = pl.col("at").diff() / SECOND, pl.col("n") - since
    gaps = points.with_columns(gap=gap, per=pl.when(is_later & (step > 0)).then(gap / step))
    durations = _durations(gaps)
    points = points.with_columns(seconds=durations)
    is_coarse = _has_coarse_times(points) and durations.equals(gaps["per"])
    positive = gaps.filter(pl.col("gap") > 0)["gap"]
    usual = middle(positive) or None
    slow = _slowdown(points, is_coarse)
    last_at = greatest(lines["at"])
    if slow is None:
        return Pace(points, usual, phase=_phase(points, is_coarse), last_at=last_at)
    place, ratio = slow
    return Pace(points, usual, int(points["n"][place]), points["at"][place], ratio, last_at=last_at)


def _has_coarse_times(points: pl.DataFrame) -> bool:
    """Whether all lines state their time in whole seconds."""
    return bool((points["at"].drop_nulls() % SECOND == 0).all())


def _durations(gaps: pl.DataFrame) -> pl.Series:
    """Seconds an iteration: stated in the lines, if they fit the times of printing; else from those times."""
    stated, each = gaps["seconds"].drop_nulls(), gaps["per"].drop_nulls()
    if stated.len() and each.len():
        ratio = np.median(stated) / max(np.median(each), 1e-9)
        if not 1 / THRESHOLDS.stated <= ratio <= THRESHOLDS.stated:
            return gaps["per"]
    return gaps.select(pl.coalesce("seconds", "per")).to_series()


def _slowdown(points: pl.DataFrame, has_coarse_times: bool) -> tuple[int, float] | None:
    """Row from which iterations take longer up to the end, and the factor; None without a lasting change, which must be
    large in units of the spread before it. O(n²) on at most ``LIMITS.durations``.

    If stamps are whole seconds and iterations hardly longer, medians of durations jump, but means are exact, because
    rounding errors cancel. Single long durations, such as checkpoints, are cut first.
    """
    known = points.with_row_index("row").drop_nulls("seconds").filter(pl.col("seconds") > 0)
    # the first iterations warm up: compilers, caches, memory pools
    known = known.tail(min(LIMITS.durations, max(0, known.height - THRESHOLDS.warm_up)))
    if known.height < 2 * THRESHOLDS.slow_intervals + 1:
        return None
    values = known["seconds"].to_numpy()
    usual = float(np.median(values))
    is_coarse = (has_coarse_times or _is_whole(values)) and usual < THRESHOLDS.coarse_s
    if is_coarse:
        values = np.minimum(values, THRESHOLDS.longest * max(usual, 1.0))
    cut = stats.change_point(
        values, THRESHOLDS.coarse_intervals if is_coarse else THRESHOLDS.slow_intervals, is_mean=is_coarse
    )
    if cut is None:
        return None
    before, after = values[:cut], values[cut:]
    base, later = (float(np.mean(part) if is_coarse else np.median(part)) for part in (before, after))
    if is_coarse:
        spread = THRESHOLDS.coarse_spreads * max(float(before.std()), THRESHOLDS.grain_s)
        end = max(THRESHOLDS.coarse_intervals // 2, len(after) // THRESHOLDS.end_parts)
        least = float(np.mean(after[-end:]))
    else:
        spread = max(stats.spread(before), THRESHOLDS.noise * base)
        least = float(np.quantile(after, THRESHOLDS.fast_share))
    gain = (later - base) / spread * np.sqrt(min(len(before), len(after)))
    # the end of coarse durations, or most of the finer ones, must be slow too
    is_lasting = least >= base * (1 + THRESHOLDS.lasting * (THRESHOLDS.slower - 1))
    if base <= 0 or later < THRESHOLDS.slower * base or not is_lasting or gain < THRESHOLDS.least_gain:
        return None
    return int(known["row"][cut]), later / base


def _end_of_warm_up(is_slow: npt.NDArray[np.bool_], sums: npt.NDArray[np.float64]) -> int:
    """The windows that are no slowdown that passed: the first ones, and all that decay from the
    first one on."""
    is_start = np.logical_and.accumulate(is_slow)
    decays = not (sums[is_start] > sums[0]).any()
    first: int = THRESHOLDS.phase
    return max(first, int(is_start.sum()) if decays else 0)


def _is_whole(values: npt.NDArray[np.float64]) -> bool:
    return bool(np.all(values == np.round(values)))


def _phase(points: pl.DataFrame, is_coarse: bool) -> tuple[int, int, float] | None:
    """The longest run of iterations that took longer for some time: windows of ``phase`` durations without their
    longest, which may be a checkpoint, against the median window. O(n × window)."""
    known = points.drop_nulls("seconds")
    values = known["seconds"].to_numpy()
    if len(values) < THRESHOLDS.phases * THRESHOLDS.phase:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(values, THRESHOLDS.phase)
    sums = windows.sum(axis=1) - windows.max(axis=1)
    base = float(np.median(sums))
    # the resolution of whole-second stamps
    grain = 1.0 if is_coarse or _is_whole(values) else 0.0
    spread = stats.spread(sums)
    least = max(
        THRESHOLDS.phase_slower * base,
        base + THRESHOLDS.phase_spreads * spread,
        base + THRESHOLDS.grains * grain,
    )
    is_slow = sums > least
    is_slow[: _end_of_warm_up(is_slow, sums)] = False
    runs = np.flatnonzero(np.diff(is_slow, prepend=False, append=False)).reshape(-1, 2)
    best = max(runs.tolist(), key=lambda run: run[1] - run[0], default=(0, 0))
    if best[1] - best[0] < THRESHOLDS.phase // 2 or is_slow.mean() > THRESHOLDS.phase_share:
        return None
    # the windows' iterations that are nearer to the slowest window than to the usual pace
    top = float(sums[best[0] : best[1]].max())
    inside = np.arange(best[0], min(best[1] + THRESHOLDS.phase, len(values)))
    slow_ones = inside[values[inside] > (base + top) / (2 * (THRESHOLDS.phase - 1))]
    usual = max(float(np.delete(values, slow_ones).mean()), 1e-9)
    return int(known["n"][int(slow_ones[0])]), int(known["n"][int(slow_ones[-1])]), top / (THRESHOLDS.phase - 1) / usual
