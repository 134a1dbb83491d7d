"""Converts values into JSON that every database can store, and text into a form without active characters."""

from __future__ import annotations

import math
import re
from typing import Any

#: C0 and DEL have visible symbols; tab and line ends stay
_CONTROL_SYMBOLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"} | {127: 0x2421}
#: C1, which terminals obey, and characters that change the direction of text (embeddings, overrides, isolates)
_INVISIBLE = re.compile("[\x80-\x9f\u202a-\u202e\u2066-\u2069]")

#: a spreadsheet reads a cell that begins with one of these as a formula
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
#: one that JSON writes as a number; the number of backslashes before it is odd
_ESCAPE = re.compile(r"((?<!\\)(?:\\\\)*)\\u(00[0189][0-9a-f]|007f|202[a-e]|206[6-9])", re.IGNORECASE)


def plain(value: Any) -> Any:
    """JSON without NaN, tuples or NumPy scalars, its strings as :func:`text` gives them; unknown objects become their
    text. O(values).
    """
    if isinstance(value, str):
        return text(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {text(str(k)): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value) if isinstance(value, (set, frozenset)) else value
        return [plain(v) for v in items]
    if hasattr(value, "item"):
        return plain(value.item())
    return text(str(value))


def text(value: str) -> str:
    """``value`` with symbols in place of invalid characters: NUL, which PostgreSQL refuses, and halves of surrogate
    pairs, which JSON can represent and UTF-8 cannot.
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
    """A number of hours as all pages show it: a whole number, two digits below 10."""
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"


def times_as_long(factor: float) -> str:
    """A factor of time in three digits: ``9.96 times as long``."""
    return f"{factor:,.{2 if factor < 9.995 else 1 if factor < 99.95 else 0}f} times as long"


def visible(value: str) -> str:
    """``value`` in which no character acts on a terminal, a page or the direction of reading: ESC becomes its symbol
    ``\u241b``, U+202E becomes ``[U+202E]``. Tabs and line ends stay. A second call changes nothing. O(length).
    """
    if value.isascii() and value.isprintable():  # almost every line
        return value
    value = value.translate(_CONTROL_SYMBOLS)
    return value if value.isascii() else _INVISIBLE.sub(_code_point, value)


def visible_json(value: str) -> str:
    """A JSON document without active characters in its strings, written out or as ``\\u202e``; ends of lines stay."""
    return visible(_ESCAPE.sub(lambda found: found[1] + visible(chr(int(found[2], 16))), value))


def csv_cell(value: Any) -> Any:
    """A cell of a CSV file without active content: an apostrophe before text that a spreadsheet reads as a formula,
    and no character that acts.
    """
    if not isinstance(value, str):
        return value
    return f"'{visible(value)}" if value.startswith(_FORMULA) else visible(value)


def _code_point(match: re.Match[str]) -> str:
    return f"[U+{ord(match[0]):04X}]"
