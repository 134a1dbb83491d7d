"""Places for long work: a Celery worker keeps one of its processes free of it, so that short work never waits long.

A place is a locked file. The system lets go of the lock when its process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
from typing import BinaryIO

from ingest import processes, scratch

_FOLDER = "places"
#: how many processes of this worker may do long work at once; None outside a worker: as many as like
_count: int | None = None
_owner = 0


def share(processes_of_worker: int) -> None:
    """Called once by the worker that will fork the processes. With a single process it does long work, too."""
    global _count, _owner  # facts of the worker, known to its forks
    _count, _owner = max(1, processes_of_worker - 1), os.getpid()
    for path in scratch.folder(_FOLDER).iterdir():
        if not processes.started(int(path.name.partition("-")[0])):
            path.unlink(missing_ok=True)


def take() -> Place | None:
    """A free place; None where all are taken."""
    if _count is None:
        return Place(None)
    for number in range(_count):
        file = (scratch.folder(_FOLDER) / f"{_owner}-{number}").open("wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
        else:
            return Place(file)
    return None


class Place:
    def __init__(self, file: BinaryIO | None) -> None:
        self._file = file

    def leave(self) -> None:
        """Make room for others. May be called again."""
        if self._file is not None:
            self._file.close()
