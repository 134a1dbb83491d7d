"""Signs of life of the machines that run workers, so that the work of a lost machine is repeated after a minute.

Each worker process signs for its machine. A sign proves nothing of a run: only the run's work renews its lease. Times
are those of the database, because clocks of machines differ. With SQLite all workers are on one machine, which knows
its own processes.

Each machine also leaves a mark in the data directory, by which :mod:`triage.services.doctor` finds that it is another
directory than that of the others.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from ingest import processes
from ingest.models import Machine

log = logging.getLogger(__name__)

_SIGNAL_EVERY_S = 15
_SILENT_AFTER = timedelta(minutes=1)
_FORGOTTEN_AFTER = timedelta(days=7)


def signal_alive() -> None:
    """State that this machine is there."""
    row = Machine(name=processes.machine(), seen_at=Now())
    Machine.objects.bulk_create([row], update_conflicts=True, unique_fields=["name"], update_fields=["seen_at"])
    mark = _mark_path(row.name)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


def hosts_elsewhere() -> list[str]:
    """Hosts of the machines that are there, but work in another data directory than this process."""
    there = Machine.objects.filter(seen_at__gte=Now() - _SILENT_AFTER).order_by("name").values_list("name", flat=True)
    return [name.partition("/")[0] for name in there if not _mark_path(name).exists()]


def _mark_path(name: str) -> Path:
    return Path(settings.DATA_DIR) / "machines" / hashlib.sha256(name.encode()).hexdigest()[:24]


def is_silent(process: str) -> bool:
    """Whether the machine of this process (:func:`ingest.processes.process_name`) was there, but not for a minute."""
    machine = process.rpartition("#")[0]
    return Machine.objects.filter(name=machine, seen_at__lt=Now() - _SILENT_AFTER).exists()


def forget_silent() -> None:
    """Delete the rows and marks of machines that are silent for long."""
    Machine.objects.filter(seen_at__lt=Now() - _FORGOTTEN_AFTER).delete()
    for mark in (Path(settings.DATA_DIR) / "machines").glob("*"):
        with suppress(FileNotFoundError):  # another machine tidies as well
            if mark.stat().st_mtime < time.time() - _FORGOTTEN_AFTER.total_seconds():
                mark.unlink()


def signal_alive_always() -> None:
    """Sign from now on until this process ends, in a thread."""
    if connection.vendor != "sqlite":
        threading.Thread(target=_signal_forever, name="signs of life", daemon=True).start()


def _signal_forever() -> None:
    pause = threading.Event()
    while True:
        try:
            signal_alive()
        except Exception as error:  # the next turn tries again after any error
            log.info("the sign of life waits for the database: %s", error)
        connection.close()  # it would be idle until the next turn
        pause.wait(_SIGNAL_EVERY_S)
