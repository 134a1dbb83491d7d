"""The usual pace of a job, from its state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median
from typing import Any, Final

#: The most that :func:`spread` says: more is no noise.
MAX_SPREAD: Final = 0.5


def step_s(state: Mapping[str, Any]) -> float | None:
    """The usual seconds of an iteration: the median of the last ones. None before five."""
    return median(state["steps"][-64:]) if len(state["steps"]) >= 5 else None


def count_interval_s(state: Mapping[str, Any]) -> float | None:
    """The usual seconds between two printed counts; None before five."""
    usual = step_s(state)
    return None if usual is None else usual * state["interval"]


def spread(state: Mapping[str, Any]) -> float:
    """How much the last iterations differ, as a share: the standard deviation of their logarithms, from the median of
    distances, which single slow ones do not move. 0 before five.
    """
    usual = step_s(state)
    if not usual:
        return 0.0
    return min(MAX_SPREAD, 1.4826 * median(abs(math.log(max(step, 1e-6) / usual)) for step in state["steps"][-64:]))
