"""The state of a running job: its counters, its step time, its stage, its sources. Plain JSON of bounded size.

All times are seconds on the clock of the site: a hang is silence, and silence has no stamp. Only the time between two
counts is taken from the stamps of their lines, so that a follower that was away does not lengthen it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from diagnosis.live.news import News, Pause
from diagnosis.live.watches import TABLE

#: Maximum number of stored counters and sources of one job.
MOST_COUNTERS: Final = 64
MOST_SOURCES: Final = 4_096
#: Maximum number of stored step times.
MOST_STEPS: Final = 128
MOST_STAGES: Final = 8

type State = dict[str, Any]


def new_state(now: float) -> State:
    """The state of a job before anything was read."""
    return {
        "since": now,
        "sources": {},
        "counters": {},
        "leader": None,
        "iteration": None,
        "interval": 1,
        "is_last": False,
        "advanced_at": None,
        "advances": 0,
        "steps": [],
        "stage": None,
        "stage_ns": None,
        "announced": [],
        "judged_at": None,
        "back_at": None,
        "away_s": 0.0,
        "away_before_s": 0.0,
        "watches": {watch.id: {} for watch in TABLE},
        "alarms": [],
    }


def learn(state: State, source: str, seen: Mapping[str, Any], now: float) -> State:
    """Add the observation of one range of ``source``. The state is changed and returned. O(observation)."""
    for name, value in new_state(state["since"]).items():  # of an older version
        state.setdefault(name, value)
    if source in state["sources"] or len(state["sources"]) < MOST_SOURCES:
        state["sources"][source] = now
    news = News(source, seen, now, False, (), (), False)
    for name, counts in seen["counters"].items():
        news = _count(state, f"{source}\t{name}", counts, news)
    for watch in TABLE:  # they see the stage in which the range began
        watch.learn(state["watches"].setdefault(watch.id, {}), state, news)
    if news.has_advanced:
        state["advanced_at"], state["away_before_s"] = now, state["away_s"]
    _stage(state, seen, news)
    return state


def _stage(state: State, seen: Mapping[str, Any], news: News) -> None:
    """The stage at the end of the range. A count ends a stage that another file announced, unless it is older.

    ``announced``: all stages since the last count; a checkpoint and an evaluation may follow each other.
    """
    more = [] if news.has_advanced else state["announced"]
    state["announced"] = list(dict.fromkeys([*more, *seen.get("announced", ())]))[-MOST_STAGES:]
    if seen["stage"] is not None:
        state["stage"], state["stage_ns"] = seen["stage"], seen.get("stage_at")
    elif news.has_advanced:
        stamps = [counts[-1][1] for counts in seen["counters"].values() if counts]
        last = max((stamp for stamp in stamps if stamp is not None), default=None)
        if last is None or state["stage_ns"] is None or last >= state["stage_ns"]:
            state["stage"], state["stage_ns"] = "training", None


def _count(state: State, key: str, counts: Sequence[Sequence[Any]], news: News) -> News:
    """Add ``[n, stamp, stage announced before it, is it the last one planned]`` of one message.

    The counter with most advances leads: its numbers are the job's iterations.
    """
    known = state["counters"].get(key)
    if known is None:
        if len(state["counters"]) >= MOST_COUNTERS:
            return news
        known = state["counters"][key] = {"n": counts[0][0], "t": counts[0][1], "at": news.now, "advances": 0}
        counts = counts[1:]
    steps, pauses, advances, has_restarted, interval, is_last = [], [], 0, False, None, None
    announced = None if state["stage"] == "training" else state["stage"]
    for number, stamp, *more in counts:
        stage = (more[0] if more else None) or announced
        is_last = bool(more[1]) if len(more) > 1 else False
        if number is None or number == known["n"]:
            continue
        if number > known["n"]:
            advances += 1
            seconds = _between(known, stamp, news.now)
            pauses.append(Pause(known["n"], seconds, stage or "training"))
            if stage is None:
                interval = number - known["n"]
                steps += [round(seconds / interval, 4)] if seconds > 0 else []
        else:  # a restart counts from an earlier checkpoint, an epoch from its first step
            has_restarted, advances = True, advances + 1
            if stage is not None:
                pauses.append(Pause(known["n"], _between(known, stamp, news.now), stage))
        known["n"], known["t"], known["at"] = number, stamp, news.now
        announced = None
    known["advances"] += advances
    leader = state["counters"].get(state["leader"] or "")
    if advances and (leader is None or known["advances"] > leader["advances"] + 2):
        state["leader"] = key
    if state["leader"] != key:
        return news._replace(has_advanced=news.has_advanced or advances > 0)
    state["steps"] = [*state["steps"], *steps][-MOST_STEPS:]
    state["iteration"], state["advances"] = known["n"], state["advances"] + advances
    state["interval"] = interval or state["interval"]
    state["is_last"] = state["is_last"] if is_last is None else is_last
    return news._replace(
        has_advanced=news.has_advanced or advances > 0,
        steps=tuple(steps),
        pauses=tuple(pauses),
        has_restarted=has_restarted,
    )


def _between(known: Mapping[str, Any], stamp: int | None, now: float) -> float:
    """Seconds since the last count; a stamp that says more than the site's clock is wrong."""
    if stamp is None or known["t"] is None or stamp < known["t"]:
        return float(max(0.0, now - known["at"]))
    return float(stamp - known["t"]) / 1e9
