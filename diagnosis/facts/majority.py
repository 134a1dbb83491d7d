"""What most places state: one rule for the page of facts and for the verdict, so that neither denies
the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, overload

from diagnosis import thresholds

if TYPE_CHECKING:
    import polars as pl

THRESHOLDS: Final = thresholds.of("majority")


@overload
def is_of_most(votes: int, places: int) -> bool: ...
@overload
def is_of_most(votes: pl.Expr, places: pl.Expr) -> pl.Expr: ...
def is_of_most(votes: Any, places: Any) -> Any:
    """Whether a value that so many of the places state is the usual one; of numbers, or of columns."""
    return votes > THRESHOLDS.share * places
