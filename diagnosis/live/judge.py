"""The current alarms: no progress for longer than this stage's history allows, slow steps, a decisive error."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any, Final, NamedTuple

from diagnosis.live.state import step_s

#: Number of usual steps, and seconds for transport and reading, without progress before the alarm of a hang.
HANG_STEPS: Final = 2.5
HANG_S: Final = 8.0
#: Factor by which a pause may exceed the longest pause so far of the same stage.
MARGIN: Final = 1.6
#: Number of advances of the counter before its step time is known.
KNOWN_ADVANCES: Final = 5
#: Seconds that a stage may take when the job enters it for the first time.
FIRST_S: Final[Mapping[str, float]] = {"evaluation": 900.0, "checkpoint_save": 900.0, "shutdown": 300.0}
BEFORE_TRAINING_S: Final = 1800.0
#: Slow: this many times the usual step, over this many observations.
SLOW: Final = 1.5
SLOW_STEPS: Final = 6


class Alarm(NamedTuple):
    """One current problem. ``since``: seconds on the site's clock."""

    kind: str
    text: str
    since: float


def judge(state: Mapping[str, Any], now: float) -> list[Alarm]:
    """The alarms at ``now``, the most severe first. O(1)."""
    return [alarm for alarm in (_error(state), _hang(state, now), _slow(state)) if alarm is not None]


def allowed_s(state: Mapping[str, Any]) -> float:
    """How long the job may go without progress in its present stage."""
    stage = state["stage"] or "training"
    usual = step_s(state)
    if usual is None or state["advances"] < KNOWN_ADVANCES:
        return BEFORE_TRAINING_S
    longest = state["longest"].get(stage)
    least = HANG_STEPS * usual + HANG_S
    if stage != "training" and longest is None:
        return max(least, FIRST_S.get(stage, BEFORE_TRAINING_S))
    return max(least, MARGIN * (longest or 0.0) + HANG_S / 2)


def _hang(state: Mapping[str, Any], now: float) -> Alarm | None:
    since = state["advanced_at"] if state["advanced_at"] is not None else state["since"]
    silent = now - since
    if silent <= allowed_s(state):
        return None
    where = f" after iteration {state['iteration']:,}" if state["iteration"] is not None else ""
    usual = step_s(state)
    beside = f"; a step usually takes {usual:.1f} s" if usual is not None else ""
    return Alarm("hang", f"No progress for {silent:,.0f} s{where}{beside}.", since)


def _slow(state: Mapping[str, Any]) -> Alarm | None:
    steps = state["steps"]
    if len(steps) < 3 * SLOW_STEPS:
        return None
    before, last = median(steps[:-SLOW_STEPS]), steps[-SLOW_STEPS:]
    if before <= 0 or min(last) < SLOW * before:
        return None
    factor = median(last) / before
    text = f"Steps take {median(last):.1f} s, {factor:.1f} times as long as before."
    return Alarm("slow", text, state["advanced_at"])


def _error(state: Mapping[str, Any]) -> Alarm | None:
    """The first decisive error, unless the job made progress for some time after it."""
    usual = step_s(state) or 0.0
    for row in state["errors"]:
        survived = (state["advanced_at"] or 0.0) > row["seen_at"] + HANG_STEPS * usual + HANG_S
        if not survived:
            return Alarm("error", f"{row['title']}: {row['text']}", row["seen_at"])
    return None
