"""Temporary files and local copies. They lie on the disk of the data directory: a finished file is moved, not copied.

The name of each file contains the machine and process that writes it. The sweep removes files of ended processes of
this machine at once, files of other machines after two days, and local copies of a remote storage two days after
their last use.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from django.conf import settings

from ingest import processes

PARTS, WORK, COPIES = "parts", "work", "copies"
_KEPT_S = 2 * 86_400


def part_path(name: str = "") -> Path:
    """The path of a part file: ``name`` for a file that outlives this process, else a new name of this process."""
    return folder(PARTS) / (name or f"{_own()}-{uuid4().hex}.part")


@contextlib.contextmanager
def temp_dir() -> Iterator[Path]:
    """An empty directory; it is deleted with its content afterwards, also after an error."""
    path = folder(WORK) / f"{_own()}-{uuid4().hex}"
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def copies_dir() -> Path:
    """The directory of local copies of a remote storage. Other accounts cannot read it."""
    return folder(COPIES)


def remove_abandoned() -> int:
    """Delete what ended processes left; returns the number of files and directories."""
    count = 0
    for name in (PARTS, WORK):
        for path in folder(name).iterdir():
            if _is_abandoned(path):
                count += 1
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
    return count + _clear_copies()


def _clear_copies() -> int:
    count = 0
    for path in sorted(copies_dir().rglob("*"), reverse=True):  # the content of a directory comes before it
        if path.is_dir():
            with contextlib.suppress(OSError):  # it is not empty
                path.rmdir()
        elif _is_old(path):
            path.unlink(missing_ok=True)
            count += 1
    return count


def _is_abandoned(path: Path) -> bool:
    machine, mark, rest = path.name.partition("-")
    process, _, number = rest.rpartition("-")
    if not mark or len(machine) != _DIGITS or len(number.partition(".")[0]) != 32:  # a paused upload
        return False
    if machine == _machine():
        return bool(processes.has_ended(f"{processes.machine()}#{process.replace('-', ':')}"))
    return _is_old(path)


def _is_old(path: Path) -> bool:
    try:
        return path.stat().st_mtime < time.time() - _KEPT_S
    except OSError:
        return False


_DIGITS = 10


def _machine() -> str:
    return hashlib.sha256(processes.machine().encode()).hexdigest()[:_DIGITS]


def _own() -> str:
    process = processes.process_name().rpartition("#")[2]
    return f"{_machine()}-{process.replace(':', '-')}"


def folder(name: str) -> Path:
    """The directory ``name`` in the data directory, created if missing. Other accounts cannot read it."""
    path = Path(settings.DATA_DIR) / name
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
