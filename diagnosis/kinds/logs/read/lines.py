"""Physical lines of a stream, with the byte offset and length of each, in blocks of bounded size.

A line ends at ``\\n`` and nowhere else: a carriage return belongs to its line, so line numbers agree with ``sed -n Np``
and with every editor. Offsets and lengths count bytes of the given evidence (after decompression), in every encoding;
the length does not include the newline. Of a wrapped log each line of a record's text is a row (:mod:`physical`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.kinds.logs.text import scan
from diagnosis.kinds.logs.text.encodings import decode
from diagnosis.kinds.logs.unwrap import wrapped
from diagnosis.values.plain import ANSI

#: Bytes read at a time; the peak memory of parsing is a small multiple of it.
BLOCK_BYTES = 16 << 20
#: Lines of a block: a row takes some hundred bytes of memory, an empty line one byte of evidence.
_BLOCK_LINES = 1 << 20
#: Of longer lines only the two ends are shown and masked; offset and length still cover the whole line.
LINE_CHARS = 16_384
LINE_BYTES = 4 * LINE_CHARS
_END_CHARS = 6_000
#: Memory is reserved for lines of this size; if they are shorter, a block is read twice.
_USUAL_BYTES = 24
_END_BYTES = 4 * _END_CHARS

#: What makes a state of an overwritten line a progress bar: its share, or its times and speed.
_BAR: Final = re.compile(r"\d+%\||\d/\d+ ?\[|\[(?:\d+:)+\d\d[<,]")
_FIGURES: Final = re.compile(r"\d[\d:.,]*")


class Block(msgspec.Struct, frozen=True):
    """Whole consecutive lines, ``raw`` from byte ``offset`` of the evidence on; ``cut`` bytes were removed from the
    first. ``is_plain``: somebody asked :func:`is_plain` already.
    """

    raw: bytes
    offset: int
    encoding: str
    cut: int = 0
    is_wrapped: bool = False
    is_plain: bool = False


class Rows(msgspec.Struct, frozen=True):
    """The lines of a block. ``data`` is clean UTF-8, line i is ``data[start[i]:end[i]]``; ``offset`` and
    ``length`` are the evidence's.
    """

    data: npt.NDArray[np.uint8]
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    key: npt.NDArray[np.uint64]
    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]

    def one(self, row: int, limit: int) -> str:
        """The first ``limit`` bytes of one line as a string; never half a character."""
        first, last = int(self.start[row]), int(self.end[row])
        return self.data[first : min(last, first + limit)].tobytes().decode("utf-8", "ignore")

    def text(self, rows: npt.NDArray[np.int64], limit: int) -> pl.Series:
        """The first ``limit`` bytes of each of ``rows`` as strings."""
        if not len(rows):
            return pl.Series("text", [], dtype=pl.String)
        size = int(np.minimum(self.end[rows] - self.start[rows], limit).sum()) + len(rows)
        out = np.empty(size, np.uint8)
        used = scan.gather(self.data, self.start, self.end, rows, limit, out)
        return pl.read_lines(out[:used].tobytes(), name="text")["text"]


def read(block: Block) -> Rows:
    """The lines of a block and their keys. O(bytes); slower with control sequences."""
    raw = block.raw
    if block.encoding == "utf-8" and not block.is_wrapped and (block.is_plain or is_plain(raw)):
        data = np.frombuffer(raw, np.uint8)
        start, end, key = _keys(data)
        if int((end - start).max(initial=0)) <= LINE_BYTES:
            return Rows(data, start, end, key, *_spans(start, end, block))
    ends = _newlines(raw, block.encoding)
    if not len(ends) or ends[-1] + _width(block.encoding) < len(raw):  # the last line has no newline
        ends = np.append(ends, len(raw))
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1] + _width(block.encoding)
    if block.is_wrapped and (document := wrapped.unwrap_document(raw)):
        return _rows_of_document(block, [clean_line(line) for line in document])
    texts, count = _clean_lines(block, len(ends))
    data = np.frombuffer(("\n".join(texts) + "\n").encode("utf-8", "replace"), np.uint8)
    start, end, key = _keys(data)
    offset, length = _spans(starts, ends, block)
    return Rows(data, start, end, key, *_further(offset, length, count))


def _rows_of_document(block: Block, texts: list[str]) -> Rows:
    """The lines of an export, as those of one record that is the whole document (:mod:`physical`)."""
    data = np.frombuffer(("\n".join(texts) + "\n").encode("utf-8", "replace"), np.uint8)
    start, end, key = _keys(data)
    size = len(block.raw.rstrip(b"\n")) + block.cut
    place = np.minimum(np.arange(len(start)), size - 1)
    return Rows(data, start, end, key, block.offset + place, size - place)


def _further(
    offset: npt.NDArray[np.int64], length: npt.NDArray[np.int64], count: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Offset and length of each of so many lines of the records in physical lines: further lines begin one byte later
    each, and end where their physical line ends (:mod:`physical`).
    """
    if len(count) == int(count.sum()):
        return offset, length
    place = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    place = np.minimum(place, np.maximum(np.repeat(length, count) - 1, 0))
    return np.repeat(offset, count) + place, np.repeat(length, count) - place


