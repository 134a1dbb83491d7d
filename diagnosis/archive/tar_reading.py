"""Reads tar archives forwards, and believes nothing that a header states.

The standard library's reader skips a stated size in small steps also where nothing is left to skip, ends silently at
the first damaged header, and keeps a map of a sparse file of any size. Here a stated size is compared with what remains
before anything is skipped, the end of the bytes ends the reading, and headers have a limit.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec

from diagnosis.archive.archive_streams import BLOCK_BYTES

#: Unreadable headers in a tar archive are skipped, block by block, up to this many bytes.
_MAX_SKIPPED_BYTES: Final = 64 << 20
#: All headers of one member: names, attributes and the map of a sparse file. Names have at most 4 KiB.
_MAX_HEADER_BYTES: Final = 1 << 20
#: Keys of global headers are copied for every member. Programs write one or two.
_MAX_GLOBAL_KEYS: Final = 1000
#: So far ahead a stream is read to find that it ends before a stated size.
_LOOK_AHEAD_BYTES: Final = 4 << 20
#: No file of evidence is as large as a petabyte.
_MAX_STATED_BYTES: Final = 1 << 50
_MAGIC, _MAGIC_AT = b"ustar", 257


class ForwardReader:
    """The bytes of an archive, read once from the first to the last. ``length``: how many there are; None if nobody
    knows that before the end.

    The end of the bytes ends each call, whatever size it was asked for. Memory: :data:`_LOOK_AHEAD_BYTES`.
    """

    def __init__(self, source: Any, length: int | None) -> None:
        self._source = source
        self._length = length
        self._buffer = memoryview(b"")
        self._position = 0
        #: how many bytes the headers of the current member may still have; None outside of headers
        self.header_bytes_left: int | None = None

    def tell(self) -> int:
        return self._position

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes, fewer at the end. Raises ``ReadError`` if headers are beyond their limit."""
        if self.header_bytes_left is not None:
            self.header_bytes_left -= size
            if self.header_bytes_left < 0:
                raise tarfile.ReadError(f"headers of more than {_MAX_HEADER_BYTES:,} bytes")
        return self._take(size)

    def seek(self, position: int) -> int:
        """Skip to ``position``. Raises ``ReadError`` before the current one and beyond the end."""
        distance = position - self._position
        if distance < 0:
            raise tarfile.ReadError("a header that points backwards")
        while distance:
            skipped = self._take(min(distance, BLOCK_BYTES))
            if not skipped:
                raise tarfile.ReadError("unexpected end of data")
            distance -= len(skipped)
        return self._position

    def peek(self, size: int) -> memoryview:
        """The next ``size`` bytes, fewer at the end; the next call gives them again."""
        if len(self._buffer) < size:
            blocks, count = [self._buffer], len(self._buffer)
            while count < size and (block := self._source.read(BLOCK_BYTES)):
                blocks.append(block)
                count += len(block)
            self._buffer = memoryview(b"".join(blocks))
        return self._buffer[:size]

    def is_short_of(self, size: int) -> bool:
        """Whether fewer than ``size`` bytes remain, as far as that shows before they are read."""
        if size > _MAX_STATED_BYTES:
            return True
        if self._length is not None:
            return size > self._length - self._position
        near = min(size, _LOOK_AHEAD_BYTES)
        return len(self.peek(near)) < near

    def _take(self, size: int) -> bytes:
        data = bytes(self.peek(size))
        self._buffer = self._buffer[size:]
        self._position += len(data)
        return data


class CheckedTarInfo(tarfile.TarInfo):
    """A header of a tar archive. ``is_overlong``: it states more bytes than remain, so that nobody knows where the next
    header is.

    The standard library's reader stops silently at the first damaged header and at the first end mark;
    ``ignore_zeros`` makes it continue, and ``skipped`` of the archive (:class:`SkippedBytes`) counts the skipped bytes.
    """

    is_overlong = False

    @classmethod
    def fromtarfile(cls, tar: tarfile.TarFile) -> tarfile.TarInfo:  # type: ignore[override]
        assert isinstance(tar, Tar)
        seen = tar.skipped
        try:
            info = super().fromtarfile(tar)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            seen.end_marks += 1
            tar.pass_over_block()
            raise
        except tarfile.InvalidHeaderError:  # type: ignore[attr-defined]
            seen.bytes += tarfile.BLOCKSIZE
            seen.end_marks = 0
            tar.pass_over_block()
            raise
        except tarfile.TruncatedHeaderError:  # type: ignore[attr-defined]
            raise tarfile.ReadError("it ends within a header") from None
        seen.end_marks = 0
        assert isinstance(info, cls)
        info._check_size(tar)
        return info

    def _check_size(self, tar: Tar) -> None:
        """Compare the stated size with what remains. Of several headers of a member the last call counts."""
        stored = tar.offset - self.offset_data
        least = stored - tarfile.BLOCKSIZE + 1  # without the padding
        self.is_overlong = min(stored, self.size) < 0 or tar.source.is_short_of(least)
        if self.is_overlong:
            tar.offset = self.offset_data

    def problem(self) -> str:
        """Why this member is left out, in a sentence; empty if it is read."""
        if not self.isreg():
            return f"This is a {self._kind()}, not a file: it was left out. Pack the file itself."
        if self.size < 0:
            return f"Its header states {self.size:,} bytes: it was left out. Send the archive again."
        if self.issparse() and (self.is_overlong or not self.has_plausible_map()):
            return "The map of this sparse file is damaged: it was left out. Pack it without --sparse."
        return ""

    def _kind(self) -> str:
        if self.issym() or self.islnk():
            return "link"
        return "device or pipe" if self.isdev() else "special entry"

    def has_plausible_map(self) -> bool:
        """Whether the parts of a sparse file are in order and within the file."""
        end = 0
        for begin, length in cast("list[tuple[int, int]]", self.sparse):
            if length and (begin < end or length < 0):
                return False
            end = max(end, begin + length)
        return end <= self.size

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in b"xgXLK" and self.size > _MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(tar)  # type: ignore[misc,no-any-return]


