"""Makes every Celery worker send the periodic tasks, so that no separate beat process is needed.

A thread only sends messages. It does not touch the database, because pool processes are forked from this process.
Several workers send more often than needed, which does no harm: a message that waited too long expires.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from celery.signals import worker_init, worker_process_init, worker_ready, worker_shutting_down
from django.conf import settings

from ingest import isolation

log = logging.getLogger(__name__)

SWEEP_EVERY_S = 5
TIDY_EVERY_SWEEPS = 360
_stopped = threading.Event()


@worker_init.connect
def warm(**_: Any) -> None:
    """Import what tasks use before processes are forked: they share the memory, and no task waits for the import."""
    import ingest.services.parsing  # noqa: F401, PLC0415  # not in the site's processes, which load this module too


@worker_process_init.connect
def ready(**_: Any) -> None:
    """Load the engine for the readers of each worker process before its first task."""
    if settings.READING_IS_APART:
        isolation.warm()


@worker_init.connect
def configure_slots(sender: Any = None, **_: Any) -> None:
    """Keep one process free of long work."""
    from ingest import slots  # noqa: PLC0415  # needs the settings

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
    from ingest import tasks  # noqa: PLC0415  # needs the application to be ready

    turn = 0
    while True:
        due = [tasks.sweep, *([tasks.tidy] if turn % TIDY_EVERY_SWEEPS == 0 else [])]
        for task in due:
            try:
                task.apply_async(queue="notify", retry=False, expires=3 * SWEEP_EVERY_S)
            except Exception as error:  # the broker is unreachable; the next turn tries again after any error
                log.info("the sweep waits for the broker: %s", error)
        turn += 1
        if _stopped.wait(SWEEP_EVERY_S):
            return
