"""The usual pace of a job, from its state."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any


def step_s(state: Mapping[str, Any]) -> float | None:
    """The usual seconds of an iteration: the median of the last ones. None before five."""
    return median(state["steps"][-64:]) if len(state["steps"]) >= 5 else None


def count_s(state: Mapping[str, Any]) -> float | None:
    """The usual seconds between two printed counts; None before five."""
    usual = step_s(state)
    return None if usual is None else usual * state["interval"]
