"""Reads parameters of addresses, forms and the API: ignores numbers that it cannot use, refuses layouts with a
sentence.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from typing import Any

from diagnosis.values import numbers

#: a digest as callers state it
SHA256 = re.compile(r"[0-9a-fA-F]{64}")
MAX_LAYOUT_BYTES = 20_000
#: the range of nanoseconds in 64 bits
_FIRST_YEAR, _LAST_YEAR = 1678, 2261


def whole(text: str | None, default: int = 0) -> int:
    """A whole number, 0 or more; ``default`` for anything else."""
    number = numbers.whole(text or "")
    return default if number is None else number


def seconds(text: str | None) -> float | None:
    """Seconds since the epoch; None for anything but a finite number."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def instant(text: str | None) -> datetime | None:
    """A time with a zone, in UTC, within the range of nanoseconds in 64 bits (1678 to 2261); None for anything else."""
    try:
        moment = datetime.fromisoformat((text or "").replace(" ", "+")).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if _FIRST_YEAR <= moment.year <= _LAST_YEAR else None


def layout_problem(layout: dict[Any, Any]) -> str:
    """Why the database cannot store this parallel layout, as a sentence; empty if it can."""
    try:
        raw = json.dumps(layout, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return "It holds text that is not Unicode, or is nested too deep: send names and numbers."
    if len(raw) > MAX_LAYOUT_BYTES or b"\\u0000" in raw:
        return "It holds NUL characters or is longer than 20 kB: send names and numbers."
    return ""
