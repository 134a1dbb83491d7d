"""Makes every Celery worker send the periodic tasks, so that no separate beat process is needed, and say that it works.

A thread only sends messages. It does not touch the database, because pool processes are forked from this process.
Several workers send more often than needed, which does no harm: a message that waited too long expires.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress
from typing import Any

from celery.signals import (
    heartbeat_sent,
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutting_down,
)
from celery.worker import state
from django.conf import settings
from redis import RedisError

from ingest import broker, isolation, processes, slots, spans
from ingest.figures import ProcessFigures, process_tell
from ingest.services import machines

log = logging.getLogger(__name__)

SWEEP_EVERY_S = 5
TIDY_EVERY_SWEEPS = 360
#: a worker whose loop has not turned for this long hangs. After the queue was away, Celery waits half a minute at most
LOOP_MAX_S = 120.0
_stopped = threading.Event()
#: the part that this worker is (`triage.serve.parts`), and when its loop last turned
_part, _turned_at = "worker", 0.0
#: how many processes it has
_processes = 1
FIGURES_EVERY_SWEEPS = 3
worker_process_shutdown.connect(spans.flush)


@worker_process_init.connect
def ready(**_: Any) -> None:
    """Load the engine for the readers of each worker process before its first task, and sign for its machine."""
    machines.signal_alive_always()
    if settings.READING_IS_APART:
        isolation.warm()


@worker_init.connect
def configure_slots(sender: Any = None, **_: Any) -> None:
    """Keep one process free of long work."""
    global _part, _processes  # noqa: PLW0603  # facts of the worker
    _part = str(getattr(sender, "hostname", None) or "worker").partition("-")[0]
    _processes = int(getattr(sender, "concurrency", 0) or os.cpu_count() or 1)
    slots.configure(_processes)


@worker_ready.connect
def start(**_: Any) -> None:
    threading.Thread(target=_send_forever, name="sweeper", daemon=True).start()


@worker_shutting_down.connect
def stop(**_: Any) -> None:
    _stopped.set()


@heartbeat_sent.connect
def loop_turned(**_: Any) -> None:
    """Celery's loop turns: it takes messages, and restarts processes that have ended."""
    global _turned_at  # noqa: PLW0603  # one fact of the worker
    _turned_at = time.monotonic()


def _send_forever() -> None:
    turn = 0
    while True:
        send_due(is_tidied=turn % TIDY_EVERY_SWEEPS == 0)
        if turn % FIGURES_EVERY_SWEEPS == 0:
            figures_tell()
        turn += 1
        if _stopped.wait(SWEEP_EVERY_S):
            return


def send_due(*, is_tidied: bool) -> None:
    """Send the messages of periodic work, and say that this worker works, unless its loop hangs."""
    is_sent = _send("ingest.tasks.sweep")
    if is_tidied:
        is_sent = _send("ingest.tasks.tidy") and is_sent
    is_turning = time.monotonic() - _turned_at < LOOP_MAX_S
    if is_turning or not is_sent:  # a restart brings no queue back, and would end what the processes do meanwhile
        say_alive(_part)


def figures_tell() -> None:
    """For ``/metrics``: the memory of this worker with its processes and readers, and how many of them are busy."""
    memory_bytes = processes.memory_bytes(os.getpid())
    with suppress(RedisError):  # the next turn tries again
        process_tell(ProcessFigures(_part, memory_bytes, _processes, len(state.active_requests)))


def _send(task: str) -> bool:
    try:
        return broker.send(task, queue="notify", expires=3 * SWEEP_EVERY_S)
    except Exception as error:  # the next turn tries again after any error
        log.info("the sweep waits for the broker: %s", error)
        return False


def say_alive(part: str) -> None:
    """For ``faultline alive PART``."""
    path = processes.alive_path(part)
    with suppress(OSError):  # a full disk: the check then says that nothing was heard
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.touch()