class SkippedBytes(msgspec.Struct):
    """The skipped part of a tar archive: ``bytes`` of damaged headers and the data after them, and the number of
    ``end_marks`` (blocks of zeros) read last. Two of them end an archive.
    """

    bytes: int = 0
    end_marks: int = 0
    blocks: int = 0


class Tar(tarfile.TarFile):
    """A tar archive that is read forwards, over damaged headers and end marks. Iterating gives its members; read the
    content of one before the next. Raises what the standard library's reader raises, for hostile bytes nearly anything.
    """

    members: list[tarfile.TarInfo]
    offset: int
    pax_headers: dict[str, str]

    def __init__(self, source: ForwardReader) -> None:
        self.skipped = SkippedBytes()
        self.source = source
        self._is_within_overlong = False
        super().__init__(fileobj=source, tarinfo=CheckedTarInfo, ignore_zeros=True)  # type: ignore[arg-type]

    def next(self) -> CheckedTarInfo | None:
        self.source.header_bytes_left = _MAX_HEADER_BYTES
        if self._is_within_overlong:
            self.offset = self.source.tell()
        info = super().next()
        self.source.header_bytes_left = None
        if len(self.pax_headers) > _MAX_GLOBAL_KEYS:
            raise tarfile.ReadError(f"{len(self.pax_headers):,} global keys")
        self.members.clear()  # it would grow with every member of a huge archive
        assert info is None or isinstance(info, CheckedTarInfo)
        self._is_within_overlong = info is not None and info.is_overlong
        return info

    def pass_over_block(self) -> None:
        """Count a block that is no header. Raises ``ReadError`` after :data:`_MAX_SKIPPED_BYTES`."""
        self.skipped.blocks += 1
        if self.skipped.blocks * tarfile.BLOCKSIZE > _MAX_SKIPPED_BYTES:
            raise tarfile.ReadError(f"no header in {_MAX_SKIPPED_BYTES >> 20} MiB")
        self.source.header_bytes_left = _MAX_HEADER_BYTES

    def content(self, info: CheckedTarInfo) -> Any:
        """The bytes of a regular member: an object with ``read``."""
        if info.issparse():
            return self.extractfile(info)
        return TarContent(self.source, info)


class TarContent:
    """The bytes of a member, as many as arrive; never those of the next header."""

    def __init__(self, source: ForwardReader, info: CheckedTarInfo) -> None:
        self._source = source
        self._stated = self._left = info.size
        self._is_overlong = info.is_overlong
        self._before_header = 0

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes, fewer or none at the end. Raises ``EOFError`` if it comes before the stated size."""
        size = min(size, self._left)
        if size and self._is_overlong:
            size = min(size, self._bytes_before_header())
        data = self._source.read(size)
        self._left -= len(data)
        self._before_header -= len(data)
        if self._left and not data:
            raise EOFError(f"its header states {self._stated:,} bytes, more than follow")
        return data

    def _bytes_before_header(self) -> int:
        if not self._before_header:
            near = bytes(self._source.peek(BLOCK_BYTES))
            self._before_header = next(_headers(near), len(near))
        return self._before_header


def _headers(blocks: bytes) -> Iterator[int]:
    """Where in these blocks a header begins."""
    at = blocks.find(_MAGIC)
    while at >= 0:
        begin = at - _MAGIC_AT
        if begin >= 0 and begin % tarfile.BLOCKSIZE == 0 and is_header(blocks[begin : begin + tarfile.BLOCKSIZE]):
            yield begin
        at = blocks.find(_MAGIC, at + 1)


def is_header(block: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True
