"""The state of a running job: its counters, its step time, its stage, its sources. Plain JSON of bounded size.

All times are seconds on the clock of the site: a hang is silence, and silence has no stamp. Only the time between two
counts is taken from the stamps of their lines, so that a follower that was away does not lengthen it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from diagnosis.live.attention import note_lines
from diagnosis.live.news import News, Pause
from diagnosis.live.watches import TABLE, hang

#: Maximum number of stored counters and sources of one job.
MAX_COUNTERS: Final = 64
MAX_SOURCES: Final = 4_096
#: Maximum number of stored step times.
MAX_STEPS: Final = 128
#: So many ranges, one after another, may have only lines that came late. More are a job that starts again after a clock
#: was set back.
MAX_LATE_RANGES: Final = 3

type State = dict[str, Any]


def new_state(now: float, before: Mapping[str, Any] | None = None) -> State:
    """The state of a job before anything was read. ``before``: that of the same job's last attempt, whose pauses are
    known.
    """
    known: dict[str, dict[str, Any]] = {watch.id: {} for watch in TABLE}
    if before is not None:
        known[hang.id] = hang.inherit(before["watches"].get(hang.id, {}))
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
        "marks": [],
        "heard_at": None,
        "heard_away_s": 0.0,
        "quiets": {},
        "judged_at": None,
        "back_at": None,
        "away_s": 0.0,
        "away_before_s": 0.0,
        "watches": known,
        "alarms": [],
    }


def learn(state: State, source: str, observation: Mapping[str, Any], now: float) -> State:
    """Add the observation of one range of ``source``. The state is changed and returned. O(observation)."""
    for name, value in new_state(state["since"]).items():  # of an older version
        state.setdefault(name, value)
    if source in state["sources"] or len(state["sources"]) < MAX_SOURCES:
        state["sources"][source] = now
    note_lines(state, observation["lines"], now)
    counted = state["advances"]
    news = News(source, observation, now, False, (), (), False)
    for name, counts in observation["counters"].items():
        news = _learn_counts(state, f"{source}\t{name}", counts, news)
    for watch in TABLE:  # they see the stage in which the range began
        watch.learn(state["watches"].setdefault(watch.id, {}), state, news)
    if news.has_advanced:
        state["advanced_at"], state["away_before_s"] = now, state["away_s"]
    if state["advances"] > counted:
        state["quiets"] = {}
    _learn_stage(state, observation, news)
    return state


def _learn_stage(state: State, observation: Mapping[str, Any], news: News) -> None:
    """The stage at the end of the range. A count ends a stage that another file announced, unless it is older.

    ``marks``: stages announced since the last count, each with its stamp and the site's time; a stage that comes again
    is no news, so that lines which repeat hide no hang.
    """
    stamps = [counts[-1][1] for counts in observation["counters"].values() if counts]
    last = max((stamp for stamp in stamps if stamp is not None), default=None)
    rows = state["marks"]
    if news.has_advanced:
        rows = [row for row in rows if last is not None and row[1] is not None and row[1] > last]
    announced = [
        *observation.get("announced", ()),
        *([[observation["stage"], observation.get("stage_at")]] if observation["stage"] else ()),
    ]
    for stage, stamp in announced:
        is_new = stage not in [row[0] for row in rows] or (stage == "training" and rows[-1][0] != stage)
        rows = [*rows, [stage, stamp, news.now]] if is_new else rows
    state["marks"] = rows
    if observation["stage"] is not None:
        state["stage"], state["stage_ns"] = observation["stage"], observation.get("stage_at")
    elif news.has_advanced and (last is None or state["stage_ns"] is None or last >= state["stage_ns"]):
        state["stage"], state["stage_ns"] = "training", None


def _learn_counts(state: State, key: str, counts: Sequence[Sequence[Any]], news: News) -> News:
    """Add ``[n, stamp, stages announced before it, is it the last one planned]`` of one message.

    The counter with most advances leads: its numbers are the job's iterations.
    """
    known = state["counters"].get(key)
    if known is None:
        if len(state["counters"]) >= MAX_COUNTERS:
            return news
        known = state["counters"][key] = {"n": counts[0][0], "t": counts[0][1], "at": news.now, "advances": 0}
        known["first"] = counts[0][0]
        counts = counts[1:]
    in_time = [row for row in counts if not _is_late(row, known)]
    known["late"] = 0 if in_time else known.get("late", 0) + 1
    if known["late"] <= MAX_LATE_RANGES:
        counts = in_time
    steps, pauses, advances, has_restarted, interval = [], [], 0, False, None
    announced = state["marks"]
    for number, stamp, rows, _ in counts:
        if number is None or number == known["n"]:
            continue
        advances += 1
        pause = _pause(known, [*announced, *rows], stamp, news.now)
        is_restart = number < known["n"]  # it counts from an earlier checkpoint, an epoch from its first step
        has_restarted |= is_restart
        if pause.parts or not is_restart:
            pauses.append(pause)
        if not pause.parts and not is_restart:
            interval = number - known["n"]
            if pause.seconds > 0 and not hang.is_expected(state, pause):
                steps.append(round(pause.seconds / interval, 4))
        known["n"], known["t"], known["at"] = number, stamp, news.now
        announced = []
    known["advances"] += advances
    leader = state["counters"].get(state["leader"] or "")
    if advances and (leader is None or known["advances"] > leader["advances"] + 2):
        state["leader"] = key
    if state["leader"] != key:
        return news._replace(has_advanced=news.has_advanced or advances > 0)
    state["steps"] = [*state["steps"], *steps][-MAX_STEPS:]
    state["iteration"], state["advances"] = known["n"], state["advances"] + advances
    state["interval"] = interval or state["interval"]
    state["is_last"] = bool(counts[-1][3]) if counts else state["is_last"]
    return news._replace(
        has_advanced=news.has_advanced or advances > 0,
        steps=tuple(steps),
        pauses=tuple(pauses),
        has_restarted=has_restarted,
    )


def _is_late(row: Sequence[Any], known: Mapping[str, Any]) -> bool:
    """Whether a count was printed before the last one, and came after it: of a sender that repeats or was away."""
    number, stamp = row[0], row[1]
    if number is None or stamp is None or known["t"] is None:
        return False
    return bool(number < known["n"] and stamp < known["t"])


def _pause(known: Mapping[str, Any], rows: Sequence[Sequence[Any]], stamp: int | None, now: float) -> Pause:
    """The pause before a count, and its parts by the stages announced in it. A stage whose time is not known has all
    of it.
    """
    whole = _seconds_since(known, stamp, now)
    is_timed = [row[1] is not None or len(row) > 2 for row in rows]
    begins = [
        min(whole, _seconds_since(known, row[1], row[2] if len(row) > 2 else now)) if is_known else 0.0
        for row, is_known in zip(rows, is_timed, strict=True)
    ]
    parts = [
        (str(row[0]), max(0.0, end - begin))
        for row, (begin, end) in zip(rows, pairwise([*begins, whole]), strict=True)
        if row[0] != "training"
    ]
    return Pause(known["n"], whole, parts[-1][0] if parts else "training", tuple(parts))


def _seconds_since(known: Mapping[str, Any], stamp: int | None, now: float) -> float:
    """Seconds since the last count; a stamp that says more than the site's clock is wrong."""
    if stamp is None or known["t"] is None or stamp < known["t"]:
        return float(max(0.0, now - known["at"]))
    return float(stamp - known["t"]) / 1e9
