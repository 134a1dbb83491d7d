"""Whole numbers that evidence, paths and addresses spell out."""

from __future__ import annotations

import re
from typing import Final

#: Numbers stay below: every database keeps fifteen digits, also times a page's size.
MOST: Final = 10**15
#: ``str.isdigit`` alone would let pass ``²``, and digits by the thousand, which ``int`` refuses.
_WHOLE: Final = re.compile(r"[0-9]{1,15}")


def whole(text: str) -> int | None:
    """The number from 0 on that ``text`` is in the digits 0 to 9, at most fifteen of them; None for anything else."""
    return int(text) if _WHOLE.fullmatch(text) else None
