"""Wakes workers for queued runs. The row is the truth; without a broker a run waits for a later sweep."""

from __future__ import annotations

import logging

from django.db import transaction
from django.utils import timezone

from ingest import broker
from ingest.models import Job, Run
from ingest.signals import artifact_ready

log = logging.getLogger(__name__)

#: the task of a kind of run that another layer does
_TASKS = {Run.Kind.CONDENSE: "triage.tasks.diagnose_condense", Run.Kind.PART: "triage.tasks.diagnose_part"}


def run_enqueue(run: Run) -> None:
    """Send the run's message after the commit. Without a broker only time is lost."""
    log.info("run %s (%s of job %s) is queued", run.pk, run.kind, run.job_id)
    transaction.on_commit(lambda: run_send(run))


def run_send(run: Run) -> None:
    """Send the message of a queued run; a diagnose run is signalled to the layer above, which sends it. One query."""
    if broker.is_paused():
        return
    row = Run.objects.filter(pk=run.pk)
    row.update(sent_at=timezone.now())
    if run.kind == Run.Kind.DIAGNOSE:
        revision = run.parameters.get("revision", 0)
        artifact_ready.send_robust(sender=Job, job_id=run.job_id, revision=revision, run_id=run.pk)
    elif not broker.send(_TASKS.get(Run.Kind(run.kind), f"ingest.tasks.{run.kind}"), run.pk):
        row.update(sent_at=None)
