"""What a line says, without who wrote it when: a quotation for sentences."""

from __future__ import annotations

import json
import re
from typing import Final

from diagnosis.logs.lines import ANSI

#: A stamp with what programmes put beside it, in front of a message whose template does not show where it begins.
_HEAD: Final = re.compile(
    r"^\W*(?:[A-Z]?\d{4}[-/]\d\d[-/]\d\d[T ]|[EWIF]\d{4} )[\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\W*(?:\d+ [\w./-]+:\d+\]\s*)?"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_PARAMETER: Final = re.compile(r"<[A-Z]+>")
#: Characters that a template's opening needs to be found again in the line.
OPENING: Final = 4


def quote(example: str, template: str = "", width: int = 140) -> str:
    """The message of ``example`` (``template`` shows where it begins), of a JSON record its own words."""
    text = _message_of_json(example) or example
    opening = _PARAMETER.split(template, maxsplit=1)[0].strip()
    place = text.find(opening) if len(opening) >= OPENING else -1
    text = text[place:] if place > 0 else _HEAD.sub("", text)
    return clip(text, width)


def clip(text: object, width: int) -> str:
    """One line of at most ``width`` characters, cut between words where possible."""
    line = plain(str(text))
    if len(line) <= width:
        return line
    cut = line.rfind(" ", 0, width - 1)
    return line[: cut if cut >= 0.6 * width else width - 1].rstrip(" ,;:(") + "…"


def plain(text: str) -> str:
    """One line without what only a terminal understands."""
    return " ".join(_CONTROL.sub("", ANSI.sub("", text)).split())


def _message_of_json(text: str) -> str:
    start = text.find("{")
    if start < 0 or not text.rstrip().endswith("}"):
        return ""
    try:
        record = json.loads(text[start:])
    except ValueError:
        return ""
    for _ in range(3):
        record = record.get("message", record.get("msg", record)) if isinstance(record, dict) else record
    return record if isinstance(record, str) else ""
