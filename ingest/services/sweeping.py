"""Repairs the effects of lost messages, dead workers and an unreachable broker. Safe to run at any time."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from ingest import broker, storage, temp_files
from ingest.models import Blob, IdempotencyKey, Run, Upload
from ingest.refusals import Refused
from ingest.services import machines
from ingest.services.evidence_removal import removal_finish
from ingest.services.jobs import silent_jobs_end
from ingest.services.resuming import upload_close
from ingest.services.revisions import jobs_due, revision_close
from ingest.services.runs import end_of, run_abandon, run_fail
from ingest.services.sending import run_send
from ingest.services.work import RUN_TOO_LONG, is_overdue

log = logging.getLogger(__name__)

#: in a busy queue, a sent message counts as lost after this time
_LOST_AFTER = timedelta(minutes=10)
#: in an idle queue, where workers take messages at once, it counts as lost sooner
_IDLE_AFTER = timedelta(seconds=15)
_PART_KEPT = timedelta(days=2)
#: a live upload without bytes for this long has lost its sender: the received bytes are its file
_LIVE_SILENT = timedelta(hours=6)
_BLOB_KEPT = timedelta(hours=1)
_ANSWERS_KEPT = timedelta(days=1)
_MAX_ROWS = 200
#: of a blob that nothing refers to
_UNUSED = {"artifacts": None, "uploads": None, "kept_artifacts": None}


def sweep() -> None:
    """Requeue the runs of dead workers, send unsent messages, diagnose due jobs."""
    running = list(Run.objects.filter(state=Run.State.RUNNING).order_by("pk")[:_MAX_ROWS])
    for run in running:
        if is_overdue(run) and end_of(run) is None:  # it may hang in a call that renews its lease
            run_fail(run, RUN_TOO_LONG.format(seconds=settings.RUN_LIMIT_S))
    left = [(run, end) for run in running if (end := end_of(run)) is not None]
    if left:
        temp_files.remove_abandoned()
    for run, end in left:
        run_abandon(run, end)
    now = timezone.now()
    waiting = broker.queue_length()
    patience = _IDLE_AFTER if waiting == 0 else _LOST_AFTER
    if waiting is not None:
        lost = Run.objects.filter(Q(sent_at=None) | Q(sent_at__lt=now - patience), state=Run.State.QUEUED)
        for run in lost.order_by("pk")[:_MAX_ROWS]:
            run_send(run)
    for job_id in jobs_due():
        revision_close(job_id=job_id)


def tidy() -> None:
    """Delete part files of abandoned uploads, unused blobs and old idempotency answers, and end silent jobs."""
    now = timezone.now()
    temp_files.remove_abandoned()
    machines.forget_silent()
    removal_finish()
    silent_jobs_end(now)
    IdempotencyKey.objects.filter(created_at__lt=now - _ANSWERS_KEPT).delete()
    silent = Upload.objects.filter(state=Upload.State.RECEIVING, size_bytes=None, updated_at__lt=now - _LIVE_SILENT)
    for upload in silent.select_related("job", "attempt")[:_MAX_ROWS]:
        try:
            upload_close(upload=upload)
        except Refused as refusal:
            log.warning("live upload %s stays open: %s", upload.pk, refusal.detail)
    for upload in Upload.objects.filter(state=Upload.State.RECEIVING, updated_at__lt=now - _PART_KEPT)[:_MAX_ROWS]:
        temp_files.part_path(f"{upload.pk}.part").unlink(missing_ok=True)
        upload.state = Upload.State.REFUSED
        upload.problem = f"{upload.path} was not sent completely: send it again."
        upload.save(update_fields=["state", "problem", "updated_at"])
    Run.objects.filter(kind=Run.Kind.PART, ended_at__lt=now - _ANSWERS_KEPT).delete()
    unused = Blob.objects.filter(**_UNUSED, created_at__lt=now - _BLOB_KEPT)
    for blob in unused[:_MAX_ROWS]:
        if (
            storage.blob_changed_at(blob.sha256) < now - _BLOB_KEPT
            and Blob.objects.filter(pk=blob.pk, **_UNUSED).delete()[0]
        ):
            storage.blob_delete(blob.sha256)
