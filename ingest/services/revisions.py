"""When a job is diagnosed: all its evidence is read, and somebody requested it or no more files arrive."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Q, Sum
from django.utils import timezone

from ingest.locks import lock_rows
from ingest.models import Artifact, Job, Run, Upload
from ingest.services.sending import run_enqueue

#: an upload that stopped growing this long ago delays nothing
_STALLED_AFTER = timedelta(minutes=2)
#: a diagnosis of more files or lines than this is long work
_MAX_SHORT_FILES, _MAX_SHORT_LINES = 2000, 2_000_000


@transaction.atomic
def diagnosis_request(*, job: Job, user: Any = None, is_forced: bool = False) -> Run | None:
    """Diagnose the job's evidence as soon as it is read; with ``is_forced`` even if this revision was diagnosed.

    Returns the diagnose run of the current revision, queued, running or done; None while evidence is being read (the
    run follows automatically).
    """
    job = lock_rows(Job.objects).get(pk=job.pk)
    if is_forced and job.diagnosing_revision >= job.revision and not _is_diagnosing(job):
        Job.objects.filter(pk=job.pk).update(revision=F("revision") + 1)
    Job.objects.filter(pk=job.pk).update(is_diagnosis_wanted=True)
    run = revision_close(job_id=job.pk)
    return (
        run or Run.objects.filter(job=job, kind=Run.Kind.DIAGNOSE).order_by("-pk").first() if _is_current(job) else run
    )


@transaction.atomic
def revision_close(*, job_id: int) -> Run | None:
    """Queue the one diagnosis of the current revision if it is due. Called after every change that can make it due."""
    job = lock_rows(Job.objects).get(pk=job_id)
    if job.revision <= job.diagnosing_revision or not _is_settled(job) or _is_diagnosing(job):
        return None
    waited = timezone.now() - (job.evidence_changed_at or job.created_at)
    last = (
        Artifact.objects.filter(attempt__job=job).order_by("-settled_at").values_list("settled_at", flat=True).first()
    )
    if last is not None:
        waited = timezone.now() - last
    if not job.is_diagnosis_wanted and waited < timedelta(seconds=settings.DIAGNOSE_AFTER_S):
        return None
    claimed = Job.objects.filter(pk=job.pk, revision=job.revision, diagnosing_revision__lt=job.revision)
    if not claimed.update(diagnosing_revision=job.revision, is_diagnosis_wanted=False):
        return None
    run = Run.objects.create(
        job=job, kind=Run.Kind.DIAGNOSE, parameters={"revision": job.revision}, is_long=_is_long(job)
    )
    run_enqueue(run)
    return run


def jobs_due() -> list[int]:
    """Jobs with evidence but no diagnosis of the current revision: the sweep checks whether each is due."""
    waiting = Job.objects.filter(revision__gt=F("diagnosing_revision")).exclude(_unsettled())
    return list(waiting.order_by("evidence_changed_at").values_list("pk", flat=True)[:200])


def _unsettled() -> Q:
    states = (Artifact.State.RECEIVED, Artifact.State.PARSING)
    return Q(pk__in=Artifact.objects.filter(state__in=states).values("attempt__job_id"))


def _is_settled(job: Job) -> bool:
    states = (Artifact.State.RECEIVED, Artifact.State.PARSING)
    if Artifact.objects.filter(attempt__job=job, state__in=states).exists():
        return False
    # a live upload holds nothing up: a job is diagnosed while it runs
    growing = Q(state=Upload.State.RECEIVING, updated_at__gt=timezone.now() - _STALLED_AFTER, size_bytes__isnull=False)
    return not job.uploads.filter(growing | Q(state=Upload.State.RECEIVED)).exists()


def _is_long(job: Job) -> bool:
    totals = Artifact.objects.filter(attempt__job=job, is_superseded=False).aggregate(
        files=Count("pk"), lines=Sum("lines", default=0)
    )
    return bool(totals["files"] > _MAX_SHORT_FILES or totals["lines"] > _MAX_SHORT_LINES)


def _is_diagnosing(job: Job) -> bool:
    active = (Run.State.QUEUED, Run.State.RUNNING)
    return Run.objects.filter(job=job, kind=Run.Kind.DIAGNOSE, state__in=active).exists()


def _is_current(job: Job) -> bool:
    return Job.objects.filter(pk=job.pk, diagnosing_revision__gte=F("revision")).exists()
