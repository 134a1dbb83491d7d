"""Where something stands in a line, kept for lines that differ from it in digits alone.

The lines of one message differ in numbers. A pattern that asks whether a character is a digit, and never which one,
matches all of them at the same places, so that a large job searches each form of a line once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

#: Number of forms that are kept, and of characters of the longest: at most 16 MB.
MAX_KEPT: Final = 1 << 14
MAX_CHARS: Final = 1_000
_AS_ZERO: Final = bytes.maketrans(b"123456789", b"0" * 9)


class DigitForms[T]:
    """What a function finds in lines, if it depends on their digits only by being digits: places, and words
    without digits. Threads may share it.
    """

    def __init__(self, find: Callable[[str], T]) -> None:
        self._find = find
        self._known: dict[bytes, T] = {}

    def of(self, line: str) -> T:
        """What the function finds in the line. O(characters), and its own work for a new form."""
        form = line.encode("utf-8", "surrogatepass").translate(_AS_ZERO)
        try:
            return self._known[form]
        except KeyError:
            found = self._find(line)
        if len(self._known) >= MAX_KEPT:
            self._known = {}  # another one, because other threads may read the former
        if len(line) <= MAX_CHARS:
            self._known[form] = found
        return found


def span_of(pattern: re.Pattern[str]) -> DigitForms[tuple[int, int] | None]:
    """The place of the number that a pattern finds first in a line."""

    def find(line: str) -> tuple[int, int] | None:
        found = pattern.search(line)
        return None if found is None else found.span(1)

    return DigitForms(find)
