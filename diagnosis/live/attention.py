"""When the site itself was away, or its clock jumped: silence then says nothing about the job.

After an hour without the site all followers are late, each by another time. Counted as silence, this would be a hang of
every job, a lost node of most, and a burst of whatever an hour brings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from diagnosis.live.news import Alarm

#: Seconds between two judgements from which on the site was away. Usually there are 5.
MIN_AWAY_S: Final = 120.0
#: Seconds after its return in which followers send what they kept.
CATCH_UP_S: Final = 300.0


def note_judgement(state: dict[str, Any], now: float) -> None:
    """Note that the job is judged at ``now``, before what is new is learnt."""
    last = state.get("judged_at")
    state["judged_at"] = now
    if last is None or 0.0 <= now - last <= MIN_AWAY_S:
        return
    state["back_at"] = now
    state["away_s"] = state.get("away_s", 0.0) + max(0.0, now - last)
    if now < last and state["advanced_at"] is not None:
        state["advanced_at"] = min(state["advanced_at"], now)


def note_lines(state: dict[str, Any], lines: int, now: float) -> None:
    """Note that lines came from some file. ``quiets``: stage -> the longest time without any since the last count."""
    if not lines:
        return
    stage = state["stage"] or "training"
    if state["heard_at"] is not None:
        state["quiets"][stage] = max(state["quiets"].get(stage, 0.0), round(quiet_s(state, now), 1))
    state["heard_at"], state["heard_away_s"] = now, state.get("away_s", 0.0)


def quiet_s(state: Mapping[str, Any], now: float) -> float:
    """Seconds in which no file of the job got a line and the site was there to see it."""
    since = state["heard_at"] if state["heard_at"] is not None else state["since"]
    return float(max(0.0, now - since - (state.get("away_s", 0.0) - state["heard_away_s"])))


def silence_s(state: Mapping[str, Any], now: float) -> float:
    """Seconds without progress, or since the beginning, in which the site was there to see it. 0 while lines that would
    show progress may still wait for the site.
    """
    since = state["advanced_at"] if state["advanced_at"] is not None else state["since"]
    if is_catching_up(state, now) and since < state["back_at"]:
        return 0.0
    return float(now - since - (state.get("away_s", 0.0) - state.get("away_before_s", 0.0)))


def is_catching_up(state: Mapping[str, Any], now: float) -> bool:
    """Whether lines arrive that waited for the site."""
    back_at = state.get("back_at")
    return back_at is not None and bool(0.0 <= now - back_at < CATCH_UP_S)


def open_alarm(state: Mapping[str, Any], kind: str) -> Alarm | None:
    """The alarm of this kind as it was when the site went away: a pause of the site does not end it."""
    rows = (row for row in state["alarms"] if row["kind"] == kind and row["until"] is None)
    return next((Alarm(kind, row["text"], row["since"], row["category"]) for row in rows), None)
