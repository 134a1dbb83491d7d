"""Physical lines of a stream, with the byte offset and length of each, in blocks of bounded size.

A line ends at ``\\n`` and nowhere else: a carriage return belongs to its line, so line numbers agree with ``sed -n Np`` and with every editor. Offsets and
lengths count bytes of the evidence as it was given (after decompression), whatever its encoding; the length leaves the newline out.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import polars as pl

#: Bytes read at a time; the peak memory of parsing is a small multiple of it.
BLOCK_BYTES = 16 << 20
#: Longer lines are shown and masked by their two ends only; offset and length still cover all of it.
LINE_CHARS = 16_384
_END_CHARS = 6_000
_END_BYTES = 4 * _END_CHARS

#: Schema of ``columns.parquet``: one row a physical line.
COLUMNS: dict[str, pl.DataType] = {
    "line": pl.UInt32(),  # 1-based
    "offset": pl.UInt64(),  # of its first byte
    "length": pl.UInt32(),  # bytes without the newline
    "record": pl.UInt32(),  # first line of the multi-line record that it belongs to
    "time": pl.Int64(),  # ns UTC, null where the line states none
    "source": pl.UInt16(),  # index into Parsed.sources
    "level": pl.UInt8(),  # model.Level
    "flags": pl.UInt8(),  # records.INDENTED | ...
    "masked": pl.UInt64(),  # id of the masked message
}

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines: ``text`` (n strings, not yet cleaned), ``offset`` and ``length`` (n byte positions each), and their bytes."""

    text: pl.Series
    offset: npt.NDArray[np.uint64]
    length: npt.NDArray[np.uint32]
    raw: bytes


def encoding_of(head: bytes) -> tuple[str, int]:
    """The encoding of a file that begins with ``head`` and the size of its byte-order mark.

    UTF-16 without a mark is told from its zero bytes: in Latin text every second byte is zero, always on the same side.
    """
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name, len(mark)
    pairs = len(head) // 2
    if pairs >= 8:
        even, odd = head[0 : 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0)
        if odd > 0.4 * pairs and even < 0.05 * pairs:
            return "utf-16-le", 0
        if even > 0.4 * pairs and odd < 0.05 * pairs:
            return "utf-16-be", 0
    return "utf-8", 0


