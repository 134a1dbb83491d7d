"""The cost of failures: pure functions over outages, attempts and counts. Every argument and result
has its unit in its name.

Definitions, units and sources: ``docs/metrics.md``. Sources: ByteRobust (arXiv 2509.16293, section
7 and table 5) and Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research
Clusters" (arXiv 2410.21680).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

DAY_S = 86_400.0
HOUR_S = 3_600.0
#: Window of the repeat-offender score, in days.
LEMON_DAYS = 28
#: Daily failure probability of a machine that reproduces all four rows of ByteRobust's table 5
#: (any value in 0.00117
#: … 0.00125 does).
BYTEROBUST_P = 0.0012


@dataclass(frozen=True, slots=True)
class Outage:
    """One unproductive stretch of a job. Times are UTC seconds; unknown times are None and count as
    zero. ``failed_at`` progress stopped; ``detected_at`` a person or a program noticed;
    ``localised_at`` the cause was named; ``resumed_at`` training runs again; ``recompute_s``
    seconds spent on steps that had been computed before. A manual restart (``is_manual``) has no
    detection and no localisation: it was intended.
    """

    failed_at: float
    detected_at: float | None = None
    localised_at: float | None = None
    resumed_at: float | None = None
    recompute_s: float = 0.0
    gpus: int = 0
    is_manual: bool = False

    @property
    def detect_s(self) -> float:
        return 0.0 if self.is_manual else _span(self.failed_at, self.detected_at)

    @property
    def localise_s(self) -> float:
        return 0.0 if self.is_manual else _span(self.detected_at or self.failed_at, self.localised_at)

    @property
    def fail_over_s(self) -> float:
        """From the named cause (or the latest that is known before it) until training runs."""
        known = [self.failed_at] if self.is_manual else [self.failed_at, self.detected_at, self.localised_at]
        return _span(max(t for t in known if t is not None), self.resumed_at)

    @property
    def unproductive_s(self) -> float:
        return self.detect_s + self.localise_s + self.fail_over_s + self.recompute_s

    @property
    def gpu_hours(self) -> float:
        """GPU-hours lost: all GPUs of the job are idle while the faulty one is searched."""
        return self.gpus * self.unproductive_s / HOUR_S

    def phases_s(self) -> dict[str, float]:
        """The four parts, in order."""
        return {
            "detect": self.detect_s,
            "localise": self.localise_s,
            "fail_over": self.fail_over_s,
            "recompute": self.recompute_s,
        }


def _span(start: float, end: float | None) -> float:
    return max(0.0, end - start) if end is not None else 0.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One launch of a job: training ran from ``training_at`` to ``ended_at`` (UTC seconds) and did
    steps ``first_step`` … ``last_step``.
    """

    training_at: float
    ended_at: float
    first_step: int
    last_step: int

    @property
    def steps(self) -> int:
        return max(0, self.last_step - self.first_step + 1)


def productive_intervals(attempts: Sequence[Attempt]) -> list[tuple[float, float]]:
    """Stretches whose steps are part of the final lineage, in order of time.

    Steps that a later attempt computed again were lost, so an attempt counts up to the step before
    the earliest later restart; steps are taken to be equally long within an attempt. Linear.
    """
    ordered = sorted(attempts, key=lambda a: a.training_at)
    kept: list[tuple[float, float]] = []
    horizon = math.inf
    for attempt in reversed(ordered):
        steps = min(attempt.steps, max(0, int(min(horizon, attempt.last_step + 1)) - attempt.first_step))
        if steps and attempt.ended_at > attempt.training_at:
            share = steps / attempt.steps
            kept.append((attempt.training_at, attempt.training_at + share * (attempt.ended_at - attempt.training_at)))
        horizon = min(horizon, attempt.first_step)
    return kept[::-1]


def recompute_s(attempts: Sequence[Attempt]) -> float:
    """Seconds of training that did not become part of the final lineage."""
    spent = sum(max(0.0, a.ended_at - a.training_at) for a in attempts)
    return spent - sum(b - a for a, b in productive_intervals(attempts))


