"""The current alarms, and the record of former ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from diagnosis.live.news import Alarm
from diagnosis.live.state import new_state
from diagnosis.live.watches import TABLE

#: Maximum number of former alarms that a job keeps.
MAX_FORMER_ALARMS: Final = 12
#: Ages of an alarm, in seconds, at which its incident is written again.
REPEAT_AGES_S: Final = (60.0, 300.0, 1_800.0, 7_200.0, 28_800.0)


def judge(state: Mapping[str, Any], now: float) -> list[Alarm]:
    """The alarms at ``now``, the most severe first. O(size of the state)."""
    state = {**new_state(now), **state}  # it may be of an older version
    found = [watch.look(state["watches"].get(watch.id, {}), state, now) for watch in TABLE]
    return [alarm for alarm in found if alarm is not None]


def record(state: dict[str, Any], alarms: Sequence[Alarm], now: float) -> bool:
    """Write ``alarms`` into the state: open ones first, in place, then the last ended ones with their ``until``.

    Returns whether the job should be diagnosed again: one began, ended or is so old that its incident should say so.
    """
    before = state.get("alarms", [])
    was_open = {row["kind"]: row for row in before if row["until"] is None}
    former = [row for row in before if row["until"] is not None]
    current, is_news = [], False
    for alarm in alarms:
        row = was_open.pop(alarm.kind, {"since": alarm.since, "said": -1})
        ages_passed = sum(1 for age in REPEAT_AGES_S if now - row["since"] >= age)
        is_news |= ages_passed > row["said"]
        current.append({**alarm._asdict(), "since": row["since"], "until": None, "said": ages_passed})
    ended = [{**row, "until": now} for row in was_open.values()]
    state["alarms"] = [*current, *[*ended, *former][:MAX_FORMER_ALARMS]]
    return is_news or bool(ended)
