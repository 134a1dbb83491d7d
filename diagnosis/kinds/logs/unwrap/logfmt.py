"""Lines of pairs, as loggers write logfmt: ``time=… level=error msg="Traceback …\\n  File …\\n"``.

A line whose values have one line each is read as it stands, behind the machine and the rank that it
states. A value of several lines, such as a traceback, is written in quotes with escaped ends of
lines: its record is read like one of JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from diagnosis.kinds.logs.unwrap import structured
from diagnosis.kinds.logs.unwrap.structured import StructuredRecord
from diagnosis.values.json_values import Json

#: How such a line begins, and the key of its text.
_LINE: Final = re.compile(r'[A-Za-z_][\w.@\-]{0,60}=(?=["\w])[^\n]{0,400}?\b(?:msg|message|event)=')
#: A pair; a quoted value may hold escaped quotes.
_PAIR: Final = re.compile(r'([A-Za-z_][\w.@\-]{0,60})=("(?:[^"\\]|\\.)*+"|[^\s"]*+)(?:\s+|$)')
_ESCAPED_END: Final = "\\n"
_MAX_PAIRS: Final = 200


def is_logfmt(lines: Sequence[str]) -> bool:
    """Whether all lines begin as pairs with a text among them."""
    return bool(lines) and all(_LINE.match(line) for line in lines)


def record_of(line: str) -> StructuredRecord | None:
    """The record of a line with a place or a long value; None for others. O(characters)."""
    fields = _fields(line)
    record = structured.record_of(fields)
    if not record.has_text:
        return None
    if _ESCAPED_END not in line:
        return record._replace(lines=[line]) if record.node or record.rank else None
    several = [value for value in fields.values() if isinstance(value, str) and "\n" in value]
    if not several:
        return None
    told = list(record.lines)
    for value in several:
        lines = structured.text_lines(value)
        told += [] if lines[:1] and lines[0] in told else lines
    return record._replace(lines=told)


def _fields(line: str) -> dict[str, Json]:
    """The pairs from the beginning of a line up to what is none."""
    fields: dict[str, Json] = {}
    at = 0
    while len(fields) < _MAX_PAIRS and (found := _PAIR.match(line, at)):
        fields[found[1]] = _value(found[2])
        at = found.end()
    return fields


def _value(written: str) -> str:
    if not written.startswith('"'):
        return written
    try:
        return str(json.loads(written, strict=False))
    except ValueError:
        return written[1:-1].replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
