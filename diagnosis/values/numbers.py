"""Reads whole numbers in evidence, paths and addresses."""

from __future__ import annotations

import re
from typing import Final

#: Number of digits that every database can store, also after multiplication with a page's size.
MAX_DIGITS: Final = 15
#: Upper limit of such numbers.
MAX_NUMBER: Final = 10**MAX_DIGITS
#: Maximum number of ranks of a job. A stated rank, size or count beyond it is some other number, and no statement alone
#: makes a longer list of ranks.
MAX_RANKS: Final = 1 << 18
_WHOLE: Final = re.compile(r"[0-9]+")


def whole(text: str, digits: int = MAX_DIGITS) -> int | None:
    """The number from 0 on that ``text`` is in the digits 0 to 9, up to the limit of digits; None for anything else.
    ``str.isdigit`` alone would accept ``²``, and thousands of digits, which ``int`` refuses.
    """
    return int(text) if len(text) <= digits and _WHOLE.fullmatch(text) else None


def natural_key(text: str) -> list[tuple[int, int | str]]:
    """Sort key in which node-9 comes before node-10."""
    parts = ((whole(part), part) for part in re.split(r"([0-9]+)", text) if part)
    return [(1, part) if number is None else (0, number) for number, part in parts]


def is_moment(seconds: float) -> bool:
    """Whether a number can be seconds since the epoch of a job: from the year 2000 to 2100."""
    return 946_684_800 <= seconds < 4_102_444_800


def rank(text: str) -> int | None:
    """The rank in ``text``, below :data:`MAX_RANKS`; None for other text, such as a time."""
    number = whole(text)
    return number if number is not None and number < MAX_RANKS else None
