"""Reads a JSON document, and of one that breaks off what comes before."""

from __future__ import annotations

import json
import re
from typing import Any, Final

#: Levels that are opened again where a document breaks off.
_MAX_LEVELS: Final = 24
_BEGIN: Final = re.compile(r"\[?\s{0,200}\{\s{0,200}\"")
_GAP: Final = re.compile(r"[\s,:]*")
_DECODER: Final = json.JSONDecoder()


def read(text: str) -> Any:
    """The value of a document, or the list of those of several; of a cut one the whole values before
    the cut, in the lists and objects that hold them; None of any other text. O(characters x levels).
    """
    found = [value for value in _items(text, 0, _MAX_LEVELS) if value is not None]
    return found if len(found) > 1 else next(iter(found), None)


def begins(text: str) -> bool:
    """Whether a text begins as an object or a list of objects: a log may begin with a bracket."""
    return _BEGIN.match(text) is not None


def is_one(text: str) -> bool:
    """Whether a text is one document, perhaps cut, and not one a line. O(characters)."""
    first, _, rest = text.partition("\n")
    try:
        _DECODER.decode(first)
    except (ValueError, RecursionError):
        return bool(rest)
    return not rest.strip()


def _after_gap(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return gap.end() if gap is not None else at


def _before_cut(text: str, at: int, levels: int) -> Any:
    """What a list or an object holds whose end is missing."""
    if levels and text[at : at + 1] == "[":
        return _items(text, at + 1, levels)
    if levels and text[at : at + 1] == "{":
        found = _items(text, at + 1, levels)
        return dict(zip(map(str, found[::2]), found[1::2], strict=False))
    return None


def _items(text: str, at: int, levels: int) -> list[Any]:
    """The values one after another, the last one as far as it goes."""
    found: list[Any] = []
    while True:
        at = _after_gap(text, at)
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return [*found, _before_cut(text, at, levels - 1)]
        found.append(value)
