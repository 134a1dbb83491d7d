"""What is known of a running job: its counters, its beat, its stage, its sources. Plain JSON of bounded size.

All times are seconds on the clock of the site: a hang is silence, and silence has no stamp of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any, Final

#: Counters and sources that are remembered of one job.
MOST_COUNTERS: Final = 64
MOST_SOURCES: Final = 4_096
#: Step times that are remembered.
MOST_STEPS: Final = 128
#: Errors that are remembered.
MOST_ERRORS: Final = 20

type State = dict[str, Any]


def new_state(now: float) -> State:
    """The state of a job of which nothing has been read."""
    return {
        "since": now,
        "sources": {},
        "counters": {},
        "leader": None,
        "iteration": None,
        "advanced_at": None,
        "advances": 0,
        "steps": [],
        "stage": None,
        "stage_at": None,
        "longest": {},
        "errors": [],
    }


def learn(state: State, source: str, seen: Mapping[str, Any], now: float) -> State:
    """Add the observation of one range of ``source``. The state is changed and returned. O(observation)."""
    if source in state["sources"] or len(state["sources"]) < MOST_SOURCES:
        state["sources"][source] = now
    known = {row["signature"] for row in state["errors"]}
    for row in seen["errors"]:
        if row["signature"] not in known and len(state["errors"]) < MOST_ERRORS:
            state["errors"].append({**row, "source": source, "seen_at": now})
    has_advanced = False
    for name, numbers in seen["counters"].items():
        has_advanced |= _count(state, f"{source}\t{name}", numbers, now)
    if has_advanced:
        _advance(state, now)
    if seen["stage"] is not None:
        state["stage"], state["stage_at"] = seen["stage"], now
    elif has_advanced:
        state["stage"] = "training"
    return state


def step_s(state: State) -> float | None:
    """The usual seconds of an iteration: the median of the last ones. None before five."""
    return median(state["steps"][-64:]) if len(state["steps"]) >= 5 else None


def _count(state: State, key: str, numbers: list[int], now: float) -> bool:
    """Whether the counter grew. The counter with most advances leads: its numbers are the job's iterations."""
    before = state["counters"].get(key)
    if before is None:
        if len(state["counters"]) >= MOST_COUNTERS:
            return False
        state["counters"][key] = {"n": max(numbers), "at": now, "advances": int(len(set(numbers)) > 1)}
        return len(set(numbers)) > 1
    highest = max(numbers)
    if highest <= before["n"]:
        if highest < before["n"]:  # a restart counts from an earlier checkpoint
            before["n"], before["at"] = highest, now
        return False
    before["advances"] += 1
    leader = state["counters"].get(state["leader"] or "")
    if leader is None or before["advances"] > leader["advances"] + 2:
        state["leader"] = key
    if state["leader"] == key:
        each = (now - before["at"]) / (highest - before["n"])
        state["steps"] = [*state["steps"], round(each, 4)][-MOST_STEPS:]
        state["iteration"] = highest
    before["n"], before["at"] = highest, now
    return True


def _advance(state: State, now: float) -> None:
    """Progress was made: the pause before it is one that this stage may take."""
    if state["advanced_at"] is not None:
        stage = state["stage"] or "training"
        pause = now - state["advanced_at"]
        state["longest"][stage] = max(pause, state["longest"].get(stage, 0.0))
    state["advanced_at"] = now
    state["advances"] += 1
