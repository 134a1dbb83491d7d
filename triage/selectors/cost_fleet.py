"""Effective training time of the whole fleet, for a period and each sliding hour (definitions:
docs/metrics.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from diagnosis import metrics
from ingest.models import Attempt, Job
from triage.domain.costs import gpus_of, training_of_attempt
from triage.search import Query
from triage.selectors.access import visible_cluster_ids
from triage.selectors.sums import Period

#: maximum number of attempts read, the latest; the page says if some are omitted
MAX_ATTEMPTS = 20_000
#: points of the curve; every hour of a hundred days
MAX_POINTS = 2400
HOUR_S = 3600.0
_COLUMNS = (
    *(
        "job__cluster__gpus_per_node",
        "number",
        "node_count",
        "gpus",
        "gpus_from",
        "started_at",
        "ended_at",
    ),
    *("training_at", "trained_until", "first_step", "last_step"),
)


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
    ettr: float | None
    hours: list[tuple[datetime, float | None]]
    weeks: list[WeekCost]

    @property
    def worst(self) -> tuple[datetime, float] | None:
        """The hour with the lowest ratio; the earliest of equals."""
        known = [(at, value) for at, value in self.hours if value is not None]
        return min(known, key=lambda row: (row[1], row[0]), default=None)


def fleet_cost(*, user: Any, query: Query, period: Period, now: datetime) -> FleetCost | None:
    """None if no attempt of the period has iterations with times.

    One query of at most ``MAX_ATTEMPTS`` rows, O(n log n) in them plus O(log n) per point of the
    curve.
    """
    rows = list(_attempts(user, query, period.starts_at, period.ends_at)[: MAX_ATTEMPTS + 1])
    runs = _runs(rows[:MAX_ATTEMPTS])
    if not runs:
        return None
    fleet = metrics.Fleet(runs)
    begin = max(period.starts_at.timestamp(), min(run.started_at for run in runs))
    end = min(period.ends_at.timestamp(), now.timestamp(), max(run.ended_at for run in runs))
    return FleetCost(
        jobs=len(runs),
        attempts=min(len(rows), MAX_ATTEMPTS),
        left_out=max(0, len(rows) - MAX_ATTEMPTS),
        ettr=fleet.ettr(begin, end),
        hours=_hours(fleet, begin, end),
        weeks=_weeks(fleet, begin, end),
    )


def _attempts(user: Any, query: Query, low: datetime, high: datetime) -> QuerySet[Attempt]:
    """The attempts between two moments that trained, the latest first."""
    jobs = Job.objects.filter(query.job_condition(), cluster__in=visible_cluster_ids(user)).order_by().values("pk")
    during = Attempt.objects.filter(
        job__in=jobs,
        duplicate_of=None,
        ended_at__gte=low,
        started_at__lt=high,
        training_at__isnull=False,
        trained_until__isnull=False,
    )
    return during.select_related("job__cluster").only(*_COLUMNS).order_by("-ended_at", "pk")


def _runs(attempts: Iterable[Attempt]) -> list[metrics.Run]:
    """Each job as one run. A job that hangs after its last step costs time until its attempt
    ends.
    """
    by_job: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_job[attempt.job_id].append(attempt)
    return [_run(own) for own in by_job.values()]


def _run(attempts: list[Attempt]) -> metrics.Run:
    launches = [launch for attempt in attempts if (launch := training_of_attempt(attempt))]
    usual = attempts[0].job.cluster.gpus_per_node
    counts = [count.gpus for attempt in attempts if (count := gpus_of(attempt, usual))]
    ends = [attempt.ended_at.timestamp() for attempt in attempts if attempt.ended_at]
    return metrics.Run(
        gpus=max(counts, default=usual),
        started_at=min(launch.training_at for launch in launches),
        ended_at=max([*ends, *(launch.ended_at for launch in launches)]),
        productive=metrics.productive_intervals(launches),
    )


def fleet_ettr(*, user: Any, query: Query, low: datetime, high: datetime) -> tuple[float | None, float]:
    """The fleet's ratio between two moments, and the seconds that its jobs lasted. One query, as
    above.
    """
    runs = _runs(_attempts(user, query, low, high)[:MAX_ATTEMPTS])
    begin, end = low.timestamp(), high.timestamp()
    lasted_s = sum(max(0.0, min(run.ended_at, end) - max(run.started_at, begin)) for run in runs)
    return metrics.Fleet(runs).ettr(begin, end), lasted_s


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
