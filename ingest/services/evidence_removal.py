"""Removes old evidence: its bytes and column files are deleted; its rows, diagnoses and verdicts stay."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from ingest import storage
from ingest.locks import lock_rows
from ingest.models import Artifact, Blob, Job, Run, Upload
from ingest.services.column_files import column_files_free

log = logging.getLogger(__name__)

#: bytes that were stored again just now may be about to be used
_MIN_BLOB_AGE = timedelta(hours=1)
_BATCH_SIZE = 500
#: replaces the key of column files if there are none: the bytes still have to be deleted
_REMOVING = "removing"
#: whether bytes of an artifact are held, or some of its lines
_IS_HELD = ~Q(state=Artifact.State.REMOVED, kept=None)


class RemovedEvidence(NamedTuple):
    files: int
    size_bytes: int


def jobs_with_old_evidence(*, before: datetime) -> QuerySet[Job]:
    """Jobs that hold evidence, got no file since ``before`` and have no queued or running work; oldest first."""
    held = Artifact.objects.filter(_IS_HELD, attempt__job=OuterRef("pk"))
    busy = Run.objects.filter(job=OuterRef("pk"), state__in=(Run.State.QUEUED, Run.State.RUNNING))
    coming = Upload.objects.filter(job=OuterRef("pk"), state__in=(Upload.State.RECEIVING, Upload.State.RECEIVED))
    last = Coalesce("evidence_changed_at", "created_at")
    old = Job.objects.annotate(evidence_at=last).filter(evidence_at__lt=before)
    return old.filter(Exists(held), ~Exists(busy), ~Exists(coming)).order_by("evidence_at", "pk")


def evidence_size(job: Job) -> RemovedEvidence:
    """The most that :func:`evidence_remove` can free: includes bytes that other jobs share."""
    sizes = _held_artifacts(job).values_list("blob_id", "blob__size_bytes").distinct()
    return RemovedEvidence(_held_artifacts(job).count(), sum(size for _, size in sizes))


def evidence_remove(*, job: Job) -> RemovedEvidence:
    """Delete the column files of a job, and the bytes of its files that no other job shares.

    Marks the rows first, then deletes the files, then completes the marks. After an interruption the next
    :func:`removal_finish` continues.
    """
    with transaction.atomic():
        lock_rows(Job.objects).get(pk=job.pk)
        held = Artifact.objects.filter(_IS_HELD, attempt__job=job)
        held.filter(parsed_key="").update(parsed_key=_REMOVING)
        held.update(state=Artifact.State.REMOVED, problem="", kept=None, kept_lines=0)
    return removal_finish(job=job)


def jobs_that_never_end(*, before: datetime) -> QuerySet[Job]:
    """Jobs with growing files and with files that were complete ``before``."""
    growing = Upload.objects.filter(job=OuterRef("pk"), state=Upload.State.RECEIVING, size_bytes=None)
    old = _parts().filter(attempt__job=OuterRef("pk"), received_at__lt=before)
    return Job.objects.filter(Exists(growing), Exists(old)).order_by("pk")


def parts_remove(*, job: Job, before: datetime) -> RemovedEvidence:
    """Delete the old parts of a running job's files: ``train.log`` once ``train.log.2`` grows. They no longer belong to
    its evidence, so that the rest is diagnosed on.
    """
    old = {row.pk: row for row in _parts().filter(attempt__job=job, received_at__lt=before)}
    later = {(row.attempt_id, _next_part(row.path)): pk for pk, row in old.items()}
    continued = Upload.objects.filter(job=job, path__in={path for _, path in later}).values_list("attempt_id", "path")
    ids = [later[key] for key in continued if key in later]
    with transaction.atomic():
        lock_rows(Job.objects).get(pk=job.pk)
        rows = Artifact.objects.filter(pk__in=ids)
        rows.filter(parsed_key="").update(parsed_key=_REMOVING)
        rows.update(state=Artifact.State.REMOVED, is_superseded=True, problem="", kept=None, kept_lines=0)
    return removal_finish(job=job) if ids else RemovedEvidence(0, 0)


def _parts() -> QuerySet[Artifact]:
    return Artifact.objects.filter(is_superseded=False, settled_at__isnull=False).exclude(state=Artifact.State.REMOVED)


def _next_part(path: str) -> str:
    """The name of the file in which a complete one goes on."""
    stem, _, number = path.rpartition(".")
    if stem and number.isascii() and number.isdigit() and len(number) < 9 and int(number) > 1:
        return f"{stem}.{int(number) + 1}"
    return f"{path}.2"


def condensed_mark(*, kept: Mapping[int, tuple[str, int]]) -> None:
    """Mark artifacts as removed but for the lines in a stored table: primary key to the table's SHA-256 and the number
    of lines. The caller's transaction; :func:`removal_finish` then deletes the files.
    """
    for number, (sha256, lines) in kept.items():
        row = Artifact.objects.filter(pk=number)
        row.filter(parsed_key="").update(parsed_key=_REMOVING)
        row.update(state=Artifact.State.REMOVED, problem="", kept=sha256, kept_lines=lines)


def removal_finish(*, job: Job | None = None) -> RemovedEvidence:
    """Delete the files of artifacts that are marked as removed, of one job or of all."""
    files = freed = 0
    while True:
        artifacts = Artifact.objects.filter(state=Artifact.State.REMOVED).exclude(parsed_key="")
        if job is not None:
            artifacts = artifacts.filter(attempt__job=job)
        rows = list(artifacts.order_by("pk").values_list("pk", "blob_id", "parsed_key")[:_BATCH_SIZE])
        if not rows:
            return RemovedEvidence(files, freed)
        freed += _blobs_free({blob for _, blob, _ in rows})
        column_files_free({key for _, _, key in rows if key != _REMOVING})
        files += Artifact.objects.filter(pk__in=[pk for pk, _, _ in rows]).update(parsed_key="")


def _held_artifacts(job: Job) -> QuerySet[Artifact]:
    return Artifact.objects.filter(attempt__job=job).exclude(state=Artifact.State.REMOVED)


def _blobs_free(sha256s: Iterable[str]) -> int:
    """Delete the bytes that no artifact needs; returns how many. The rows of blobs stay."""
    needed = Artifact.objects.filter(blob=OuterRef("pk")).exclude(state=Artifact.State.REMOVED)
    waiting = Upload.objects.filter(blob=OuterRef("pk"), state=Upload.State.RECEIVED)  # an unopened archive
    unused = Blob.objects.filter(~Exists(needed), ~Exists(waiting), sha256__in=list(sha256s))
    freed = 0
    for sha256, size in unused.values_list("sha256", "size_bytes"):
        if storage.blob_exists(sha256) and storage.blob_changed_at(sha256) < timezone.now() - _MIN_BLOB_AGE:
            storage.blob_delete(sha256)
            freed += size
    return freed
