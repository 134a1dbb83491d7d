"""Slots for long work. A Celery worker keeps one of its processes free of long work, so that short work starts soon.

A slot is a locked file. The system releases the lock when the process that holds it ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
from typing import BinaryIO

from ingest import processes, temp_files

_FOLDER = "slots"
#: how many processes of this worker may do long work at once; None outside a worker: no limit
_count: int | None = None
_owner = 0
_is_alone = False


def configure(processes_of_worker: int) -> None:
    """Called once by the worker, before it forks its processes. A single process does long work, too."""
    global _count, _owner, _is_alone  # facts of the worker, known to its forks
    _count, _owner, _is_alone = max(1, processes_of_worker - 1), os.getpid(), processes_of_worker == 1
    for path in temp_files.folder(_FOLDER).iterdir():
        if not processes.id_and_start(int(path.name.partition("-")[0])):
            path.unlink(missing_ok=True)


def is_alone() -> bool:
    """Whether this worker has one process, which keeps none free of long work."""
    return _is_alone


def take() -> Slot | None:
    """A free slot; None if all are taken."""
    if _count is None:
        return Slot(None)
    for number in range(_count):
        file = (temp_files.folder(_FOLDER) / f"{_owner}-{number}").open("wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
        else:
            return Slot(file)
    return None


class Slot:
    def __init__(self, file: BinaryIO | None) -> None:
        self._file = file

    def release(self) -> None:
        """Free the slot for other processes. May be called again."""
        if self._file is not None:
            self._file.close()