def _as_latin1(error: UnicodeError) -> tuple[str, int]:
    """Bytes that are no UTF-8 are read as Latin-1: nothing is lost, and a German log stays readable."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error("faultline-latin1", _as_latin1)


def decode(raw: bytes, encoding: str = "utf-8") -> str:
    """Text of ``raw``; never raises."""
    return raw.decode(encoding, "faultline-latin1" if encoding == "utf-8" else "replace")


def _fast_lines(raw: bytes) -> pl.Series | None:
    """The lines of plain UTF-8 without carriage returns, where the lengths of the strings are the lengths of the lines."""
    if not raw or b"\r" in raw:
        return None
    try:
        return pl.read_lines(raw, name="text")["text"]
    except pl.exceptions.PolarsError:
        return None


def _slow_lines(raw: bytes, count: int, encoding: str) -> pl.Series:
    split = decode(raw, encoding).split("\n")
    return pl.Series(
        "text", split[:count] if len(split) >= count else split + [""] * (count - len(split)), dtype=pl.String
    )


def clean(block: Block) -> pl.Series:
    """Takes out what never carries meaning: ANSI sequences, NUL bytes, the carriage return before a newline, finished progress bars."""
    text, raw = block.text, block.raw
    column = pl.col("text")
    steps = []
    if b"\x1b" in raw:
        steps.append(column.str.replace_all(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])", ""))
    if b"\0" in raw:
        steps.append(column.str.replace_all("\0", "", literal=True))
    if b"\r" in raw:
        steps.append(column.str.strip_chars_end("\r"))
        # Of what a terminal overwrote only states that are no bars are kept.
        steps.append(column.str.replace_all(r"[^\r]*\d+%\|[^\r]*\r+", "").str.replace_all(r"\r+", " "))
    frame = text.to_frame()
    if int(text.str.len_bytes().max() or 0) > LINE_CHARS:  # type: ignore[arg-type]
        frame = frame.with_columns(
            pl.when(column.str.len_bytes() > LINE_CHARS)
            .then(pl.concat_str(column.str.head(_END_CHARS), pl.lit(" … "), column.str.tail(_END_CHARS)))
            .otherwise(column)
            .alias("text")
        )
    for step in steps:
        frame = frame.with_columns(step.alias("text"))
    return frame["text"]


class _Cutter:
    """Cuts bytes into blocks of whole lines. A line longer than a block keeps its two ends."""

    def __init__(self, encoding: str, offset: int) -> None:
        self.encoding = encoding
        self.at = offset
        self.rest = b""
        self.cut = 0  # bytes taken out of the middle of ``rest``
        self.head = 0  # where in ``rest`` they were taken out

    def blocks(self, chunk: bytes, last: bool) -> Iterator[Block]:
        raw = self.rest + chunk if self.rest else chunk
        stop = self._last_newline(raw)
        is_open = last and stop < len(raw)  # the last line has no newline
        if is_open:
            stop = len(raw)
        if stop:
            body = raw[:stop]
            text = _fast_lines(body) if self.encoding == "utf-8" else None
            if text is not None:
                lengths = text.str.len_bytes().to_numpy().astype(np.int64)
                starts = np.cumsum(lengths + 1) - lengths - 1
            else:
                ends = self._newlines(body)
                if is_open:
                    ends = np.append(ends, stop)
                starts = np.zeros_like(ends)
                starts[1:] = ends[:-1] + self._width
                lengths = ends - starts
                text = _slow_lines(body, len(ends), self.encoding)
            lengths[0] += self.cut
            offsets = starts + self.at
            offsets[1:] += self.cut
            yield Block(text, offsets.astype(np.uint64), lengths.astype(np.uint32), body)
            self.at += stop + self.cut
            self.cut = 0
        self.rest = raw[stop:]
        if len(self.rest) > 2 * _END_BYTES:
            self._shorten()

    def _shorten(self) -> None:
        gone = len(self.rest) - 2 * _END_BYTES
        gone -= gone % 4
        self.rest = self.rest[:_END_BYTES] + self.rest[_END_BYTES + gone :]
        self.cut += gone

    @property
    def _width(self) -> int:
        return 2 if self.encoding.startswith("utf-16") else 1

    def _last_newline(self, raw: bytes) -> int:
        """Where the last whole line of ``raw`` ends, its newline included; 0 without one."""
        if self._width == 1:
            return raw.rfind(b"\n") + 1
        ends = self._newlines(raw)
        return int(ends[-1]) + 2 if len(ends) else 0

    def _newlines(self, raw: bytes) -> npt.NDArray[np.int64]:
        if self._width == 1:
            return np.flatnonzero(np.frombuffer(raw, np.uint8) == 10)
        units = np.frombuffer(raw, "<u2" if self.encoding.endswith("le") else ">u2", count=len(raw) // 2)
        return np.flatnonzero(units == 10) * 2


def blocks(
    stream: BinaryIO, *, encoding: str = "utf-8", offset: int = 0, block_bytes: int = BLOCK_BYTES
) -> Iterator[Block]:
    """Yields the lines of ``stream``, whose first byte is byte ``offset`` of the evidence. Linear in bytes; memory a small multiple of ``block_bytes``.

    Raises what ``stream.read`` raises (a damaged archive member), after all that came before was yielded.
    """
    cutter = _Cutter(encoding, offset)
    while True:
        try:
            chunk = stream.read(block_bytes)
        except Exception:
            yield from cutter.blocks(b"", True)
            raise
        if not chunk:
            yield from cutter.blocks(b"", True)
            return
        yield from cutter.blocks(chunk, False)
