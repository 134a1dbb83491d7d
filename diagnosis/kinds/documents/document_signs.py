"""Texts that describe, and report nothing that happened: source code, help, documentation,
histories of changes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import msgspec

from diagnosis.knowledge.knowledge_files import records, table
from diagnosis.values import log_lines

#: Characters at the beginning of a text in which the signs of its form must occur.
SIGN_CHARS: Final = 4_096
#: Lines that are compared with the pattern of a form's lines.
_MAX_LINES: Final = 400
_MIN_LINES: Final = 3
#: Characters in which nearly every log reports its first event.
_EVENT_CHARS: Final = 1_024
#: What only a report of events holds: a line that begins with a time or a rank, a traceback, a
#: library's note.
_EVENT: Final = re.compile(
    rf"(?m)^(?:{log_lines.LINE_BEGIN}|[^\w\n]{{0,3}}{log_lines.CLOCK}|{log_lines.TRACEBACK})|{log_lines.NCCL_NOTE}"
)


class DocumentForm(msgspec.Struct, frozen=True):
    """One form of documents. All ``signs`` occur at its beginning; ``line`` matches at least the
    share ``share`` of its lines; ``counter`` occurs nowhere in its head. These are patterns, which
    are compiled when a text has the signs before them: compiling all takes longer than reading a
    small log.
    """

    title: str
    example: str
    signs: tuple[str, ...] = ()
    line: str = ""
    share: float = 0.0
    counter: str = ""

    def fits(self, text: str) -> bool:
        """Whether a text that begins so has this form. O(len(text))."""
        begin = text[:SIGN_CHARS]
        if not all(re.search(sign, begin, re.MULTILINE) for sign in self.signs):
            return False
        if self.counter and re.search(self.counter, text, re.MULTILINE):
            return False
        return not self.line or _has_lines(text, re.compile(self.line), self.share)


@cache
def load() -> tuple[DocumentForm, ...]:
    """All forms, in the order in which they are tried."""
    return records(DocumentForm, table("documents", "diagnosis.kinds.documents")["document"])


def form_of_document(text: str) -> DocumentForm | None:
    """The form of a document that begins with ``text``; None for texts that may report events."""
    if _EVENT.search(text, 0, _EVENT_CHARS):
        return None
    found = next((form for form in load() if form.fits(text)), None)
    return None if found is None or _EVENT.search(text) else found


def _has_lines(text: str, pattern: re.Pattern[str], share: float) -> bool:
    lines = [line for line in text.split("\n", _MAX_LINES)[:_MAX_LINES] if line.strip()]
    matched = sum(pattern.match(line) is not None for line in lines)
    return len(lines) >= _MIN_LINES and matched >= share * len(lines)
