"""Celery tasks: they take an id and call a service. Messages only wake workers; ``Run`` rows hold the truth."""

from __future__ import annotations

import logging
import time
from typing import Any

from celery import current_app, shared_task
from django.utils import timezone
from kombu.exceptions import KombuError, OperationalError

from ingest.models import Run
from ingest.services import sweeping, watching
from ingest.services.queueing import work_next
from ingest.services.unpacking import upload_unpack
from ingest.signals import swept, tidied

log = logging.getLogger(__name__)

#: what sending a message raises if the broker is down
_BROKER_DOWN = (OperationalError, KombuError, OSError)
#: a client needs seconds to find that the broker is down: after a failure, nobody tries again for this long
_ASK_AGAIN_S = 15.0
_ask_again_at = 0.0
#: the next sweep sends it again: old messages need not pile up in a busy queue
_WATCH_EXPIRES_S = 30


@shared_task
def unpack(run_id: int) -> None:
    _work(run_id)


@shared_task
def parse(run_id: int) -> None:
    _work(run_id)


def _work(run_id: int) -> None:
    from ingest.services.parsing import artifacts_parse  # noqa: PLC0415  # the site only sends this

    work_next({Run.Kind.UNPACK: upload_unpack, Run.Kind.PARSE: artifacts_parse}, requested=run_id)


@shared_task
def watch(attempt_id: int) -> None:
    from ingest.services.watching import attempt_observe  # noqa: PLC0415  # the site only sends this

    attempt_observe(attempt_id)


@shared_task
def sweep() -> None:
    sweeping.sweep()
    watching.watches_judge()
    for attempt_id in watching.attempts_due():
        message_send(watch, attempt_id, expires=_WATCH_EXPIRES_S)
    swept.send_robust(sender=Run)


@shared_task
def tidy() -> None:
    sweeping.tidy()
    tidied.send_robust(sender=Run)


def run_send(run_id: int) -> None:
    """Send a run's message. Without a broker the run stays queued, and a later sweep sends it."""
    run = Run.objects.filter(pk=run_id).first()
    if run is None or time.monotonic() < _ask_again_at:
        return
    task = unpack if run.kind == Run.Kind.UNPACK else parse
    Run.objects.filter(pk=run_id).update(sent_at=timezone.now())
    if not message_send(task, run_id):
        Run.objects.filter(pk=run_id).update(sent_at=None)


def message_send(task: Any, *arguments: Any, **options: Any) -> bool:
    """Send a task's message once. False without a broker; for a while after a failure it returns False at once."""
    global _ask_again_at  # noqa: PLW0603  # one fact of the process, not of a request
    if time.monotonic() < _ask_again_at:
        return False
    try:
        task.apply_async(arguments, retry=False, **options)
    except _BROKER_DOWN as error:
        _ask_again_at = time.monotonic() + _ASK_AGAIN_S
        log.warning("the broker cannot be reached, %s%s waits: %s", task.name, arguments, error)
        return False
    return True


def queue_length(queue: str = "parse") -> int | None:
    """The number of messages in a queue; None if the broker is down."""
    if current_app.conf.task_always_eager:
        return 0
    with current_app.connection_for_read() as connection:
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=3)
            return int(connection.default_channel.queue_declare(queue, passive=True).message_count)
        except connection.channel_errors:  # an empty queue may not exist
            return 0
        except (*connection.connection_errors, *_BROKER_DOWN):
            return None
