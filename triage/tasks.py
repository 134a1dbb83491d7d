"""Celery tasks of triage: they take ids, call a service and record the result on the ``Run`` row."""

from __future__ import annotations

from celery import shared_task

from ingest.models import Run
from ingest.services.queueing import work_next
from triage.services.delivering import routes_send
from triage.services.diagnosing import job_diagnose
from triage.services.learning import classifier_train, is_learning_due


@shared_task
def diagnose(run_id: int) -> None:
    work_next({Run.Kind.DIAGNOSE: job_diagnose}, requested=run_id)


@shared_task(name="triage.tasks.notify_learn")
def learn() -> None:
    if is_learning_due():  # two reviews may have requested the same training
        classifier_train()


@shared_task(name="triage.tasks.notify_routes")
def deliver() -> None:
    routes_send()
