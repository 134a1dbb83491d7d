"""The retention rule: evidence of unreviewed incidents stays; other old evidence is condensed to the lines that are
worth their space, later removed; its verdicts stay.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils import timezone

from diagnosis.model import LOG_KINDS
from ingest.models import Artifact, Job, Run
from ingest.services import evidence_removal
from ingest.services.sending import run_enqueue
from triage.models import Activity, Incident

log = logging.getLogger(__name__)

#: jobs per tidying; the next one is half an hour later
_MAX_JOBS = 50


class FreedEvidence(NamedTuple):
    job: Job
    files: int
    size_bytes: int


def jobs_to_free(*, days: int, with_unreviewed: bool = False) -> QuerySet[Job]:
    """Jobs whose evidence is older than ``days``. Jobs with unreviewed incidents only ``with_unreviewed``."""
    jobs = evidence_removal.jobs_with_old_evidence(before=timezone.now() - timedelta(days=days))
    return jobs if with_unreviewed else _reviewed_jobs(jobs)


def _reviewed_jobs(jobs: QuerySet[Job]) -> QuerySet[Job]:
    waiting = Incident.objects.filter(job=OuterRef("pk"), state=Incident.State.AWAITING_REVIEW, is_withdrawn=False)
    return jobs.filter(~Exists(waiting))


def evidence_free(jobs: QuerySet[Job]) -> Iterator[FreedEvidence]:
    """Remove the evidence of these jobs, one after another, and log each in its activity."""
    for job in jobs:
        yield _record_removal(job, evidence_removal.evidence_remove(job=job))


def _record_removal(job: Job, removed: evidence_removal.RemovedEvidence) -> FreedEvidence:
    files, size = removed
    with transaction.atomic():
        Activity.objects.create(job=job, kind="evidence_removed", data={"files": files, "bytes": size})
    log.info("evidence of %s removed: %s files, %s bytes", job.slug, files, size)
    return FreedEvidence(job, files, size)


def old_evidence_remove() -> int:
    """Apply the setting to a few jobs at once, called periodically; returns how many. Of jobs that never end, old parts
    of growing files go.
    """
    if not settings.EVIDENCE_DAYS:
        return 0
    count = sum(1 for _ in evidence_free(jobs_to_free(days=settings.EVIDENCE_DAYS)[:_MAX_JOBS]))
    before = timezone.now() - timedelta(days=settings.EVIDENCE_DAYS)
    for job in _reviewed_jobs(evidence_removal.jobs_that_never_end(before=before))[:_MAX_JOBS]:
        removed = evidence_removal.parts_remove(job=job, before=before)
        if removed.files:
            _record_removal(job, removed)
            count += 1
    return count


def old_evidence_condense() -> int:
    """Queue the condensing of a few old jobs with logs, called periodically; returns how many. Each job is tried once
    after its last file.
    """
    if not settings.CONDENSE_DAYS:
        return 0
    logs = Artifact.objects.filter(attempt__job=OuterRef("pk"), state=Artifact.State.PARSED, kind__in=LOG_KINDS)
    condense_runs = Run.objects.filter(
        job=OuterRef("pk"), kind=Run.Kind.CONDENSE, created_at__gt=OuterRef("evidence_at")
    )
    jobs = jobs_to_free(days=settings.CONDENSE_DAYS).filter(Exists(logs), ~Exists(condense_runs))
    chosen = list(jobs.filter(diagnosed_revision=F("revision"))[:_MAX_JOBS])
    for job in chosen:
        run_enqueue(Run.objects.create(job=job, kind=Run.Kind.CONDENSE, is_long=True))
    return len(chosen)
