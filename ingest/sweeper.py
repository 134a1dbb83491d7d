"""Makes every Celery worker send the periodic tasks, so that no separate beat process is needed.

A thread only sends messages. It does not touch the database, because pool processes are forked from this process.
Several workers send more often than needed, which does no harm: a message that waited too long expires.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from celery.signals import (
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutting_down,
)
from django.conf import settings

from ingest import broker, isolation, slots, spans
from ingest.services import machines

log = logging.getLogger(__name__)

SWEEP_EVERY_S = 5
TIDY_EVERY_SWEEPS = 360
_stopped = threading.Event()
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
    slots.configure(int(getattr(sender, "concurrency", 0) or os.cpu_count() or 1))


@worker_init.connect
def quiet_sweep_logging(**_: Any) -> None:
    """Keep Celery's two lines per sweep out of the log: they would hide all other lines."""
    for name in ("celery.app.trace", "celery.worker.strategy"):
        logging.getLogger(name).addFilter(lambda record: "ingest.tasks.sweep" not in record.getMessage())


@worker_ready.connect
def start(**_: Any) -> None:
    threading.Thread(target=_send_forever, name="sweeper", daemon=True).start()


@worker_shutting_down.connect
def stop(**_: Any) -> None:
    _stopped.set()


def _send_forever() -> None:
    turn = 0
    while True:
        due = ["ingest.tasks.sweep", *(["ingest.tasks.tidy"] if turn % TIDY_EVERY_SWEEPS == 0 else [])]
        for task in due:
            try:
                broker.send(task, queue="notify", expires=3 * SWEEP_EVERY_S)
            except Exception as error:  # the next turn tries again after any error
                log.info("the sweep waits for the broker: %s", error)
        turn += 1
        if _stopped.wait(SWEEP_EVERY_S):
            return
