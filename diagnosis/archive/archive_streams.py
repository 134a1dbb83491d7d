"""The streams for :mod:`diagnosis.archive.archives`: decompression that returns all bytes before damage, with explained
ends.
"""

from __future__ import annotations

import bz2
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import zstandard

#: exceptions of archive readers for damaged bytes
DAMAGE_ERRORS: Final = (
    EOFError,
    OSError,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
    zipfile.BadZipFile,
    tarfile.TarError,
)
BLOCK_BYTES: Final = 256 << 10
#: Compressed streams of one file: whoever compresses each line alone has as many lines.
MAX_STREAMS: Final = 100_000
_FIRST_FEED_BYTES: Final = 512
_ZEROS: Final = re.compile(rb"\0*")
#: below this much output a high ratio is harmless: a short log of one repeated line compresses that well
RATIO_FLOOR_BYTES: Final = 64 << 20


class Refused(Exception):
    """Reading crossed a limit; the text says which. Discard the read part of the member."""


class CountingReader:
    """A file that counts the bytes read from it."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data: bytes = self.file.read(size)
        self.count += len(data)
        return data


class LimitedReader(io.RawIOBase):
    """Ends at damaged data (``damage``); refuses to unpack more than ``ratio`` times the sent bytes."""

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
        except DAMAGE_ERRORS as error:
            reason = error_text(error)
            self.damage = (
                f"The data breaks off after {self._given:,} bytes ({reason}): the file is truncated or damaged. "
                "What came before it was kept; send the file again to get the rest."
                if self._given
                else f"The data cannot be unpacked ({reason}): the file is damaged or misnamed. Send it again."
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


class ChainedReader(io.RawIOBase):
    """A head that was already read, and the rest after it."""

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
        """The file from its first byte if it is seekable, else None."""
        file = self._seekable_file()
        if file is not None:
            file.seek(0)
        return file

    def length(self) -> int | None:
        """How many bytes follow; None if the end alone shows that."""
        file = self._seekable_file()
        if file is None:
            return None
        now: int = file.tell()
        end: int = file.seek(0, io.SEEK_END)
        file.seek(now)
        return len(self._head) + end - now

    def _seekable_file(self) -> Any:
        file = self._rest.file if isinstance(self._rest, CountingReader) else None
        return file if file is not None and getattr(file, "seekable", lambda: False)() else None


class Decompressor:
    """Compressed streams one after another, giving all bytes before the damage.

    The readers of the standard library drop the damaged block, or treat data after a whole stream as padding; libzstd
    treats a cut stream as a whole one. Here an exception of :data:`DAMAGE_ERRORS` reports all data that is not read.
    """

    def __init__(self, source: Any, magic: bytes, engine: Callable[[], Any], feed: int) -> None:
        self._source = source
        self._magic = magic
        self._new_engine = engine
        self._engine = engine()
        self._max_feed = self._feed = feed
        self._block, self._at = b"", 0
        self._streams = 1
        self._has_ended = False

    def read(self, size: int) -> bytes:
        while not self._has_ended:
            if self._engine.eof and not self._begin_next():
                break
            data: bytes = self._engine.decompress(self._next() if self._engine.needs_input else b"", size)
            if data:
                return data
        return b""

    def _next(self) -> bytes:
        if self._at == len(self._block) and not self._load():
            raise EOFError("the end is missing")
        piece = self._block[self._at : self._at + self._feed]
        self._at += len(piece)
        self._feed = min(2 * self._feed, self._max_feed)
        return piece

    def _load(self) -> bool:
        """Read more behind what is left; False at the end of the source."""
        more = self._source.read(BLOCK_BYTES)
        self._block, self._at = self._block[self._at :] + more, 0
        return bool(more)

    def _begin_next(self) -> bool:
        """Begin the stream after the last one, over zero padding, which is legal; False at the end."""
        self._at -= len(self._engine.unused_data)
        while True:
            self._at = _ZEROS.match(self._block, self._at).end()  # type: ignore[union-attr]
            if len(self._block) - self._at >= len(self._magic) or not self._load():
                break
        if self._at == len(self._block):
            self._has_ended = True
            return False
        begin = self._block[self._at : self._at + len(self._magic)]
        if begin != self._magic and not _is_skippable(begin, self._magic):
            raise EOFError("bytes after the end are not compressed data")
        self._streams += 1
        if self._streams > MAX_STREAMS:
            raise EOFError(f"more than {MAX_STREAMS:,} compressed streams follow each other")
        # a short stream must not cost a long piece, most of which it gives back
        self._engine, self._feed = self._new_engine(), min(_FIRST_FEED_BYTES, self._max_feed)
        return True


class _Zlib:
    """zlib's decompressor with the interface of the other modules'."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    def decompress(self, data: bytes, size: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail or data, size)


class _Zstd:
    """One frame. Its output has no limit of its own; :data:`_ZSTD_READ_BYTES` limits the input of each call."""

    def __init__(self) -> None:
        self._inner = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW).decompressobj()
        self._ready = b""

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof) and not self._ready

    @property
    def unused_data(self) -> bytes:
        return bytes(self._inner.unused_data)

    @property
    def needs_input(self) -> bool:
        return not self._ready

    def decompress(self, data: bytes, size: int) -> bytes:
        ready = self._ready or self._inner.decompress(data)
        self._ready = ready[size:]
        return ready[:size]


#: Bytes of zstd read at a time: a block of 4 bytes may unpack to 128 KiB, so this is at most 32 MiB.
_ZSTD_READ_BYTES: Final = 1 << 10
#: Maximum window of a stream; the command-line tools refuse more by default.
_MAX_ZSTD_WINDOW: Final = 128 << 20
_MAX_XZ_MEMORY: Final = 256 << 20
_GZIP_MAGIC, _BZIP2_MAGIC, _XZ_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"


def _is_skippable(data: bytes, magic: bytes) -> bool:
    """Whether a frame of zstd begins that holds no data, as ``pzstd`` writes them."""
    return magic == _ZSTD_MAGIC and len(data) >= 4 and 0x50 <= data[0] <= 0x5F and data[1:4] == b"\x2a\x4d\x18"


def decompressor(kind: str, source: Any) -> Any:
    """A reader of ``gzip``, ``bzip2``, ``xz`` or ``zstd`` data; raises one of :data:`DAMAGE_ERRORS` at an early end."""
    if kind == "zstd":
        return Decompressor(source, _ZSTD_MAGIC, _Zstd, _ZSTD_READ_BYTES)
    if kind == "gzip":
        return Decompressor(source, _GZIP_MAGIC, _Zlib, BLOCK_BYTES)
    if kind == "bzip2":
        return Decompressor(source, _BZIP2_MAGIC, bz2.BZ2Decompressor, BLOCK_BYTES)
    engine = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, _MAX_XZ_MEMORY)
    return Decompressor(source, _XZ_MAGIC, engine, BLOCK_BYTES)


def read_head(source: Any, size: int) -> bytes:
    """The first ``size`` bytes, or all if there are fewer."""
    head = b""
    while len(head) < size and (more := source.read(size - len(head))):
        head += more
    return head


def error_text(error: BaseException) -> str:
    """A few words of an exception for a sentence."""
    return str(error) or type(error).__name__
