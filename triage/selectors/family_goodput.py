"""Effective training time of each family of jobs over the last weeks, and what it lost most by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Count, Sum

from ingest.models.job import pool_of
from triage import metrics
from triage.search import Query
from triage.selectors.fleet_runs import JobRun, effective_of, fleet_runs
from triage.selectors.incidents import incidents_visible_to
from triage.selectors.period_figures import Effective
from triage.selectors.sums import Period, in_period

#: each point of a curve is the ratio of so many days
ROLLING_DAYS = 28
MAX_FAMILIES = 12
MAX_CAUSES = 3


class Cause(NamedTuple):
    """A category that cost a family GPU-hours within the last days."""

    category: str
    incidents: int
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class Family:
    """A family: its ratio in the period, each day's ratio of the last :data:`ROLLING_DAYS`, and
    their causes, the costliest first. ``name`` is empty for jobs of which nobody stated one.
    """

    name: str
    is_stated: bool
    jobs: int
    gpu_hours: float
    effective: Effective
    rolling: list[tuple[datetime, float | None]]
    causes: list[Cause] = field(default_factory=list)

    @property
    def latest(self) -> float | None:
        """The ratio of the last days of the period."""
        return self.rolling[-1][1] if self.rolling else None


def family_goodput(*, user: Any, query: Query, period: Period, now: datetime) -> list[Family]:
    """The families with most GPU-hours in the period. The queries of :func:`fleet_runs`, and one of
    the incidents of the last days; linear in attempts, and in days × families.
    """
    by_name: defaultdict[str, list[JobRun]] = defaultdict(list)
    known = fleet_runs(user, query, period)
    for job in known.jobs.values():
        by_name[job.family].append(job)
    causes = _causes(user, query, period, now)
    days = list(_days(period, now))
    families = [_family(name, jobs, period, days) for name, jobs in by_name.items()]
    with_causes = [replace(one, causes=_costliest(causes.get(one.name, []))) for one in families]
    of_period = [family for family in with_causes if family.jobs]
    return sorted(of_period, key=lambda family: (-family.gpu_hours, family.name))[:MAX_FAMILIES]


def _costliest(causes: list[Cause]) -> list[Cause]:
    return sorted(causes, key=lambda cause: (-cause.gpu_hours, cause.category))[:MAX_CAUSES]


def _family(name: str, jobs: list[JobRun], period: Period, days: list[datetime]) -> Family:
    low, high = period.starts_at, period.ends_at
    fleet = metrics.Fleet([job.run for job in jobs])
    begin, end = low.timestamp(), high.timestamp()
    window_s = ROLLING_DAYS * metrics.DAY_S
    return Family(
        name=name,
        is_stated=any(job.is_family_stated for job in jobs),
        jobs=sum(job.ran_within(begin, end) for job in jobs),
        gpu_hours=fleet.wall_gpu_s(begin, end) / metrics.HOUR_S,
        effective=effective_of(jobs, low, high),
        rolling=[(at, fleet.ettr_sliding(at.timestamp(), window_s)) for at in days],
    )


def _days(period: Period, now: datetime) -> Iterator[datetime]:
    """The ends of the days of the period; the last one is now if its day is not over."""
    for day in range(1, period.days + 1):
        at = period.starts_at + timedelta(days=day)
        yield min(at, now)
        if at >= now:
            return


def _causes(user: Any, query: Query, period: Period, now: datetime) -> dict[str, list[Cause]]:
    """By family, from the incidents of the last days of the period. One query."""
    incidents = query.apply(incidents_visible_to(user), user=user, now=now)
    since = max(period.starts_at, period.ends_at - timedelta(days=ROLLING_DAYS))
    recent = in_period(incidents, since, period.ends_at).filter(gpu_hours__gt=0)
    names = ("job__family", "job__declared_framework", "job__model", "standing_category")
    sums = recent.values_list(*names).annotate(incidents=Count("pk"), hours=Sum("gpu_hours"))
    found: defaultdict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for family, framework, model, category, incident_count, hours in sums:
        found[pool_of(family, framework, model), category].append((incident_count, hours))
    causes: defaultdict[str, list[Cause]] = defaultdict(list)
    for (family, category), parts in found.items():
        count, hours = sum(n for n, _ in parts), sum(cost for _, cost in parts)
        causes[family].append(Cause(category, count, hours))
    return causes
