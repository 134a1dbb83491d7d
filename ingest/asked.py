"""Numbers that an address or a form asks for: what cannot be used is passed over, so that no address breaks a page."""

from __future__ import annotations

import math
import re

#: ``str.isdigit`` alone would let pass ``²``, and digits by the thousand, which ``int`` refuses; every database keeps
#: what fifteen digits say, also times a page's size
_WHOLE = re.compile(r"[0-9]{1,15}")


def whole(text: str | None, default: int = 0) -> int:
    """A whole number from 0 on; ``default`` for anything else."""
    return int(text) if text and _WHOLE.fullmatch(text) else default


def seconds(text: str | None) -> float | None:
    """Seconds since the epoch; None for what is no finite number."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
