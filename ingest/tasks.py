"""Celery tasks: they take an id and call a service. Messages only wake workers; ``Run`` rows hold the truth.

Only workers import this module; all others send by name (:mod:`ingest.broker`).
"""

from __future__ import annotations

from celery import shared_task
from django.core.cache import cache

from ingest import broker
from ingest.models import Run
from ingest.services import collecting, sweeping, watching
from ingest.services.artifact_parsing import artifacts_parse
from ingest.services.planner_statistics import statistics_refresh
from ingest.services.queueing import Act, work_next
from ingest.services.unpacking import upload_unpack
from ingest.signals import swept, tidied

#: the function for a run, by its kind
_ACTS: dict[str, Act] = {Run.Kind.UNPACK: upload_unpack, Run.Kind.PARSE: artifacts_parse}
#: the next sweep sends it again: old messages need not pile up in a busy queue
_WATCH_EXPIRES_S = 30
#: every worker sends sweeps (:mod:`ingest.sweeper`): one of those that arrive within this time does the work
_SWEEP_AGAIN_S = 4


@shared_task
def unpack(run_id: int) -> None:
    work_next(_ACTS, requested=run_id)


@shared_task
def parse(run_id: int) -> None:
    work_next(_ACTS, requested=run_id)


@shared_task
def watch(attempt_id: int) -> None:
    watching.attempt_observe(attempt_id)


@shared_task
def sweep() -> None:
    if not cache.add("swept", True, timeout=_SWEEP_AGAIN_S):
        return
    sweeping.sweep()
    collecting.streams_close()
    watching.watches_judge()
    for attempt_id in watching.attempts_due():
        broker.send("ingest.tasks.watch", attempt_id, expires=_WATCH_EXPIRES_S)
    swept.send_robust(sender=Run)


@shared_task
def tidy() -> None:
    sweeping.tidy()
    statistics_refresh()
    tidied.send_robust(sender=Run)
