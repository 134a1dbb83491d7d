"""One followed file on the disk: its bytes, and whether it still holds what was sent of it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from faultline import rotation

#: a change of the file is seen by its time of change, but not within this after it: clocks of file systems are coarse
_COARSE_CLOCK_NS = 1_000_000_000


class ChangedFile(Exception):
    """The file was emptied or replaced while it was read: the next look sees what it holds now."""


class Chunk(NamedTuple):
    """Bytes of a file from ``position`` on, in memory until the site has them: a try after a pause sends the same ones,
    whatever became of the file. ``first`` and ``last`` are the bytes before it that tell which file it is.
    """

    position: int
    first: bytes
    last: bytes
    data: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.data)

    def after(self, position: int) -> Chunk:
        """What is left of it from ``position`` on."""
        count = position - self.position
        first = (self.first + self.data[:count])[: rotation.EDGE_BYTES]
        last = (self.last + self.data[:count])[-rotation.EDGE_BYTES :]
        return Chunk(position, first, last, self.data[count:])

    @property
    def edges(self) -> str:
        """What :func:`faultline.rotation.edges_of` says at its position."""
        return rotation.edges_of_parts(self.first, self.last)


class FollowedFile:
    """One file on the disk, and the upload that gets its bytes from ``base`` on. ``edges``: digest of what was sent, by
    which the file, or a copy of it, is recognised (:func:`faultline.rotation.edges_of`).
    """

    def __init__(
        self,
        name: str,
        path: Path,
        inode: tuple[int, int],
        *,
        base: int = 0,
        upload: str = "",
        sent: int = 0,
        edges: str = "",
    ) -> None:
        self.name = name
        self.path = path
        self.inode = inode
        self.base = base
        self.upload = upload
        self.sent = sent
        self.edges = edges
        self.chunk: Chunk | None = None
        self.file: Any = None
        self.is_over = False
        self.is_gone = False
        #: when it was emptied, in seconds of the monotonic clock
        self.emptied_at: list[float] = []
        self._checked_ns = 0

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> FollowedFile:
        """From a row of the state file. Raises KeyError, TypeError, ValueError for another one."""
        inode = (int(row["inode"][0]), int(row["inode"][1]))
        followed = cls(row["name"], Path(row["path"]), inode, base=int(row["base"]), upload=str(row["upload"]))
        followed.sent, followed.edges = int(row["sent"]), str(row.get("edges", ""))
        followed.is_over, followed.is_gone = bool(row["is_over"]), bool(row.get("is_gone"))
        return followed

    def row(self) -> dict[str, Any]:
        """The row of the state file."""
        return {
            "name": self.name,
            "path": str(self.path),
            "inode": list(self.inode),
            "base": self.base,
            "upload": self.upload,
            "sent": self.sent,
            "is_over": self.is_over,
            "is_gone": self.is_gone,
            "edges": self.edges,
        }

    @property
    def position(self) -> int:
        """The offset in the file up to which the site has its bytes."""
        return self.base + self.sent

    def open(self) -> int:
        """The descriptor of the file that was found, even if it was renamed since. Raises OSError if it is deleted."""
        if self.file is None:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
            file = os.fdopen(descriptor, "rb", buffering=0)
            if inode_of(os.fstat(descriptor)) != self.inode:
                file.close()
                raise FileNotFoundError(str(self.path))
            self.file = file
        return int(self.file.fileno())

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None

    def size(self) -> int:
        """Its present size. Raises OSError if it is deleted."""
        return os.fstat(self.open()).st_size

    def was_emptied(self) -> bool:
        """Whether the file holds something else than what was sent of it, although it may be as long or longer: it was
        emptied and written anew. Costs one ``fstat`` while nothing changes. Raises OSError if it is deleted.
        """
        descriptor = self.open()
        status = os.fstat(descriptor)
        if status.st_size < self.position:
            return True
        is_old = time.time_ns() - status.st_ctime_ns > _COARSE_CLOCK_NS
        if is_old and status.st_ctime_ns == self._checked_ns:
            return False
        if not rotation.has_edges(descriptor, self.position, self.edges):
            return True
        self._checked_ns = status.st_ctime_ns if is_old else 0
        return False

    def read(self, max_bytes: int) -> None:
        """Read the bytes after the position into :attr:`chunk`, unless there are some that the site does not have yet.

        Raises :class:`ChangedFile`, and OSError if it is deleted.
        """
        if self.chunk is not None:
            return
        descriptor = self.open()
        edge = min(rotation.EDGE_BYTES, self.position)
        first, last = os.pread(descriptor, edge, 0), os.pread(descriptor, edge, self.position - edge)
        data = os.pread(descriptor, max_bytes, self.position)
        line_end = data.rfind(b"\n") + 1
        if len(data) == max_bytes and line_end:  # no line is cut: its rest may be gone before the next chunk
            data = data[:line_end]
        chunk = Chunk(self.position, first, last, data)
        # looked at after the reading: a file that is still the same now was the same then
        is_same = rotation.has_edges(descriptor, self.position, self.edges)
        if not is_same or not rotation.has_edges(descriptor, chunk.end, chunk.after(chunk.end).edges):
            raise ChangedFile(str(self.path))
        self.chunk = chunk if chunk.data else None

    def advance(self, sent: int) -> None:
        """The site says that it has ``sent`` bytes: more, if another follower sent them, or fewer, if it lost some."""
        former, self.sent = self.position, sent
        chunk, self.chunk = self.chunk, None
        if chunk is not None and chunk.position <= self.position <= chunk.end:
            rest = chunk.after(self.position)
            self.edges = rest.edges
            self.chunk = rest if rest.data else None
        elif self.position != former:
            try:
                self.edges = rotation.edges_moved(self.open(), former, self.edges, self.position)
            except OSError:  # deleted: nothing more will be read of it
                self.edges = ""


def inode_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
