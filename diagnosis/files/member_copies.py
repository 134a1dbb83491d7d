"""Copies of the members of archives, whose raw bytes are read again by offset when a diagnosis
quotes them.

Small members share one file: an archive may have 50,000 of two bytes, and a file takes longer to
make than such a member to read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple, Self

from diagnosis.archive.archives import Member
from diagnosis.files.parse_pool import MAX_SMALL_BYTES

_BLOCK_BYTES: Final = 1 << 20
#: a read takes memory for all that it asks for
_SMALL_BLOCK_BYTES: Final = 64 << 10


class Place(NamedTuple):
    """Where the bytes of an artifact are: in ``file`` from ``begin`` on, ``size`` of them or, with None, all."""

    file: Path
    begin: int = 0
    size: int | None = None


class Copy(NamedTuple):
    """A copied member: its place, its size in bytes, and its bytes if they are few."""

    place: Place
    size: int
    data: bytes | None


class Copies:
    """Copies members into ``folder``, files with ``name`` at the beginning. Close it after the last one.

    Memory: ``MAX_SMALL_BYTES``. Disk: what the members have.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._shared = folder / name
        self._out = self._shared.open("wb")
        self._alone = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._out.close()

    def take(self, member: Member) -> Copy:
        """Copy a member to its end. Raises ``Refused`` at the limits of the archive."""
        data = _read_small(member)
        if len(data) > MAX_SMALL_BYTES:
            return self._take_large(member, data)
        place = Place(self._shared, self._out.tell(), len(data))
        self._out.write(data)
        return Copy(place, len(data), data)

    def _take_large(self, member: Member, head: bytes) -> Copy:
        self._alone += 1
        file = self._folder / f"{self._name}-{self._alone}"
        with file.open("wb") as out:
            size = out.write(head)
            while data := member.stream.read(_BLOCK_BYTES):
                size += out.write(data)
        return Copy(Place(file), size, None)


def _read_small(member: Member) -> bytes:
    """All of a small member, a bit more than ``MAX_SMALL_BYTES`` of another."""
    blocks: list[bytes] = []
    size = 0
    while size <= MAX_SMALL_BYTES and (block := member.stream.read(_SMALL_BLOCK_BYTES)):
        blocks.append(block)
        size += len(block)
    return b"".join(blocks)
