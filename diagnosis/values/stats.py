"""The statistics that logs, flows and stacks share: minority, sum of hints, change point. Pure numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

#: Largest share of a whole that is a minority; the others are then nearly all.
MINORITY_SHARE: Final = 0.25
#: Upper limit of a weight: no hint is a proof.
MAX_WEIGHT: Final = 0.97
#: A standard deviation by the median distance from the median, for normal noise.
MAD_TO_SIGMA: Final = 1.4826


def largest_minority(total: int) -> int:
    """The largest minority of ``total``: one of a small group, a quarter of a large one."""
    return max(1, int(MINORITY_SHARE * total))


def is_minority(count: int, total: int) -> bool:
    """Whether this number is a minority of the total."""
    return total > 1 and 0 < count <= largest_minority(total)


def is_nearly_all(count: int, total: int) -> bool:
    """Whether this number is all of the total except a minority."""
    return total > 0 and count >= (1 - MINORITY_SHARE) * total


def fuse(weights: Iterable[float]) -> float:
    """Independent hints, each right with its weight in [0, 1], joined by noisy or. O(n)."""
    missed = 1.0
    for weight in weights:
        missed *= 1.0 - min(max(weight, 0.0), MAX_WEIGHT)
    return 1.0 - missed


def spread(values: npt.ArrayLike) -> float:
    """A robust standard deviation: a quarter of extreme values does not change it."""
    array = np.asarray(values, dtype=float)
    return MAD_TO_SIGMA * float(np.median(np.abs(array - np.median(array)))) if array.size else 0.0


def spreads(table: npt.NDArray[np.float64], axis: int) -> npt.NDArray[np.float64]:
    """The :func:`spread` along one axis of a table without unknown values."""
    from_middle = np.abs(table - np.median(table, axis=axis, keepdims=True))
    return np.asarray(MAD_TO_SIGMA * np.median(from_middle, axis=axis))


def median_and_spread(values: npt.ArrayLike) -> tuple[float, float]:
    """The median and the :func:`spread`; zeros without values."""
    array = np.asarray(values, dtype=float)
    return (float(np.median(array)), spread(array)) if array.size else (0.0, 0.0)


def change_point(values: npt.NDArray[np.float64], least: int, *, is_mean: bool = False) -> int | None:
    """The point where the level changes: the split with the least distance to the medians of its
    two sides, each of ``least`` values or more; None if there are too few. ``is_mean``: least
    squares to the means instead. O(n²).
    """
    cuts = range(least, len(values) - least + 1)

    def distance(part: npt.NDArray[np.float64]) -> float:
        return float(((part - part.mean()) ** 2).sum() if is_mean else np.abs(part - np.median(part)).sum())

    return min(cuts, key=lambda cut: distance(values[:cut]) + distance(values[cut:]), default=None)
