"""Writes what each incident of a job costs. A later attempt shows how long an earlier one's job
waited for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.db import transaction

from ingest.locks import lock_rows
from ingest.models import Attempt, Job
from triage.domain.costs import Cost, cost_of, gpus_of, repeated_s, training_of, waited_s
from triage.domain.report_facts import lost_gpu_hours_of, utc_time
from triage.models import Incident

TRAINING_FIELDS = ("gpus", "gpus_from", "training_at", "trained_until", "first_step", "last_step")
COST_FIELDS = (
    "gpu_hours",
    "waited_gpu_hours",
    "repeated_gpu_hours",
    "node_hours",
    "is_cost_assumed",
)


@dataclass(frozen=True, slots=True)
class _Times:
    """Of the attempts of one job, in seconds by their numbers: waited for the next one, and
    computed again.
    """

    waited: Mapping[int, float | None]
    repeated: Mapping[int, float]

    @classmethod
    def of(cls, attempts: Iterable[Attempt]) -> _Times:
        ordered = sorted(attempts, key=lambda row: row.number)
        pairs = zip(ordered, [*ordered[1:], None], strict=True)
        waited = {row.number: waited_s(row, following) for row, following in pairs}
        return cls(waited, repeated_s(ordered))


def training_set(attempt: Attempt, timeline: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Set when the attempt trained, and its GPUs, as the timeline and the ``job`` object of a
    report have them.
    """
    training = training_of(timeline)
    attempt.gpus, attempt.gpus_from = about.get("gpus"), about.get("gpus_from") or ""
    attempt.training_at = utc_time(training.training_at) if training else None
    attempt.trained_until = utc_time(training.ended_at) if training else None
    attempt.first_step = training.first_step if training else None
    attempt.last_step = training.last_step if training else None


def costs_write(job: Job) -> set[date]:
    """Write the costs of the job's incidents again; returns the weeks of those that changed.

    Three queries, and one of each incident that only slowed the job; linear in attempts.
    """
    attempts = list(job.attempts.all())
    incidents = job.incidents.filter(is_withdrawn=False, is_imported=False)
    changed = costs_set(job, attempts, list(incidents))
    Incident.objects.bulk_update(changed, COST_FIELDS)
    return {incident.week for incident in changed}


def costs_set(job: Job, attempts: Iterable[Attempt], incidents: Iterable[Incident]) -> list[Incident]:
    """Set the costs of ``incidents``, without storing them; returns those that changed."""
    by_id = {attempt.pk: attempt for attempt in attempts}
    times = _Times.of(by_id.values())
    usual = job.cluster.gpus_per_node
    return [one for one in incidents if _set(one, _cost(one, by_id[one.attempt_id], times, usual))]


def _cost(incident: Incident, attempt: Attempt, times: _Times, usual: int) -> Cost:
    gpus, nodes = gpus_of(attempt, usual), incident.node_count
    if incident.condition == "degraded":  # it interrupted nothing
        stated = lost_gpu_hours_of(incident.diagnosis.report)
        return cost_of(gpus, nodes, lost_s=incident.lost_s, lost_gpu_hours=stated)
    waited, repeated = times.waited.get(attempt.number), times.repeated.get(attempt.number)
    return cost_of(gpus, nodes, lost_s=incident.lost_s, waited=waited, repeated=repeated)


def _set(incident: Incident, cost: Cost) -> bool:
    """Set the columns; says whether one changed."""
    former = [getattr(incident, name) for name in COST_FIELDS]
    incident.gpu_hours, incident.node_hours = cost.gpu_hours, cost.node_hours
    incident.waited_gpu_hours, incident.repeated_gpu_hours = (
        cost.waited_gpu_hours,
        cost.repeated_gpu_hours,
    )
    incident.is_cost_assumed = cost.is_assumed
    return former != [getattr(incident, name) for name in COST_FIELDS]


def costs_rewrite() -> Iterator[int]:
    """Write the training times, GPUs and costs of all stored jobs again, job by job; yields how
    many are done.

    For databases of former versions: reads the newest report of each attempt.
    """
    diagnosed = Job.objects.filter(diagnoses__isnull=False).distinct()
    jobs = diagnosed.select_related("cluster").order_by("pk")
    for done, job in enumerate(jobs.iterator(chunk_size=100), 1):
        with transaction.atomic():
            lock_rows(Job.objects).get(pk=job.pk)
            _attempts_rewrite(job)
            costs_write(job)
        yield done


def _attempts_rewrite(job: Job) -> None:
    newest = {row.attempt_id: row for row in job.diagnoses.order_by("revision")}
    attempts = list(job.attempts.filter(pk__in=newest))
    for attempt in attempts:
        row = newest[attempt.pk]
        training_set(attempt, row.timeline, row.report.get("job") or {})
    Attempt.objects.bulk_update(attempts, TRAINING_FIELDS)
