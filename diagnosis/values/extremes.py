"""The least, the greatest and the middle value of a column of numbers, with the types that they have."""

from __future__ import annotations

import polars as pl


def least(values: pl.Series) -> int | None:
    """The least of whole numbers; None without any. O(n)."""
    found = values.min()
    return int(found) if isinstance(found, int | float) else None


def greatest(values: pl.Series) -> int | None:
    """The greatest of whole numbers; None without any. O(n)."""
    found = values.max()
    return int(found) if isinstance(found, int | float) else None


def middle(values: pl.Series) -> float:
    """The median of numbers; 0 without any. O(n)."""
    found = values.median()
    return float(found) if isinstance(found, int | float) else 0.0
