"""Cuts a text into reports of tools and the lines of logs between them: pastes, bug reports,
outputs of scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from diagnosis.kinds.states import layouts
from diagnosis.kinds.states.formats import Format, format_of
from diagnosis.values import log_lines

#: A prompt with a command begins a new section.
_PROMPT: Final = re.compile(
    r"(?m)^(?:\$ |\[?[\w.\-]{1,60}@[\w.\-]{1,60}[: ~][^\n#$>]{0,60}[#$>] ?|[\w.\-]{1,60}[#>] )\w.*$"
)
#: A heading: a title behind or between marks, the name of a file between arrows, a fence of
#: Markdown.
_HEADING: Final = re.compile(
    r"(?m)^(?:(?:={3,40}|-{3,40}|\*{3,40}|#{2,40}|# -{3,40}) ?[\w/][^\n]{0,100}|==> [^\n]{1,200} <==|```[a-z]{0,12})$"
)
_TITLE: Final = re.compile(f"{_PROMPT.pattern}|{_HEADING.pattern.removeprefix('(?m)')}")
#: A program that failed behind a report whose own lines have times.
_PROGRAM: Final = re.compile(f"(?m)^{log_lines.TRACEBACK}")
#: Sections of one text; the rest belongs to the last one.
MAX_PIECES: Final = 6_000
#: Shapes of tables.
_TABLES: Final = frozenset({"columns", "aligned", "csv"})


class Piece(NamedTuple):
    """A part of a text: its first line (1-based), its text, its format (None: not known), and
    whether its lines are read as a log.
    """

    first_line: int
    text: str
    form: Format | None
    is_log: bool


def cut(text: str) -> Iterator[Piece]:
    """The pieces of a text, in order; together they are the text. A title without a report or a log
    behind it belongs to the piece before. O(len(text)).
    """
    found = islice(_TITLE.finditer(text), MAX_PIECES)
    starts = [0, *(one.start() for one in found if one.start())]
    waiting: Piece | None = None
    line = 1
    for begin, end in zip(starts, [*starts[1:], len(text)], strict=True):
        for piece in _report_and_log(text[begin:end], line):
            line += piece.text.count("\n")
            before, waiting = _joined(waiting, piece)
            if before is not None:
                yield before
    if waiting is not None:
        yield waiting


def _joined(waiting: Piece | None, piece: Piece) -> tuple[Piece | None, Piece]:
    """The piece that ended, if one did, and the one that goes on."""
    if waiting is None:
        return None, piece
    is_unknown = waiting.form is None and not waiting.is_log
    is_empty = not without_title(waiting.text).strip()
    if is_unknown and is_empty and not piece.is_log:
        return None, piece._replace(first_line=waiting.first_line, text=waiting.text + piece.text)
    is_known = piece.form is not None or piece.is_log
    is_command = _PROMPT.match(piece.text) is not None
    if waiting.is_log or is_known or is_command or _is_of_another_tool(waiting, piece):
        return waiting, piece
    return None, waiting._replace(text=waiting.text + piece.text)


def _is_of_another_tool(waiting: Piece, piece: Piece) -> bool:
    """Whether a text below a heading follows a table and has a layout of its own."""
    is_table = waiting.form is not None and waiting.form.shape in _TABLES
    return is_table and bool(layouts.entries(without_title(piece.text)))


def _report_and_log(text: str, line: int) -> Iterator[Piece]:
    """A section, or its report and the log behind it."""
    form = _format_of(text)
    has_times = form is not None and form.has_times
    event = (_PROGRAM if has_times else log_lines.EVENT).search(text)
    if event is None:
        yield Piece(line, text, form, is_log=False)
        return
    report = text[: event.start()]
    if report:
        yield Piece(line, report, _format_of(report), is_log=False)
    yield Piece(line + report.count("\n"), text[event.start() :], None, is_log=True)


def _format_of(text: str) -> Format | None:
    return format_of(text) or format_of(without_title(text).lstrip("\n"))


def without_title(text: str) -> str:
    """A section without the prompt or heading that begins it; its lines keep their numbers."""
    title = _TITLE.match(text)
    return text[title.end() :] if title else text
