"""The raw text of chosen lines, read back from the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from diagnosis.kinds.logs.read.lines import LINE_BYTES, LINE_CHARS, clean_line
from diagnosis.kinds.logs.text.encodings import decode, encoding_of
from diagnosis.kinds.logs.unwrap import exported, wrapped
from diagnosis.kinds.logs.unwrap.structured import MAX_LINES
from diagnosis.model import ReadRange

#: Bytes between two lines up to which they are read at once, and bytes of all such lines.
_MAX_GAP_BYTES: Final = 4 << 10
_MAX_BYTES: Final = 1 << 20
#: What may stand before a line: nothing, a newline, the rest of one in UTF-16, the last byte of a mark.
_BEFORE_LINES: Final = (b"", b"\n", b"\0", b"\xbf", b"\xfe", b"\xff")
#: What :func:`lines.clean_line` changes in ASCII text, and what shows another encoding.
_CLEANED: Final = (b"\r", b"\x1b", b"\0")
_LINE_ENDS: Final = ("", "\n")
_PLACE: Final = ["file", "offset", "length"]


def read_lines(rows: pl.DataFrame, files: Sequence[str], evidence: ReadRange, limit: int = 2_000) -> list[str]:
    """The raw text of rows (``file``, ``offset``, ``length``), each cut at ``limit`` bytes; unreadable ones come back
    empty. They are decoded and cleaned as at first (:func:`lines.clean_line`), of a line with carriage returns the end,
    of a record the line of its text. Lines close to each other are read at once.
    """
    out: list[str] = []
    places = list(rows[_PLACE].iter_rows())
    spans = [(file, at, at + min(length, limit)) for file, at, length in places]
    ends = [at + length for _, at, length in places]
    documents: dict[tuple[str, int], list[str]] = {}
    for first, last, low, high in _read_at_once(spans):
        file = files[spans[first][0]]
        data = read_stored(evidence, file, low, high - low)
        simple = data.decode("ascii") if _is_simple(data) else ""
        for row, (_, begin, end) in enumerate(spans[first:last], first):
            line = simple[begin - low : end - low]
            if line and _is_whole(line, simple[begin - low - 1 : begin - low]):
                out.append(line.rstrip("\n"))
                continue
            raw = data[begin - low : end - low]
            if _is_of_record(raw, data[begin - low - 1 : begin - low]):
                out.append(_line_of_record(evidence, file, begin, ends[row], documents)[:limit])
                continue
            if b"\r" in raw and end < ends[row]:
                length = min(limit, ends[row] - begin)
                raw = read_stored(evidence, file, ends[row] - length, length)
            out.append(clean_line(decode(raw, encoding_of(raw)[0]).rstrip("\n")))
    return out


def _read_at_once(spans: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """The first and the end of each run of lines that are read at once, and of their bytes. The
    byte before a line is read too: it shows whether the line is one of a record.
    """
    first = 0
    while first < len(spans):
        file, begin, high = spans[first]
        low = max(begin - 1, 0)
        last = first + 1
        while last < len(spans) and spans[last][0] == file and high <= spans[last][1] <= high + _MAX_GAP_BYTES:
            high = spans[last][2]
            last += 1
            if high - low > _MAX_BYTES:
                break
        yield first, last, low, high
        first = last


def _is_simple(data: bytes) -> bool:
    """Whether lines of these bytes need no decoding and cleaning of each: those of nearly all logs."""
    return data.isascii() and not any(byte in data for byte in _CLEANED)


def _is_whole(line: str, before: str) -> bool:
    """Whether simple text is a line of the file, and short enough to be shown as it is."""
    is_of_file = before in _LINE_ENDS and line[0] != "{" and "\n" not in line.rstrip("\n")
    return is_of_file and len(line) <= LINE_CHARS


def _is_of_record(line: bytes, before: bytes) -> bool:
    """Whether a row is a line of a record, and no line of the file: it begins within one, or
    spans several. In UTF-16 any byte may be a newline's.
    """
    spans_lines = b"\n" in line.rstrip(b"\n") and b"\0" not in line
    return line[:1] == b"{" or before not in _BEFORE_LINES or spans_lines


def _line_of_record(
    evidence: ReadRange,
    file: str,
    begin: int,
    end: int,
    documents: dict[tuple[str, int], list[str]],
) -> str:
    """The line of a record that begins at a byte. ``documents``: the lines of those read so far, by
    their file and end: all rows of one end there.
    """
    known = documents.get((file, end))
    if known is not None:
        return known[min(begin, len(known) - 1)]
    lines, is_document = _record(evidence, file, begin, end - begin)
    if not is_document:
        return lines[-1]
    documents[file, end] = lines
    return lines[min(begin, len(lines) - 1)]


def _record(evidence: ReadRange, file: str, offset: int, length: int) -> tuple[list[str], bool]:
    """The lines of a record up to the one at ``offset``, or all lines of the document that the file
    is, and whether it is one.
    """
    back = read_stored(evidence, file, max(0, offset - MAX_LINES), min(MAX_LINES, offset))
    place = len(back) - (back.rfind(b"\n") + 1)
    if place >= MAX_LINES or place + length > LINE_BYTES:
        place = 0
    whole = read_stored(evidence, file, offset - place, min(place + length, LINE_BYTES))
    text = decode(whole, encoding_of(whole)[0]).rstrip("\n")
    lines = [clean_line(line) for line in wrapped.unwrap_all([text])[0].split("\n")]
    is_no_record = len(lines) <= place if offset else lines == [text]
    if is_no_record or "\n" in text:
        document = read_stored(evidence, file, 0, offset + length) if offset + length <= exported.MAX_BYTES else b""
        if told := [clean_line(line) for line in wrapped.unwrap_document(document)]:
            return told, True
        place = offset
    return lines[: place + 1], False


def read_stored(evidence: ReadRange, file: str, offset: int, length: int) -> bytes:
    """Bytes of a file; none where they cannot be read any more."""
    try:
        return evidence(file, offset, length)
    except (OSError, ValueError, KeyError):
        return b""
