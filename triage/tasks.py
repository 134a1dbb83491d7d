"""Celery tasks of triage: they take ids, call a service and record the result on the ``Run`` row."""

from __future__ import annotations

from celery import shared_task

from ingest.models import Run
from ingest.services.parts import part_do
from ingest.services.queueing import Act, work_next
from triage.services.condensing import job_condense
from triage.services.delivering import routes_send
from triage.services.diagnosing import job_diagnose
from triage.services.learning import classifier_train, is_learning_due

#: the function for a run, by its kind
_ACTS: dict[str, Act] = {Run.Kind.DIAGNOSE: job_diagnose, Run.Kind.CONDENSE: job_condense, Run.Kind.PART: part_do}


@shared_task
def diagnose(run_id: int) -> None:
    work_next(_ACTS, requested=run_id)


@shared_task(name="triage.tasks.diagnose_condense")
def condense(run_id: int) -> None:
    work_next(_ACTS, requested=run_id)


@shared_task(name="triage.tasks.diagnose_part")
def part(run_id: int) -> None:
    work_next(_ACTS, requested=run_id)


@shared_task(name="triage.tasks.notify_learn")
def learn() -> None:
    if is_learning_due():  # two reviews may have requested the same training
        classifier_train()


@shared_task(name="triage.tasks.notify_routes")
def deliver() -> None:
    routes_send()
