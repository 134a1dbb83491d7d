"""Celery tasks of the desk: ids in, a service called, the outcome on the ``Run`` row."""

from __future__ import annotations

from celery import shared_task

from ingest.services import run_do
from triage.services.diagnosing import job_diagnose
from triage.services.learning import classifier_train, is_learning_due


@shared_task
def diagnose(run_id: int) -> None:
    run_do(run_id, job_diagnose)


@shared_task(name="triage.tasks.notify_learn")
def learn() -> None:
    if is_learning_due():  # two reviews may have asked for the same training
        classifier_train()
