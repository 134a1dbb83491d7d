"""Patterns in the form that ASCII text needs.

``\\w``, ``\\b`` and ``[^…]`` cover all of Unicode, and compiling that costs more than matching a few hundred lines.
In ASCII text the form made here matches exactly the same, and compiles in about a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import polars as pl

type Form = Callable[[str], str]
_ALONE = {
    "w": "[0-9A-Za-z_]",
    "W": r"[\x00-\x7F&&[^0-9A-Za-z_]]",
    "s": r"[\t\n\x0B\x0C\r ]",
    "S": r"[\x00-\x08\x0E-\x1F!-\x7F]",
    "d": "[0-9]",
    "b": r"(?-u:\b)",
}
_IN_CLASS = {"w": "0-9A-Za-z_", "s": r"\t\n\x0B\x0C\r ", "d": "0-9"}


@cache
def ascii_form(pattern: str) -> str:
    """A pattern that finds in ASCII text what ``pattern`` finds there; no ``\\W``, ``\\S`` in classes."""
    out: list[str] = []
    opened: list[str] = []  # the closing parts of the current classes; they nest
    index = 0
    while index < len(pattern):
        char = pattern[index]
        index += 1
        if char == "\\":
            escaped = pattern[index]
            index += 1
            if opened and escaped in "WS":
                raise ValueError(f"\\{escaped} in a class: {pattern}")
            out.append((_IN_CLASS if opened else _ALONE).get(escaped, char + escaped))
        elif char == "[":
            is_negated = pattern[index] == "^"
            index += is_negated
            out.append(r"[\x00-\x7F&&[^" if is_negated else "[")
            opened.append("]]" if is_negated else "]")
        elif char == "]" and opened:
            out.append(opened.pop())
        elif char == "." and not opened:
            out.append(r"[\x00-\x09\x0B-\x7F]")
        else:
            out.append(char)
    return "".join(out)


def unchanged(pattern: str) -> str:
    """The form for any text: the pattern itself."""
    return pattern


def form_for(text: pl.Series) -> Form:
    """The form of patterns that suits all of these strings. O(bytes)."""
    return ascii_form if (text.str.len_bytes() == text.str.len_chars()).all() else unchanged
