"""The streams under :mod:`diagnosis.archives`: decompression that gives all it can, ends that explain themselves."""

from __future__ import annotations

import bz2
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, Final

import zstandard

#: what readers of archives raise on damaged bytes
DAMAGE: Final = (
    EOFError,
    OSError,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
    zipfile.BadZipFile,
    tarfile.TarError,
)
BLOCK_BYTES: Final = 256 << 10
#: below this much output a high ratio does no harm: a short log of one repeated line compresses that well
RATIO_FLOOR_BYTES: Final = 64 << 20


class Refused(Exception):
    """Reading crossed a limit; the text says which. What was read of the member is to be thrown away."""


class Counted:
    """A file that counts the bytes read from it."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data: bytes = self.file.read(size)
        self.count += len(data)
        return data


class Metered(io.RawIOBase):
    """Ends quietly where the data is damaged (``damage``); refuses to unfold beyond ``ratio`` times what was sent."""

    def __init__(self, inner: Any, path: str, ratio: int, sent_bytes: Callable[[], int]) -> None:
        self._inner = inner
        self._path = path
        self._ratio = ratio
        self._sent_bytes = sent_bytes
        self._given = 0
        self.damage = ""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.damage:
            return 0
        try:
            data = self._inner.read(len(buffer))
        except DAMAGE as error:
            self.damage = (
                f"The data breaks off after {self._given:,} bytes ({why(error)}): the file is truncated or damaged. "
                "What came before it was kept; send the file again to get the rest."
                if self._given
                else f"The data cannot be unpacked ({why(error)}): the file is damaged or misnamed. Send it again."
            )
            return 0
        buffer[: len(data)] = data
        self._given += len(data)
        if self._given > RATIO_FLOOR_BYTES and self._given > self._ratio * max(1, self._sent_bytes()):
            raise Refused(
                f"This unfolds to more than {self._ratio:,} times its size, as archives made to fill disks do: "
                "it was left out. If it is real, send it uncompressed."
            )
        return len(data)


class Chained(io.RawIOBase):
    """A head that was already read, and the rest behind it."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = len(buffer)
        data, self._head = (self._head[:size], self._head[size:]) if self._head else (self._rest.read(size), b"")
        buffer[: len(data)] = data
        return len(data)

    def seekable_whole(self) -> Any:
        """The file from its first byte where it can be read in any order, else None."""
        file = self._rest.file if isinstance(self._rest, Counted) else None
        if file is None or not getattr(file, "seekable", lambda: False)():
            return None
        file.seek(0)
        return file


class Gunzip:
    """gzip members one after another, giving all bytes before the damage (``GzipFile`` drops the block it lies in)."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._engine = zlib.decompressobj(wbits=31)
        self._has_ended = False

    def read(self, size: int) -> bytes:
        while not self._has_ended:
            block = self._engine.unconsumed_tail or self._engine.unused_data or self._source.read(BLOCK_BYTES)
            if self._engine.eof:
                block = block.lstrip(b"\0")  # padding after the last member is legal
                if not block:
                    self._has_ended = True
                    break
                if not block.startswith(b"\x1f"):
                    raise EOFError("bytes after the end are not compressed data")
                self._engine = zlib.decompressobj(wbits=31)
            elif not block:
                raise EOFError("the end is missing")
            data = self._engine.decompress(block, size)
            if data:
                return data
        return b""


class SoundTarInfo(tarfile.TarInfo):
    """Refuses headers that would be read into memory whole and are far larger than any name."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in b"xgXLK" and self.size > 1 << 20:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(tar)  # type: ignore[misc,no-any-return]


def decompressor(kind: str, source: Any) -> Any:
    """A reader of ``gzip``, ``bzip2``, ``xz`` or ``zstd`` data."""
    if kind == "zstd":
        return zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
    if kind == "gzip":
        return Gunzip(source)
    return bz2.BZ2File(source) if kind == "bzip2" else lzma.LZMAFile(source)


def fill(source: Any, size: int) -> bytes:
    """The first ``size`` bytes, or all there are."""
    head = b""
    while len(head) < size and (more := source.read(size - len(head))):
        head += more
    return head


def why(error: BaseException) -> str:
    """A few words of an exception for a sentence."""
    return str(error) or type(error).__name__