def is_plain(raw: bytes) -> bool:
    """Whether bytes are UTF-8 without control sequences, so that lines need no cleaning."""
    return not any(byte in raw for byte in (b"\x1b", b"\0", b"\r")) and _is_utf8(raw)


def _spans(
    start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], block: Block
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Offset and length in the evidence of lines at ``start`` to ``end`` of a block's bytes."""
    length = end - start
    offset = start + block.offset
    if len(length):
        length[0] += block.cut
        offset[1:] += block.cut
    return offset, length


def _keys(data: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    room = len(data) // _USUAL_BYTES + 64
    while True:
        end, key = np.empty(room, np.int64), np.empty(room, np.uint64)
        count = scan.keys(data, end, key)
        if count <= room:
            break
        room = count
    start = np.zeros(count, np.int64)
    start[1:] = end[: count - 1] + 1
    return start, end[:count], key[:count]


def _is_utf8(raw: bytes) -> bool:
    if raw.isascii():
        return True
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _width(encoding: str) -> int:
    return 2 if encoding.startswith("utf-16") else 1


def _newlines(raw: bytes, encoding: str) -> npt.NDArray[np.int64]:
    if _width(encoding) == 1:
        return np.flatnonzero(np.frombuffer(raw, np.uint8) == 10)
    units = np.frombuffer(raw, "<u2" if encoding.endswith("le") else ">u2", count=len(raw) // 2)
    return np.flatnonzero(units == 10) * 2


def _clean_lines(block: Block, count: int) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The text of each of ``count`` physical lines, and how many lines each text has."""
    split = decode(block.raw, block.encoding).split("\n")[:count]
    split += [""] * (count - len(split))
    if not block.is_wrapped:
        return [clean_line(line) for line in split], np.ones(count, np.int64)
    texts = [text if _is_clean(text) else _clean_text(text) for text in wrapped.unwrap_all(split)]
    return texts, np.array([text.count("\n") + 1 for text in texts], np.int64)


def _is_clean(text: str) -> bool:
    """Whether :func:`clean_line` changes no line of a text."""
    if any(char in text for char in "\r\x1b\0"):
        return False
    return len(text) <= LINE_CHARS or max(map(len, text.split("\n"))) <= LINE_CHARS


def _clean_text(text: str) -> str:
    return "\n".join(map(clean_line, text.split("\n")))


def clean_line(line: str) -> str:
    """A line without ANSI sequences, NUL bytes, carriage returns and overwritten progress bars."""
    line = line.rstrip("\r")
    if "\r" in line:
        line = overwritten_text(line)
    if len(line) > LINE_CHARS:
        line = f"{line[:_END_CHARS]} … {line[-_END_CHARS:]}"
    if "\x1b" in line:
        line = ANSI.sub("", line)
    if "\0" in line:
        line = line.replace("\0", "")
    return line


def overwritten_text(line: str) -> str:
    """What a line with carriage returns says: the text of its states, without progress bars and without states that
    differ from the next one in figures alone. The last state is always kept. O(characters).
    """
    states = [state for state in line.split("\r") if state.strip()]
    kept = states[-1:]
    shape = _FIGURES.sub("0", states[-1]) if states else ""
    for state in reversed(states[:-1]):
        if not _BAR.search(state) and shape != (shape := _FIGURES.sub("0", state)):
            kept.append(state)
    return " ".join(reversed(kept))


class _Cutter:
    """Cuts bytes into blocks of whole lines. A line longer than a block keeps its two ends."""

    def __init__(self, encoding: str, offset: int, is_wrapped: bool) -> None:
        self.encoding = encoding
        self.is_wrapped = is_wrapped
        self.at = offset
        self.rest = b""
        self.cut = 0  # bytes removed from the middle of ``rest``

    def blocks(self, chunk: bytes, last: bool) -> Iterator[Block]:
        stop = self._stop(chunk) if not last else len(chunk)
        if stop or last:
            raw = b"".join((self.rest, memoryview(chunk)[:stop])) if self.rest else chunk[:stop]
            self.rest = chunk[stop:]
            if raw:
                yield Block(raw, self.at, self.encoding, self.cut, self.is_wrapped)
            self.at += len(raw) + self.cut
            self.cut = 0
        else:
            self.rest += chunk
        if len(self.rest) > 2 * _END_BYTES:
            gone = len(self.rest) - 2 * _END_BYTES
            gone -= gone % 4
            self.rest = self.rest[:_END_BYTES] + self.rest[_END_BYTES + gone :]
            self.cut += gone

    def _stop(self, chunk: bytes) -> int:
        """Where the last whole line of ``rest`` and ``chunk`` ends, in bytes of ``chunk``."""
        if self.is_wrapped and len(chunk) - (stop := chunk.rfind(b"\n\n") + 2) < _END_BYTES and stop > 1:
            return stop  # a record of an export stays whole
        if _width(self.encoding) == 1:
            return chunk.rfind(b"\n") + 1
        ends = _newlines(self.rest + chunk, self.encoding)
        return int(ends[-1]) + 2 - len(self.rest) if len(ends) else 0


def blocks(
    stream: BinaryIO,
    *,
    encoding: str = "utf-8",
    offset: int = 0,
    is_wrapped: bool = False,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Block]:
    """Yields the lines of ``stream``, whose first byte is byte ``offset`` of the evidence, in blocks.

    ``is_wrapped``: lines are JSON objects or records around messages (:mod:`wrapped`). Linear in
    bytes; memory a small multiple of ``block_bytes``: a block of many short lines is cut into
    several. Errors of ``stream.read`` pass through.
    """
    cutter = _Cutter(encoding, offset, is_wrapped)
    is_last = False
    while not is_last:
        chunk = _read_full(stream, block_bytes)
        is_last = len(chunk) < block_bytes
        lines_inside = chunk.count(b"\n") + (chunk.count(rb"\n") if is_wrapped else 0)
        piece_bytes = _BLOCK_LINES if lines_inside > _BLOCK_LINES else block_bytes
        pieces = [chunk[at : at + piece_bytes] for at in range(0, len(chunk), piece_bytes)] or [b""]
        for piece in pieces[:-1]:
            yield from cutter.blocks(piece, last=False)
        yield from cutter.blocks(pieces[-1], is_last)


def _read_full(stream: BinaryIO, size: int) -> bytes:
    """The next ``size`` bytes of a stream that may give fewer at a time; fewer only at its end. Each block costs the
    same few milliseconds, even a small one.
    """
    first = stream.read(size)
    if not first or len(first) >= size:
        return first
    pieces, size_read = [first], len(first)
    while size_read < size and (more := stream.read(size - size_read)):
        pieces.append(more)
        size_read += len(more)
    return b"".join(pieces)
