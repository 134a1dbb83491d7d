"""The raw text of chosen lines, read back from the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from diagnosis.kinds.logs.read.encodings import decode, encoding_of
from diagnosis.kinds.logs.read.lines import clean_line
from diagnosis.model import ReadRange

#: Bytes between two lines up to which they are read at once, and bytes of all such lines.
_MAX_GAP_BYTES: Final = 4 << 10
_MAX_BYTES: Final = 1 << 20
_PLACE: Final = ("file", "offset", "length")


def read_lines(rows: pl.DataFrame, files: Sequence[str], evidence: ReadRange, limit: int = 2_000) -> list[str]:
    """The raw text of rows (``file``, ``offset``, ``length``), each cut at ``limit`` bytes; unreadable ones come back
    empty. They are decoded and cleaned as at first (:func:`lines.clean_line`), of a line with carriage returns the end.
    Lines close to each other are read at once.
    """
    out: list[str] = []
    places = list(rows.select(_PLACE).iter_rows())
    spans = [(file, at, at + min(length, limit)) for file, at, length in places]
    ends = [at + length for _, at, length in places]
    first = 0
    while first < len(spans):
        file, low, high = spans[first]
        last = first + 1
        while last < len(spans) and spans[last][0] == file and high <= spans[last][1] <= high + _MAX_GAP_BYTES:
            high, last = spans[last][2], last + 1
            if high - low > _MAX_BYTES:
                break
        data = read_stored(evidence, files[file], low, high - low)
        for row, (_, begin, end) in enumerate(spans[first:last], first):
            line = data[begin - low : end - low]
            if b"\r" in line and end < ends[row]:
                line = read_stored(evidence, files[file], max(begin, ends[row] - limit), min(limit, ends[row] - begin))
            text = clean_line(decode(line, encoding_of(line)[0]).rstrip("\n"))
            out.append(_unescaped(text) if text.startswith("{") and "\\" in text else text)
        first = last
    return out


def read_stored(evidence: ReadRange, file: str, offset: int, length: int) -> bytes:
    """Bytes of a file; none where they cannot be read any more."""
    try:
        return evidence(file, offset, length)
    except (OSError, ValueError, KeyError):
        return b""


def _unescaped(text: str) -> str:
    """A collector's JSON line, with the escapes of the wrapped line removed where they hide words."""
    return text.replace("\\t", "\t").replace('\\"', '"')
