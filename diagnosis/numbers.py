"""Whole numbers that evidence, paths and addresses spell out."""

from __future__ import annotations

import re
from typing import Final

#: Digits of a number that every database keeps, also times a page's size.
DIGITS: Final = 15
#: Such numbers stay below.
MOST: Final = 10**DIGITS
_WHOLE: Final = re.compile(r"[0-9]+")


def whole(text: str, digits: int = DIGITS) -> int | None:
    """The number from 0 on that ``text`` is in the digits 0 to 9, at most so many of them; None for anything else.

    ``str.isdigit`` alone would let pass ``²``, and digits by the thousand, which ``int`` refuses.
    """
    return int(text) if len(text) <= digits and _WHOLE.fullmatch(text) else None
