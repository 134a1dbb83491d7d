"""A stream of evidence that is read once: its digest, its size, and where it broke off."""

from __future__ import annotations

import hashlib
import io
from typing import Any, BinaryIO

from diagnosis.processing import faults


class CheckedStream(io.RawIOBase):
    """A stream behind a read head; digests and counts its bytes, notes an early end."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head = head
        self._stream = stream
        self._digest = hashlib.sha256()
        self.passed = 0
        self.broke: str | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._head:
            size = len(self._head) if size is None or size < 0 else size
            data, self._head = self._head[:size], self._head[size:]
        else:
            data = _read(self._stream, size, self)
        self._digest.update(data)
        self.passed += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read_up_to(self, limit: int) -> bytes:
        """The next ``limit`` bytes; fewer at the end."""
        pieces: list[bytes] = []
        size = 0
        while size < limit and (piece := self.read(min(1 << 20, limit - size))):
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)

    def drain(self) -> None:
        while self.read(1 << 20):
            pass

    def broken_off(self) -> str:
        """A sentence for an early end."""
        until = f"after {self.passed:,} bytes" if self.passed else "at its beginning"
        return (
            f"The data breaks off {until} ({self.broke}): the file is truncated or damaged. What came before was "
            "read; copy the file again to get the rest."
        )

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


def _read(stream: BinaryIO, size: int, tee: CheckedStream) -> bytes:
    """Reads; a damaged stream ends at the damage."""
    try:
        return stream.read(size) or b""
    except BaseException as error:  # decompressors raise a dozen types of errors, and none may stop the other artifacts
        if faults.is_of_machine(error) or not faults.is_fault(error):
            raise
        tee.broke = faults.error_text(error)
        return b""
