"""A person ends work on a job's evidence. What was done stays, and the work can be started again."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from ingest.locks import lock_rows
from ingest.models import Job, Run, RunLog
from ingest.services.revisions import revision_close
from ingest.services.runs import run_retry
from ingest.services.settling import SETTLING
from ingest.signals import run_cancelled

_OPEN = (Run.State.QUEUED, Run.State.RUNNING)


@transaction.atomic
def run_cancel(*, run: Run, user: Any) -> bool:
    """Cancel a queued or running run. Its worker notices within seconds, ends its reader and writes nothing more.

    False if the run has ended, or is a part of another one, which is cancelled with that.
    """
    lock_rows(Job.objects).get(pk=run.job_id)
    sentence = f"{user.get_full_name() or user.get_username()} cancelled this before it was done."
    row = Run.objects.filter(pk=run.pk, state__in=_OPEN).exclude(kind=Run.Kind.PART)
    ended = {"state": Run.State.CANCELLED, "error": sentence, "ended_at": timezone.now(), "worker": "", "stage": ""}
    if not row.update(**ended):
        return False
    Run.objects.filter(job_id=run.job_id, kind=Run.Kind.PART, parameters__of=run.pk).delete()
    RunLog.objects.create(run=run, level=RunLog.Level.WARNING, message=sentence)
    SETTLING[Run.Kind(run.kind)].on_failure(run, f"{sentence} Start it again on the page of the job.")
    run_cancelled.send(sender=Run, run=run, user=user)
    revision_close(job_id=run.job_id)
    return True


def runs_cancel(*, job: Job, user: Any) -> int:
    """Cancel all open work on the job's evidence; how many runs that were. Two queries and some more for each."""
    rows = Run.objects.filter(job=job, state__in=_OPEN).exclude(kind=Run.Kind.PART)
    return sum(run_cancel(run=run, user=user) for run in rows.order_by("pk"))


def runs_resume(*, job: Job) -> int:
    """Start all cancelled work of the job again; how many runs that are."""
    return sum(run_retry(run=run) for run in Run.objects.filter(job=job, state=Run.State.CANCELLED).order_by("pk"))