def ettr(productive_s: float, wall_s: float) -> float | None:
    """Effective training time ratio in [0, 1]; None without wall-clock time."""
    return min(1.0, max(0.0, productive_s / wall_s)) if wall_s > 0 else None


def ettr_cumulative(
    productive: Sequence[tuple[float, float]],
    started_at: float,
    at: float,
) -> float | None:
    """Productive time since the start of the job over wall-clock time since then, at the moment
    ``at``.
    """
    return ettr(_overlap_s(productive, started_at, at), at - started_at)


def ettr_sliding(
    productive: Sequence[tuple[float, float]],
    started_at: float,
    at: float,
    window_s: float = HOUR_S,
) -> float | None:
    """The same over the last ``window_s`` seconds (since the start, while the job is younger)."""
    begin = max(started_at, at - window_s)
    return ettr(_overlap_s(productive, begin, at), at - begin)


def _overlap_s(intervals: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    return sum(max(0.0, min(b, end) - max(a, begin)) for a, b in intervals)


class Run(NamedTuple):
    """One job for the fleet's ratio: its GPUs, when it ran (UTC seconds) and its productive
    stretches.
    """

    gpus: float
    started_at: float
    ended_at: float
    productive: Sequence[tuple[float, float]]


def _productive_parts(run: Run) -> Iterator[tuple[float, float, float]]:
    """The stretches of a run within its times, with its GPUs."""
    for begin, end in run.productive:
        yield max(begin, run.started_at), min(end, run.ended_at), run.gpus


class Fleet:
    """Productive and wall-clock GPU-seconds of many jobs up to any moment.

    Both are integrals of step functions, kept at their steps. Building is O(n log n) in stretches,
    a query O(log n).
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        kept = [run for run in runs if run.ended_at > run.started_at and run.gpus > 0]
        self._wall = _Integral((run.started_at, run.ended_at, run.gpus) for run in kept)
        self._productive = _Integral(chain.from_iterable(map(_productive_parts, kept)))

    def wall_gpu_s(self, begin: float, end: float) -> float:
        """GPU-seconds in which jobs were running or waited to run again."""
        return self._wall.between(begin, end)

    def productive_gpu_s(self, begin: float, end: float) -> float:
        """The part of them whose steps are in the final lineage."""
        return self._productive.between(begin, end)

    def ettr(self, begin: float, end: float) -> float | None:
        """Productive over wall-clock GPU-seconds from ``begin`` to ``end``; None if no job ran."""
        return ettr(self.productive_gpu_s(begin, end), self.wall_gpu_s(begin, end))

    def ettr_sliding(self, at: float, window_s: float = HOUR_S) -> float | None:
        """The same over the last ``window_s`` seconds."""
        return self.ettr(at - window_s, at)


class _Integral:
    """∫ of a sum of weighted intervals ``(begin, end, weight)``."""

    def __init__(self, intervals: Iterable[tuple[float, float, float]]) -> None:
        change: dict[float, float] = {}
        for begin, end, weight in intervals:
            if end > begin:
                change[begin] = change.get(begin, 0.0) + weight
                change[end] = change.get(end, 0.0) - weight
        self._at = sorted(change)
        self._height: list[float] = []
        self._area: list[float] = []
        height = area = 0.0
        for n, at in enumerate(self._at):
            area += height * (at - self._at[n - 1]) if n else 0.0
            height += change[at]
            self._area.append(area)
            self._height.append(height)

    def _upto(self, at: float) -> float:
        n = bisect_right(self._at, at) - 1
        return self._area[n] + self._height[n] * (at - self._at[n]) if n >= 0 else 0.0

    def between(self, begin: float, end: float) -> float:
        return max(0.0, self._upto(end) - self._upto(begin)) if end > begin else 0.0


def recovery_s(outages: Iterable[Outage]) -> float | None:
    """Mean seconds from failure until training runs again, recomputation left out; open outages do
    not count.
    """
    known = [(o.failed_at, o.resumed_at) for o in outages if o.resumed_at is not None]
    done = [resumed_at - failed_at for failed_at, resumed_at in known if resumed_at >= failed_at]
    return sum(done) / len(done) if done else None


def failures_per_1000_node_days(failures: int, node_days: float) -> float | None:
    """``r_f`` × 1000."""
    return 1000.0 * failures / node_days if node_days > 0 else None


def rate_interval_per_1000_node_days(
    failures: int,
    node_days: float,
    level: float = 0.9,
) -> tuple[float, float] | None:
    """Exact confidence interval of the same for independent failures (Poisson; Garwood)."""
    from scipy.special import gammaincinv  # noqa: PLC0415  # heavy, and planning alone needs it

    if node_days <= 0:
        return None
    tail = (1.0 - level) / 2.0
    low = float(gammaincinv(failures, tail)) if failures else 0.0
    high = float(gammaincinv(failures + 1, 1.0 - tail))
    return 1000.0 * low / node_days, 1000.0 * high / node_days


def mttf_h(nodes: int, failures_per_node_day: float) -> float | None:
    """Mean hours until a job on ``nodes`` nodes fails: 24 / (N · r_f). The rate is per node-day,
    not per 1000.
    """
    rate = nodes * failures_per_node_day
    return 24.0 / rate if rate > 0 else None


def checkpoint_interval_s(write_s: float, nodes: int, failures_per_node_day: float) -> float | None:
    """Optimal seconds between checkpoints that block for ``write_s``: √(2 w / (N · r_f)), all in
    days (Daly, Young).
    """
    rate = nodes * failures_per_node_day
    return DAY_S * math.sqrt(2.0 * (write_s / DAY_S) / rate) if rate > 0 and write_s > 0 else None


def standbys(
    machines: int,
    daily_failure_probability: float = BYTEROBUST_P,
    quantile: float = 0.99,
) -> int:
    """Warm standbys so that with probability ``quantile`` no more machines fail in a day: that
    quantile of Binomial(N, p).

    :raises ValueError: a probability outside [0, 1] or a negative count.
    """
    if machines < 0 or not 0.0 <= daily_failure_probability <= 1.0 or not 0.0 < quantile < 1.0:
        raise ValueError("machines must not be negative and probabilities must lie within 0 and 1")
    k, reached = 0, _binomial(0, machines, daily_failure_probability)
    while reached < quantile and k < machines:
        k += 1
        reached += _binomial(k, machines, daily_failure_probability)
    return k


def _binomial(k: int, n: int, p: float) -> float:
    """Probability of exactly ``k`` of ``n``. Own code because the distributions of SciPy take a
    second to import, and pages need only this.
    """
    if p <= 0.0 or p >= 1.0:
        return float(k == (0 if p <= 0.0 else n))
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p))


def lemon_score(
    *,
    confirmed: int,
    unreviewed: float,
    alone: float = 0,
    suspended: int = 0,
) -> float:
    """Score of a node as a repeat offender, in [0, 1), from its accusations within
    :data:`LEMON_DAYS`.

    ``confirmed`` by humans, ``unreviewed`` not yet judged, each with its probability, ``alone``
    those of both in which it was the only accused, ``suspended`` times it was taken out of service.
    The score is 1 - exp(-x) with
    x = 0.5·confirmed + 0.15·unreviewed + 0.2·alone + 0.25·suspended:
    an accusation with others (a switch, a rack) counts less than one alone, and one accusation is
    never enough.
    """
    parts = lemon_parts(confirmed=confirmed, unreviewed=unreviewed, alone=alone, suspended=suspended)
    return 1.0 - math.exp(-min(sum(parts.values()), 30.0))


def lemon_parts(
    *,
    confirmed: int,
    unreviewed: float,
    alone: float,
    suspended: int,
) -> dict[str, float]:
    """The summands of ``x`` in :func:`lemon_score`, by the name of each."""
    if min(confirmed, unreviewed, alone, suspended) < 0:
        raise ValueError("counts must not be negative")
    return {
        "confirmed": 0.5 * confirmed,
        "unreviewed": 0.15 * unreviewed,
        "alone": 0.2 * min(alone, confirmed + unreviewed),
        "suspended": 0.25 * suspended,
    }
