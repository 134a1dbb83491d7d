"""Effective training time of the whole fleet, for a period and each sliding hour (definitions: docs/metrics.md).

Uses the first and the last iteration of each attempt's logs, so that the database returns no timeline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.db.models.fields.json import KT

from diagnosis import metrics
from ingest.models import Job
from triage.models import Diagnosis
from triage.search import Query
from triage.selectors.access import visible_cluster_ids
from triage.selectors.sums import Period

#: maximum number of attempts read, the latest; the page says if some are omitted
MAX_ATTEMPTS = 2000
#: points of the curve; every hour of a hundred days
MAX_POINTS = 2400
HOUR_S = 3600.0
_ENDS = {
    name: KT(f"timeline__iterations__{at}__{key}")
    for name, at, key in (
        ("first_n", 0, "n"),
        ("first_t", 0, "t"),
        ("first_s", 0, "seconds"),
        ("last_n", -1, "n"),
        ("last_t", -1, "t"),
    )
}


@dataclass(frozen=True, slots=True)
class WeekCost:
    """GPU-hours of one week (its Monday)."""

    week: datetime
    wall_gpu_h: float
    productive_gpu_h: float

    @property
    def ettr(self) -> float | None:
        return metrics.ettr(self.productive_gpu_h, self.wall_gpu_h)

    @property
    def lost_gpu_h(self) -> float:
        return self.wall_gpu_h - self.productive_gpu_h


@dataclass(frozen=True, slots=True)
class FleetCost:
    """The fleet in a period. ``hours``: (end of the hour, ETTR), without hours in which no job ran."""

    jobs: int
    attempts: int
    left_out: int
    ettr: float | None
    lost_gpu_h: float
    hours: list[tuple[datetime, float | None]]
    weeks: list[WeekCost]

    @property
    def worst(self) -> tuple[datetime, float] | None:
        """The hour with the lowest ratio; the earliest of equals."""
        known = [(at, value) for at, value in self.hours if value is not None]
        return min(known, key=lambda row: (row[1], row[0]), default=None)


def fleet_cost(*, user: Any, query: Query, period: Period, now: datetime) -> FleetCost | None:
    """None if no attempt of the period has iterations with times.

    One query of at most ``MAX_ATTEMPTS`` rows; O(n log n) in them plus O(log n) per point of the curve.
    """
    rows = list(_rows(user, query, period)[: MAX_ATTEMPTS + 1])
    launches, gpus, ends = _launches(rows[:MAX_ATTEMPTS])
    runs = [
        metrics.Run(
            gpus=gpus[job],
            started_at=min(a.training_at for a in attempts),
            ended_at=ends[job],
            productive=metrics.productive_intervals(attempts),
        )
        for job, attempts in launches.items()
    ]
    if not runs:
        return None
    fleet = metrics.Fleet(runs)
    begin = max(period.starts_at.timestamp(), min(run.started_at for run in runs))
    end = min(period.ends_at.timestamp(), now.timestamp(), max(run.ended_at for run in runs))
    return FleetCost(
        jobs=len(runs),
        attempts=sum(map(len, launches.values())),
        left_out=max(0, len(rows) - MAX_ATTEMPTS),
        ettr=fleet.ettr(begin, end),
        lost_gpu_h=(fleet.wall_gpu_s(begin, end) - fleet.productive_gpu_s(begin, end)) / HOUR_S,
        hours=_hours(fleet, begin, end),
        weeks=_weeks(fleet, begin, end),
    )


def _rows(user: Any, query: Query, period: Period) -> QuerySet[Any, Any]:
    """First and last iterations of attempts in the period, the latest first; the newest of several diagnoses comes
    first.
    """
    jobs = Job.objects.filter(query.job_condition(), cluster__in=visible_cluster_ids(user)).order_by().values("pk")
    return (
        Diagnosis.objects.filter(
            job__in=jobs, attempt__ended_at__gte=period.starts_at, attempt__started_at__lt=period.ends_at
        )
        .order_by("-attempt__ended_at", "attempt_id", "-revision")
        .values(
            "attempt_id", "job_id", "attempt__node_count", "attempt__ended_at", "job__cluster__gpus_per_node", **_ENDS
        )
    )


def _launches(
    rows: Iterable[Mapping[str, Any]],
) -> tuple[dict[int, list[metrics.Attempt]], dict[int, float], dict[int, float]]:
    """For each job: its attempts that trained, its GPUs, and when it ended (s)."""
    launches: dict[int, list[metrics.Attempt]] = defaultdict(list)
    gpus: dict[int, float] = defaultdict(float)
    ends_by_job: dict[int, float] = defaultdict(float)
    read: set[int] = set()
    for row in rows:
        ends = [_number(row[key]) for key in ("first_n", "first_t", "last_n", "last_t")]
        if row["attempt_id"] in read or None in ends:
            continue
        read.add(row["attempt_id"])
        first, first_t, last, end = (value or 0.0 for value in ends)
        begin = first_t - (_number(row["first_s"]) or 0.0)
        if end > begin:
            launches[row["job_id"]].append(metrics.Attempt(begin, end, int(first), int(last)))
            size = (row["attempt__node_count"] or 1) * row["job__cluster__gpus_per_node"]
            gpus[row["job_id"]] = max(gpus[row["job_id"]], size)
            # a job that hangs after its last step costs time until its attempt ends
            ends_by_job[row["job_id"]] = max(ends_by_job[row["job_id"]], end, row["attempt__ended_at"].timestamp())
    return launches, gpus, ends_by_job


def _number(text: Any) -> float | None:
    """A number from JSON; SQLite returns JSON's null as the text ``null``."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


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
        low, high = max(begin, monday.timestamp()), min(end, (monday + timedelta(days=7)).timestamp())
        wall = fleet.wall_gpu_s(low, high)
        if wall:
            weeks.append(WeekCost(monday, wall / HOUR_S, fleet.productive_gpu_s(low, high) / HOUR_S))
        monday += timedelta(days=7)
    return weeks
