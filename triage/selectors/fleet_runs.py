"""When the jobs of the fleet trained, and what of it counts in the end. Read once and then kept by
change: a new diagnosis reads the attempts of its job alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from ingest.models import Attempt, Job
from ingest.models.job import pool_of
from triage import metrics
from triage.domain.costs import gpus_of, training_of_attempt
from triage.models import Activity
from triage.search import Query
from triage.selectors.access import visible_cluster_ids
from triage.selectors.memory import acts_since, newest_acts, updated_result
from triage.selectors.period_figures import Effective
from triage.selectors.sums import Period

#: maximum number of attempts read, the latest; the page says if some are omitted
MAX_ATTEMPTS = 40_000
#: seconds after which everything is read again
_KEPT_S = 86_400
type Rows = QuerySet[Attempt, tuple[Any, ...]]


class JobRun(NamedTuple):
    """One job: its family, when it ran, and when its attempts ended (UTC seconds)."""

    family: str
    #: else the name is made of the framework and the model that people stated
    is_family_stated: bool
    run: metrics.Run
    ended_at: tuple[float, ...]

    def ran_within(self, begin: float, end: float) -> bool:
        return self.run.ended_at > begin and self.run.started_at < end

    def count_ended(self, begin: float, end: float) -> int:
        """How many of its attempts ended from ``begin`` on and before ``end``."""
        return sum(begin <= at < end for at in self.ended_at)


@dataclass(slots=True)
class FleetRuns:
    """The jobs that trained in a period or in the one before, by their numbers."""

    jobs: dict[int, JobRun]
    #: how many older attempts were not read
    left_out: int = 0
    #: ids of the counted acts, as far back as a late one may still commit
    acts: set[int] = field(default_factory=set)

    def within(self, low: datetime, high: datetime) -> list[JobRun]:
        """The jobs that ran between two moments."""
        begin, end = low.timestamp(), high.timestamp()
        return [one for one in self.jobs.values() if one.ran_within(begin, end)]

    def effective(self, low: datetime, high: datetime) -> Effective:
        """The fleet's ratio between two moments, and how long its jobs lasted."""
        return effective_of(self.within(low, high), low, high)


def effective_of(jobs: Iterable[JobRun], low: datetime, high: datetime) -> Effective:
    """The ratio of these jobs between two moments; the one place that computes it for a period."""
    begin, end = low.timestamp(), high.timestamp()
    wall = productive = lasted_s = 0.0
    for job in jobs:
        ran = job.run
        own_s = _overlap_s(ran.started_at, ran.ended_at, begin, end)
        lasted_s += own_s
        wall += ran.gpus * own_s
        productive += ran.gpus * sum(_overlap_s(a, b, begin, end) for a, b in ran.productive)
    return Effective(metrics.ettr(productive, wall), lasted_s)


def _overlap_s(a: float, b: float, begin: float, end: float) -> float:
    return max(0.0, min(b, end) - max(a, begin))


def fleet_runs(user: Any, query: Query, period: Period) -> FleetRuns:
    """The jobs of the query that trained in the period or in the one before. A query of new acts,
    and one of the attempts of jobs that they may have changed; the first time of at most
    ``MAX_ATTEMPTS`` attempts.
    """
    attempts = _attempts(user, query, period.before_at, period.ends_at)
    return updated_result(
        "fleet runs",
        user=user,
        parts=(query, period.before_at, period.ends_at),
        # not the hour: what is kept is true until an act changes it
        now=period.ends_at,
        cached_s=_KEPT_S,
        renew=lambda former: _renewed(attempts, former),
    )


def _renewed(attempts: Rows, former: FleetRuns | None) -> FleetRuns:
    """What is true now; ``former`` itself if nothing changed."""
    # what people decide about an incident changes no attempt
    acts = Activity.objects.filter(Q(incident=None) | Q(kind="diagnosed"))
    if former is None:
        return _read_all(attempts, newest_acts(acts))
    fresh, kept = acts_since(acts, former.acts, ("job", "incident__job"))
    if not fresh:
        return former
    changed = {job or of_incident for job, of_incident in fresh}
    if None in changed:
        return _read_all(attempts, kept)
    others = {pk: run for pk, run in former.jobs.items() if pk not in changed}
    return FleetRuns(others | _job_runs(attempts.filter(job__in=changed)), former.left_out, kept)


def _read_all(attempts: Rows, acts: set[int]) -> FleetRuns:
    rows = list(attempts[: MAX_ATTEMPTS + 1])
    return FleetRuns(_job_runs(rows[:MAX_ATTEMPTS]), max(0, len(rows) - MAX_ATTEMPTS), acts)


class _Row(NamedTuple):
    """An attempt that trained: its columns alone, because thousands of them are read."""

    job: int
    usual_gpus: int
    family: str
    framework: str
    model: str
    number: int
    node_count: int | None
    gpus: int | None
    gpus_from: str
    ended_at: datetime
    training_at: datetime
    trained_until: datetime
    first_step: int | None
    last_step: int | None


_ELSEWHERE = {
    "usual_gpus": "job__cluster__gpus_per_node",
    "family": "job__family",
    "framework": "job__declared_framework",
    "model": "job__model",
}


def _attempts(user: Any, query: Query, low: datetime, high: datetime) -> Rows:
    """The columns of attempts between two moments that trained, the latest first."""
    visible = Job.objects.filter(query.job_condition(), cluster__in=visible_cluster_ids(user))
    jobs = visible.order_by().values("pk")
    during = Attempt.objects.filter(
        job__in=jobs,
        duplicate_of=None,
        ended_at__gte=low,
        started_at__lt=high,
        training_at__isnull=False,
        trained_until__isnull=False,
    )
    columns = [_ELSEWHERE.get(name, name) for name in _Row._fields]
    return during.order_by("-ended_at", "pk").values_list(*columns)


def _job_runs(rows: Iterable[tuple[Any, ...]]) -> dict[int, JobRun]:
    by_job: dict[int, list[_Row]] = defaultdict(list)
    for row in map(_Row._make, rows):
        by_job[row.job].append(row)
    return {job: found for job, attempts in by_job.items() if (found := _job_run(attempts))}


def _job_run(attempts: Collection[_Row]) -> JobRun | None:
    """A job as one run; it costs time until its last attempt ends, also where it hangs."""
    launches = [launch for attempt in attempts if (launch := training_of_attempt(attempt))]
    if not launches:
        return None
    first, *_ = attempts
    counts = [count.gpus for attempt in attempts if (count := gpus_of(attempt, first.usual_gpus))]
    ends = tuple(row.ended_at.timestamp() for row in attempts)
    run = metrics.Run(
        gpus=max(counts, default=first.usual_gpus),
        started_at=min(launch.training_at for launch in launches),
        ended_at=max([*ends, *(launch.ended_at for launch in launches)]),
        productive=metrics.productive_intervals(launches),
    )
    family = pool_of(first.family, first.framework, first.model)
    return JobRun(family, bool(first.family), run, ends)
