"""What addresses, forms and the API ask for: numbers that cannot be used are passed over, layouts refused in words."""

from __future__ import annotations

import json
import math
from typing import Any

from diagnosis import numbers

MAX_LAYOUT_BYTES = 20_000


def whole(text: str | None, default: int = 0) -> int:
    """A whole number from 0 on; ``default`` for anything else."""
    number = numbers.whole(text or "")
    return default if number is None else number


def seconds(text: str | None) -> float | None:
    """Seconds since the epoch; None for what is no finite number."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def layout_problem(layout: dict[Any, Any]) -> str:
    """Why no database keeps this parallel layout, in a sentence; nothing where one does."""
    try:
        raw = json.dumps(layout, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return "It holds text that is not Unicode, or is nested too deep: send names and numbers."
    if len(raw) > MAX_LAYOUT_BYTES or b"\\u0000" in raw:
        return "It holds NUL characters or is longer than 20 kB: send names and numbers."
    return ""
