"""The newest lines of all growing files of an attempt, from where the page has read to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, BinaryIO, Final, NamedTuple

from diagnosis.kinds.logs.text.encodings import encoding_of
from ingest.models import Attempt, Upload
from ingest.services.resuming import part_path_of
from triage.domain.live_lines import Line, lines_of, merge

#: files that one page follows: those that grew last
MAX_FILES: Final = 200
#: bytes of one file, bytes of all files, and lines, in one answer. A page that is further behind skips
MAX_FILE_BYTES: Final = 64 << 10
MAX_ANSWER_BYTES: Final = 1 << 20
MAX_LINES: Final = 1_000
#: bytes of one file, and of all files, that a page shows first
MAX_FIRST_BYTES: Final = 16 << 10
MAX_FIRST_ANSWER_BYTES: Final = 128 << 10
#: bytes that each file may always fill, so that no file is left out because there are many
MIN_FILE_BYTES: Final = 1 << 10
_MARK = re.compile(r"([0-9a-f]{8})-(\d{1,15})")


class LineFilter(NamedTuple):
    """Which lines: minimum level, part of the file's name, words."""

    level: int = 0
    who: str = ""
    words: str = ""

    def __bool__(self) -> bool:
        return bool(self.level or self.who or self.words)


class Tail(NamedTuple):
    """``cursor`` continues here. ``skipped``: bytes that are not shown because there were too many."""

    lines: list[Line]
    files: list[str]
    cursor: str
    skipped: int
    growing: int


def tail(attempt: Attempt, *, cursor: str, line_filter: LineFilter) -> Tail:
    """The lines after ``cursor`` of an earlier answer; without one, the last lines of each file.

    One query, or two; reads at most :data:`MAX_ANSWER_BYTES`, of which each file has the same share. Only bytes that
    the database confirms are shown.
    """
    live = Upload.objects.filter(attempt=attempt, state=Upload.State.RECEIVING, size_bytes=None)
    chosen = live.filter(path__icontains=line_filter.who) if line_filter.who else live
    rows = list(chosen.only("pk", "path", "offset_bytes").order_by("-updated_at")[: MAX_FILES + 1])
    is_part = len(rows) > MAX_FILES or bool(line_filter.who)
    rows = rows[:MAX_FILES]
    first = _byte_share(MAX_FIRST_BYTES, MAX_FIRST_ANSWER_BYTES, len(rows))
    max_bytes = _byte_share(MAX_FILE_BYTES, MAX_ANSWER_BYTES, len(rows))
    at = {mark: int(offset) for mark, offset in _MARK.findall(cursor[:8_000])}
    files: list[str] = []
    lines_by_file: list[list[Line]] = []
    marks: list[str] = []
    skipped = 0
    for upload in rows:
        mark = upload.pk.hex[:8]
        begin, end, missed = _read_span(upload, at.get(mark), first=None if cursor else first, max_bytes=max_bytes)
        skipped += missed
        data, end = _whole_lines(upload, begin, end, max_bytes)
        marks.append(f"{mark}-{end}")
        if not data:
            continue
        files.append(upload.path)
        lines_by_file.append([line for line in lines_of(len(files) - 1, data) if _passes(line, line_filter)])
    lines = merge(lines_by_file)
    growing = live.count() if is_part else len(rows)
    return Tail(lines[-MAX_LINES:], files, ".".join(marks), skipped, growing)


def _byte_share(max_each: int, max_all: int, files: int) -> int:
    """Bytes that one of ``files`` may fill."""
    return max(min(max_each, max_all // max(1, files)), min(MIN_FILE_BYTES, max_each))


def _read_span(upload: Upload, last_end: int | None, *, first: int | None, max_bytes: int) -> tuple[int, int, int]:
    """Where to read from and to, and how many bytes are passed over. ``last_end``: the end of what the page has.
    ``first``: bytes of a first answer, None in later ones: a file that appeared later is read from its beginning.
    """
    end = upload.offset_bytes
    begin = last_end if last_end is not None else 0 if first is None else max(0, end - first)
    begin = min(begin, end)
    if end - begin > max_bytes:
        return end - max_bytes, end, end - max_bytes - begin
    return begin, end, 0


def _whole_lines(upload: Upload, begin: int, end: int, max_bytes: int) -> tuple[bytes, int]:
    """The whole lines between, and where they end. A longer line than one answer is cut."""
    if end <= begin:
        return b"", begin
    try:
        with part_path_of(upload).open("rb") as file:
            encoding, _ = encoding_of(file.read(2))
            if encoding != "utf-8":
                return _utf16_lines(file, begin, end, max_bytes, encoding)
            is_inside = begin > 0
            file.seek(begin - 1 if is_inside else 0)
            data = file.read(end - begin + (1 if is_inside else 0))
    except OSError:  # completed in between
        return b"", begin
    if is_inside:
        before, data = data[:1], data[1:]
        if before != b"\n":  # the beginning of the answer is in the middle of a line
            data = data[data.find(b"\n") + 1 :] if b"\n" in data else data
    last = data.rfind(b"\n")
    if last < 0:
        return (data, end) if end - begin >= max_bytes else (b"", begin)
    return data[: last + 1], end - (len(data) - last - 1)


def _utf16_lines(file: BinaryIO, begin: int, end: int, max_bytes: int, encoding: str) -> tuple[bytes, int]:
    """:func:`_whole_lines` of a file in UTF-16 with a mark, as UTF-8."""
    begin, end = begin - begin % 2, end - end % 2
    file.seek(max(0, begin - 2))
    text = file.read(end - file.tell()).decode(encoding, "replace").removeprefix("\ufeff")
    if begin:
        before, text = text[:1], text[1:]
        text = text if before == "\n" else text.partition("\n")[2] or text
    whole, newline, rest = text.rpartition("\n")
    if not newline:
        return (text.encode(), end) if end - begin >= max_bytes else (b"", begin)
    return (whole + newline).encode("utf-8", "replace"), end - len(rest.encode(encoding, "replace"))


def _passes(line: Line, line_filter: LineFilter) -> bool:
    if line.level < line_filter.level:
        return False
    return not line_filter.words or line_filter.words.lower() in line.text.lower()


def tail_json(answer: Tail) -> Mapping[str, Any]:
    """The JSON of one answer: each line is [file, level, text]."""
    return {
        "lines": [[line.file, line.level, line.text] for line in answer.lines],
        "files": answer.files,
        "cursor": answer.cursor,
        "skipped": answer.skipped,
        "growing": answer.growing,
    }
