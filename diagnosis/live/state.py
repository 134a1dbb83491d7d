"""The state of a running job: its counters, its step time, its stage, its sources. Plain JSON of bounded size.

All times are seconds on the clock of the site: a hang is silence, and silence has no stamp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

#: Maximum number of stored counters and sources of one job.
MOST_COUNTERS: Final = 64
MOST_SOURCES: Final = 4_096
#: Maximum number of stored step times.
MOST_STEPS: Final = 128
#: Maximum number of stored errors.
MOST_ERRORS: Final = 20

type State = dict[str, Any]


def new_state(now: float) -> State:
    """The state of a job before anything was read."""
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


def step_s(state: Mapping[str, Any]) -> float | None:
    """The usual seconds of an iteration: the median of the last ones. None before five."""
    return median(state["steps"][-64:]) if len(state["steps"]) >= 5 else None


def _count(state: State, key: str, said: Sequence[Sequence[int | None]], now: float) -> bool:
    """Whether the counter grew. The counter with most advances leads: its numbers are the job's iterations.

    A step's seconds are those between the stamps of its lines; without stamps, those between two readings.
    """
    known = state["counters"].get(key)
    if known is None:
        if len(state["counters"]) >= MOST_COUNTERS:
            return False
        known = state["counters"][key] = {"n": said[0][0], "t": said[0][1], "at": now, "advances": 0}
        said = said[1:]
    steps, advances = [], 0
    for number, stamp in said:
        if number is None or number == known["n"]:
            continue
        if number > known["n"]:
            advances += 1
            seconds = now - known["at"]
            if stamp is not None and known["t"] is not None:
                seconds = (stamp - known["t"]) / 1e9
            if seconds > 0:
                steps.append(round(seconds / (number - known["n"]), 4))
        known["n"], known["t"], known["at"] = number, stamp, now  # a restart counts from an earlier checkpoint
    known["advances"] += advances
    leader = state["counters"].get(state["leader"] or "")
    if advances and (leader is None or known["advances"] > leader["advances"] + 2):
        state["leader"] = key
    if state["leader"] == key:
        state["steps"] = [*state["steps"], *steps][-MOST_STEPS:]
        state["iteration"] = known["n"]
        state["advances"] += advances
    return advances > 0


def _advance(state: State, now: float) -> None:
    """Progress was made: the pause before it is allowed in this stage."""
    if state["advanced_at"] is not None:
        stage = state["stage"] or "training"
        pause = now - state["advanced_at"]
        state["longest"][stage] = max(pause, state["longest"].get(stage, 0.0))
    state["advanced_at"] = now
