"""Recognises what programs that rotate logs make of a followed file: a compressed file, or a copy before it is emptied.

A renamed file keeps its inode and needs no recognition.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

#: what rotated logs are compressed to
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
#: bytes at the beginning and before the position whose digest tells whether a file holds what was sent
EDGE_BYTES = 4096
#: a file that holds nothing but the beginning of another one is left for this time after it last grew: it may be a copy
#: that is not complete yet
COPY_WAIT_S = 30.0


def edges_of(descriptor: int, position: int) -> str:
    """Digests of the first bytes, and of the last ones before ``position``. Empty at position 0."""
    size = min(EDGE_BYTES, max(0, position))
    return edges_of_parts(os.pread(descriptor, size, 0), os.pread(descriptor, size, position - size))


def edges_of_parts(first: bytes, last: bytes) -> str:
    """The same of bytes that were read: the first ones of a file, and the last ones before a position."""
    return " ".join(hashlib.sha256(part).hexdigest()[:16] for part in (first, last)) if first else ""


def has_edges(descriptor: int, position: int, edges: str) -> bool:
    """Whether a file still has these edges at ``position``. True without edges: nothing is known of it."""
    return not edges or edges_of(descriptor, position) == edges


def edges_moved(descriptor: int, former: int, edges: str, position: int) -> str:
    """The edges at another position of the same file; those of the ``former`` one if the file holds something else now,
    so that the next look sees it.
    """
    moved = edges_of(descriptor, position)
    return moved if has_edges(descriptor, former, edges) else edges


def edges_of_path(path: Path, position: int) -> str:
    """The same of a file that is not open; empty if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return ""
    try:
        return edges_of(descriptor, position)
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def first_data(descriptor: int) -> int:
    """Where the data of a file begins: a program that writes on at its old place after its log was emptied leaves a
    hole before it. 0 where the system does not say.
    """
    try:
        return os.lseek(descriptor, 0, os.SEEK_DATA)
    except (OSError, AttributeError):
        return 0


def originals_of(path: Path) -> list[Path]:
    """The paths of which this may be a rotation, by its name: ``train.log`` of ``train.log.1`` and
    ``train.log-20260301``.
    """
    return [path.with_name(path.name[:at]) for at, mark in enumerate(path.name) if at and mark in ".-_"]


def size_of(path: Path) -> int:
    """The size of a file; -1 if it is gone."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


class CopyWatch:
    """Tells of new files whether they are copies of followed ones, as ``copytruncate`` makes them."""

    def __init__(self) -> None:
        self._growing: dict[Any, tuple[int, float]] = {}  # inode -> size, time at which it had grown to that

    def may_be_unfinished(self, inode: Any, path: Path, original: Path, now: float) -> bool:
        """Whether a file holds nothing but the beginning of another one, so that a copy may be in progress."""
        size = size_of(path)
        known = self._growing.get(inode)
        if known is None or known[0] != size:
            self._growing[inode] = known = (size, now)
        is_beginning = 0 <= size <= size_of(original) and edges_of_path(path, size) == edges_of_path(original, size)
        if is_beginning and now - known[1] < COPY_WAIT_S:
            return True
        del self._growing[inode]
        return False


def is_copy(path: Path, position: int, edges: str) -> bool:
    """Whether a file holds what was sent of another one: its first ``position`` bytes have the same ``edges``."""
    return bool(edges) and size_of(path) >= position and edges_of_path(path, position) == edges
