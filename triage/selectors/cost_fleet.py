"""Effective training time of the whole fleet, for a period and each sliding hour (definitions:
docs/metrics.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from triage import metrics
from triage.search import Query
from triage.selectors.fleet_runs import effective_of, fleet_runs
from triage.selectors.period_figures import Effective
from triage.selectors.sums import Period

#: points of the curve; every hour of a hundred days
MAX_POINTS = 2400
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class WeekCost:
    """GPU-hours of one week (its Monday)."""

    week: datetime
    wall_gpu_h: float
    productive_gpu_h: float

    @property
    def ettr(self) -> float | None:
        return metrics.ettr(self.productive_gpu_h, self.wall_gpu_h)


@dataclass(frozen=True, slots=True)
class FleetCost:
    """The fleet in a period. ``hours``: (end of the hour, ETTR), without hours in which no job ran."""

    jobs: int
    attempts: int
    left_out: int
    effective: Effective
    hours: list[tuple[datetime, float | None]]
    weeks: list[WeekCost]

    @property
    def worst(self) -> tuple[datetime, float] | None:
        """The hour with the lowest ratio; the earliest of equals."""
        known = [(at, value) for at, value in self.hours if value is not None]
        return min(known, key=lambda row: (row[1], row[0]), default=None)


def fleet_cost(*, user: Any, query: Query, period: Period, now: datetime) -> FleetCost | None:
    """None if no attempt of the period has iterations with times.

    The queries of :func:`fleet_runs`, O(n log n) in attempts plus O(log n) per point of the curve.
    """
    known = fleet_runs(user, query, period)
    jobs = known.within(period.starts_at, period.ends_at)
    if not jobs:
        return None
    runs = [job.run for job in jobs]
    fleet = metrics.Fleet(runs)
    low, high = period.starts_at.timestamp(), period.ends_at.timestamp()
    begin = max(low, min(run.started_at for run in runs))
    end = min(high, now.timestamp(), max(run.ended_at for run in runs))
    return FleetCost(
        jobs=len(jobs),
        attempts=sum(job.count_ended(low, high) for job in jobs),
        left_out=known.left_out,
        effective=effective_of(jobs, period.starts_at, period.ends_at),
        hours=_hours(fleet, begin, end),
        weeks=_weeks(fleet, begin, end),
    )


def _hours(fleet: metrics.Fleet, begin: float, end: float) -> list[tuple[datetime, float | None]]:
    """At whole hours; every point if there are few."""
    first, last = int(begin // HOUR_S) + 1, int(-(-end // HOUR_S))
    step = max(1, -(-(last - first + 1) // MAX_POINTS))
    moments = [n * HOUR_S for n in range(first, last + 1, step)]
    return [(datetime.fromtimestamp(at, UTC), fleet.ettr_sliding(at)) for at in moments]


def _weeks(fleet: metrics.Fleet, begin: float, end: float) -> list[WeekCost]:
    first = datetime.fromtimestamp(begin, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    monday = first - timedelta(days=first.weekday())
    weeks = []
    while monday.timestamp() < end:
        low, high = (
            max(begin, monday.timestamp()),
            min(end, (monday + timedelta(days=7)).timestamp()),
        )
        wall = fleet.wall_gpu_s(low, high)
        if wall:
            weeks.append(WeekCost(monday, wall / HOUR_S, fleet.productive_gpu_s(low, high) / HOUR_S))
        monday += timedelta(days=7)
    return weeks
