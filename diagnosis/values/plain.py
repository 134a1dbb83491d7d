"""Converts values into JSON that every database can store, and text into a form without active characters."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from diagnosis.knowledge.late_patterns import late

#: C0 and DEL have visible symbols; tab and line ends stay
_CONTROL_SYMBOLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"} | {127: 0x2421}
#: Every character that a reader does not see, or that acts on a terminal or the direction of text: the categories Cc
#: (without tab and line ends), Cf, Zl and Zp of Unicode 16, and what it calls "default ignorable". As a class of `re`;
#: `tests/diagnosis/test_plain.py` makes it again from Unicode's tables. The client has a copy (`faultline.words`).
HIDDEN = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
#: Control sequences of terminals: colours, titles, movements.
ANSI = late(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_HIDDEN = late(f"[{HIDDEN}]")
#: What needs one of these marks is no disguise: signs of pictures, whose form U+FE0E and U+FE0F choose and which U+200D
#: joins; letters of Arabic and Indian scripts, which U+200C and U+200D separate and join.
_MARKS = "\u200c\u200d\ufe0e\ufe0f"
_PICTURE = (
    "\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff"
)
_LETTER = "\u0620-\u064a\u066e-\u06d3\u06fa-\u06ff\u0900-\u0dff"
_IN_PLACE = late(f"[{_PICTURE}][\ufe0e\ufe0f\u200d]|[{_PICTURE}]\ufe0f\u200d|[{_LETTER}][\u200c\u200d]")

#: a spreadsheet reads a cell that begins with one of these as a formula; some read the wide and small forms, too
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b")
#: characters that JSON writes as numbers; the number of backslashes before the first is even
_ESCAPES = late(r"(?<!\\)((?:\\\\)*)((?:\\u[0-9a-fA-F]{4})+)")


def plain(value: Any) -> Any:
    """JSON without NaN, tuples and NumPy scalars, strings as of :func:`text`. O(values)."""
    if isinstance(value, str):
        return text(value)
    if value is None or isinstance(value, int):  # also a truth value
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None  # of NumPy too
    if isinstance(value, dict):
        return {text(str(k)): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value) if isinstance(value, (set, frozenset)) else value
        return [plain(v) for v in items]
    if hasattr(value, "item"):
        return plain(value.item())
    return text(str(value))


def text(value: str) -> str:
    """``value`` with symbols in place of invalid characters: NUL, which PostgreSQL refuses, and
    halves of surrogate pairs, which JSON can represent and UTF-8 cannot.
    """
    if not value.isascii():
        value = value.encode("utf-8", "replace").decode()
    return value.replace("\0", "\u2400")


#: after a number; no line breaks at its space
PER_CENT = "\u00a0%"


def percent(share: float, digits: int = 0) -> str:
    """A share as all pages show it: ``97 %``, on one line."""
    return f"{100 * share:,.{digits}f}{PER_CENT}"


def amount(value: float) -> str:
    """A number of hours as all pages show it: a whole number, two digits below 10. What two digits
    would hide is ``<0.01``.
    """
    if 0 < value < 0.005:
        return "<0.01"
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"


def counted(count: int, one: str, several: str) -> str:
    """A number of things: ``1 line``, ``1,204 lines``, ``0 lines``."""
    return f"1 {one}" if count == 1 else f"{count:,} {several}"


def listed(names: Sequence[str], most: int) -> str:
    """The first of some names: ``a, b and 3 more``."""
    shown, rest = ", ".join(names[:most]), len(names) - most
    return f"{shown} and {rest:,} more" if rest > 0 else shown


#: Units of time with their seconds, from long to short.
_TIME_UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))


def duration(seconds: float) -> str:
    """A duration in three digits, as sentences show it: ``412 ms``, ``2.43 s``, ``2,433 s``."""
    fitting = (one for one in _TIME_UNITS if abs(seconds) >= 0.9995 * one[1])
    unit, unit_s = next(fitting, _TIME_UNITS[-1 if seconds else 0])
    return f"{_three_digits(seconds / unit_s)} {unit}"


def times_as_long(factor: float) -> str:
    """A factor of time in three digits: ``9.96 times as long``."""
    return f"{_three_digits(factor)} times as long"


def _three_digits(value: float) -> str:
    """A number with three digits or, from 1,000 on, whole."""
    return f"{value:,.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def visible(value: str) -> str:
    """``value`` in which no character is hidden, or acts on a terminal, a page or the direction of
    reading: ESC becomes its symbol ``␛``, U+202E becomes ``[U+202E]``. Tabs and line ends stay, and
    what joins letters or pictures that need it. A second call changes nothing. O(length).
    """
    if value.isascii() and value.isprintable():  # almost every line
        return value
    return _HIDDEN.sub(_picture, value)


def visible_json(value: str) -> str:
    """A JSON document whose strings hold no such characters as they are or as ``\\u202e``."""
    return visible(_ESCAPES.sub(_visible_escapes, value))


def _visible_escapes(found: re.Match[str]) -> str:
    text = json.loads(f'"{found[2]}"')
    shown = visible(text)
    return found[0] if shown == text else found[1] + json.dumps(shown)[1:-1]


def csv_cell(value: Any) -> Any:
    """A cell of a CSV file without active content: an apostrophe before text that a spreadsheet
    reads as a formula, and no character that is hidden or acts.
    """
    if not isinstance(value, str):
        return value
    return f"'{visible(value)}" if value.startswith(_FORMULA) else visible(value)


def _picture(found: re.Match[str]) -> str:
    character, end = found[0], found.end()
    if character in _MARKS and any(_IN_PLACE.fullmatch(found.string, end - length, end) for length in (2, 3)):
        return character
    code = ord(character)
    return chr(_CONTROL_SYMBOLS[code]) if code in _CONTROL_SYMBOLS else f"[U+{code:04X}]"
