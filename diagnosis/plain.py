"""Values as JSON that every database keeps: what a report is made of."""

from __future__ import annotations

import math
from typing import Any


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
    """``value`` with signs in place of what is no text: NUL, which PostgreSQL refuses, and halves of surrogate pairs,
    which JSON can spell and UTF-8 cannot.
    """
    if not value.isascii():
        value = value.encode("utf-8", "replace").decode()
    return value.replace("\0", "\u2400")
