"""Lines of growing logs as they arrive: times and levels, told from their first characters alone, and their order.

A page that follows a job cannot wait for the engine: it shows lines seconds after they were written. So it reads times
as text; the engine reads them properly when it watches the range.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from diagnosis.values.log_lines import CLOCK, DATE, SUBSECOND
from diagnosis.values.plain import visible

#: characters of a line that are searched for time and level, and that are shown
_HEAD_CHARS: Final = 200
MAX_LINE_CHARS: Final = 2_000
_DATE_AND_TIME = re.compile(rf"{DATE}[T _]{CLOCK}{SUBSECOND}")
_TIME_OF_DAY = re.compile(rf"{CLOCK}{SUBSECOND}")
#: part of every word of a level: most lines have none, and one search says so
_ANY_LEVEL = re.compile(r"FATAL|CRITICAL|PANIC|ERR|Traceback|Error:|Exception:|error:|WARN|Warning:|DEBUG|TRACE")
_LEVELS: Final = (
    (5, re.compile(r"\b(?:FATAL|CRITICAL|PANIC)\b")),
    (4, re.compile(r"\b(?:ERROR|Traceback|[A-Z]\w*(?:Error|Exception):|error:)|\[ERR")),
    (3, re.compile(r"\b(?:WARN|WARNING|[A-Z]\w*Warning:)")),
    (1, re.compile(r"\b(?:DEBUG|TRACE)\b")),
)
_INFO = 2


class Line(NamedTuple):
    """One line. ``file`` is the index of its file, ``order`` sorts lines of one answer."""

    order: str
    file: int
    level: int
    text: str


def lines_of(file: int, data: bytes, previous_order: str = "") -> list[Line]:
    """The lines of ``data``, which ends with a whole line. A line without a time has that of the line before it."""
    lines = []
    order = previous_order
    for raw in data.split(b"\n")[:-1] if data.endswith(b"\n") else data.split(b"\n"):
        cut = raw[: MAX_LINE_CHARS * 4].decode("utf-8", "replace").rstrip("\r")
        text = visible(cut.rsplit("\r", 1)[-1])
        order = order_of(text) or order
        text = f"{text[:MAX_LINE_CHARS]}… ({len(raw):,} bytes)" if len(text) > MAX_LINE_CHARS else text
        lines.append(Line(order, file, level_of(text), text))
    return lines


def order_of(text: str) -> str:
    """The time that a line prints, as text that sorts; empty if it prints none."""
    head = text[:_HEAD_CHARS]
    if match := _DATE_AND_TIME.search(head):
        return re.sub(r"[/_T]", lambda sign: "-" if sign[0] == "/" else " ", match[0]).replace(",", ".")
    match = _TIME_OF_DAY.search(head)
    return match[0].replace(",", ".") if match else ""


def level_of(text: str) -> int:
    """1 debug to 5 fatal; info if the line says nothing else."""
    head = text[:_HEAD_CHARS]
    if _ANY_LEVEL.search(head) is None:
        return _INFO
    return next((level for level, words in _LEVELS if words.search(head)), _INFO)


def merge(files: Iterable[Sequence[Line]]) -> list[Line]:
    """Lines of several files by time; the lines of one file keep their order.

    Files whose lines print dates and files that print clocks alone cannot be compared: those stand first.
    """
    keyed: list[tuple[str, int, int, Line]] = []
    for lines in files:
        last = ""
        for line in lines:
            last = max(last, line.order)  # a time that goes back within a file does not move the line up
            keyed.append((last, line.file, len(keyed), line))
    keyed.sort(key=lambda row: row[:3])
    return [line for *_, line in keyed]
