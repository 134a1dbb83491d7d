"""Deletes a job or cluster with everything that belongs to it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.files.storage import storages
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from ingest import temp_files
from ingest.locks import lock_rows
from ingest.models import Cluster, HistoryEntry, Job, Upload
from ingest.refusals import Refused
from ingest.signals import job_deleting

#: an upload without new bytes for this long delays nothing
_MAX_UPLOAD_PAUSE = timedelta(minutes=10)


@transaction.atomic
def job_delete(*, job: Job, user: Any, reason: str = "") -> None:
    """Delete the job's rows and files. Bytes that other jobs share stay; the next tidying deletes the others.

    Receivers of ``job_deleting`` may refuse, and record what is lost. Work on its evidence is cancelled: its run is
    deleted with it, and a worker that has no run writes nothing.

    Raises:
        Refused: (409) while its evidence arrives; whatever a receiver of the signal refuses.
    """
    job = lock_rows(Job.objects).get(pk=job.pk)
    job_deleting.send(sender=Job, job=job, user=user, reason=reason)
    if sentence := busy_with(job):
        raise Refused(sentence, code="job_busy", status=409)
    _jobs_delete(Job.objects.filter(pk=job.pk))


@transaction.atomic
def cluster_delete(*, cluster: Cluster) -> None:
    """Delete a cluster with its nodes and jobs, their rows and files. No record of them remains.

    Raises:
        Refused: (409) while evidence of one of its jobs arrives.
    """
    jobs = Job.objects.filter(cluster=cluster)
    for job in jobs.filter(Exists(Upload.objects.filter(job=OuterRef("pk")))):
        if sentence := busy_with(job):
            raise Refused(f"{job.name}: {sentence}", code="job_busy", status=409)
    _jobs_delete(jobs)
    cluster.delete()


def _jobs_delete(jobs: QuerySet[Job]) -> None:
    history = list(HistoryEntry.objects.filter(job__in=jobs).values_list("key", flat=True))
    parts = list(Upload.objects.filter(job__in=jobs, state=Upload.State.RECEIVING).values_list("pk", flat=True))
    jobs.delete()
    transaction.on_commit(lambda: _files_delete(history, [f"{pk}.part" for pk in parts]))


def busy_with(job: Job) -> str:
    """A sentence about evidence of the job that arrives now; empty if there is none."""
    coming = Upload.objects.filter(job=job, state=Upload.State.RECEIVING)
    if coming.filter(updated_at__gt=timezone.now() - _MAX_UPLOAD_PAUSE).exists():
        return "Evidence of the job is being sent: wait until it is complete, then delete the job."
    return ""


def _files_delete(history: list[str], parts: list[str]) -> None:
    for key in history:
        storages["parsed"].delete(key)
    for name in parts:
        temp_files.part_path(name).unlink(missing_ok=True)
