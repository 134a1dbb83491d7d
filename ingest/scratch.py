"""Unfinished files and local copies, on the disk of the data directory so that finished ones are moved, not copied.

Each bears the name of the process that makes it. What a process leaves behind that was killed is found by that name and
thrown away; what another machine's left, after two days. So are copies
of what lies in a remote storage, two days after they were last asked for.
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
    """Where a part file grows: under ``name`` if it is to outlive this process, else under one of its own."""
    return folder(PARTS) / (name or f"{_own()}-{uuid4().hex}.part")


@contextlib.contextmanager
def room() -> Iterator[Path]:
    """An empty directory, gone afterwards with what is left in it."""
    path = folder(WORK) / f"{_own()}-{uuid4().hex}"
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def copies() -> Path:
    """Where files of a remote storage are kept near for whoever reads them next; no other account may look."""
    return folder(COPIES)


def clear() -> int:
    """Throw away what processes left that are gone; returns how many files and directories that were."""
    count = 0
    for name in (PARTS, WORK):
        for path in folder(name).iterdir():
            if _is_left(path):
                count += 1
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
    return count + _clear_copies()


def _clear_copies() -> int:
    count = 0
    for path in sorted(copies().rglob("*"), reverse=True):  # what lies in a directory comes before it
        if path.is_dir():
            with contextlib.suppress(OSError):  # others lie in it
                path.rmdir()
        elif _is_old(path):
            path.unlink(missing_ok=True)
            count += 1
    return count


def _is_left(path: Path) -> bool:
    place, mark, rest = path.name.partition("-")
    process, _, number = rest.rpartition("-")
    if not mark or len(place) != _DIGITS or len(number.partition(".")[0]) != 32:  # an upload that goes on some time
        return False
    if place == _machine():
        return bool(processes.is_gone(f"{processes.machine()}#{process.replace('-', ':')}"))
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
    process = processes.own().rpartition("#")[2]
    return f"{_machine()}-{process.replace(':', '-')}"


def folder(name: str) -> Path:
    """A directory of this name beside the evidence, made if need be; no other account may look."""
    place = Path(settings.DATA_DIR) / name
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place
