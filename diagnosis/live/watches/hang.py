"""No progress for longer than this stage's own history allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from diagnosis import thresholds
from diagnosis.live.attention import is_catching_up, open_alarm, quiet_s, silence_s
from diagnosis.live.beat import count_interval_s, spread, step_s
from diagnosis.live.news import Alarm, News, Pause
from diagnosis.live.watches import rhythm
from diagnosis.model import HANG_ALARM

THRESHOLDS: Final = thresholds.of("hang")

id: Final = HANG_ALARM
why: Final = "a job that waits for a rank that never comes prints nothing more, and its own pauses say what is normal"
category: Final = "unknown"

#: Pauses without announcement that are remembered, and pauses of each stage.
MAX_PAUSES: Final = 16
MAX_STAGE_TIMES: Final = 32


def learn(own: dict[str, Any], state: Mapping[str, Any], news: News) -> None:
    """Remember the longest time of each stage, and the counts of pauses that no announced stage explains."""
    stages, pauses = own.setdefault("stages", {}), own.setdefault("pauses", [])
    passed = own.setdefault("passed", [])
    usual, quiets = count_interval_s(state), state["quiets"]
    for pause in news.pauses:
        whole = _pause_row(pause.after, pause.seconds, quiets.values())
        if pause.parts:
            is_longer = False
            for stage, seconds in pause.parts:
                known = rhythm.former_pauses(stages, stage)
                is_longer |= bool(known) and seconds > rhythm.limit_s(known, pause.after, state["interval"])
                quiet = [quiets[stage]] if stage in quiets else quiets.values()
                stages[stage] = [*known, _pause_row(pause.after, seconds, quiet)][-MAX_STAGE_TIMES:]
            if is_longer:  # an evaluation that no line announced was part of it
                own["pauses"] = pauses = [*pauses, whole][-MAX_PAUSES:]
            passed += [unit for unit in _round_units(pause.after, state["interval"]) if unit not in passed]
        elif usual is not None and state["advances"] >= THRESHOLDS.advances:
            if pause.seconds > THRESHOLDS.counts * usual + THRESHOLDS.slack_s:
                own["pauses"] = pauses = [*pauses, whole][-MAX_PAUSES:]
            else:
                own["longest"] = max(own.get("longest", 0.0), pause.seconds)
                passed += [unit for unit in _round_units(pause.after, state["interval"]) if unit not in passed]
        quiets = {}  # of a further pause in the same range nothing is known but its length


def _pause_row(after: int, seconds: float, quiets: Iterable[float]) -> list[float]:
    """What is kept of a pause: the count before, its seconds, and the longest of them without a line."""
    return [after, round(seconds, 1), round(min(seconds, max(quiets, default=seconds)), 1)]


def inherit(own: Mapping[str, Any]) -> dict[str, Any]:
    """What the next attempt of the job knows of its pauses: its steps may be others, its stages are the same."""
    return {name: own[name] for name in ("stages", "pauses", "passed") if name in own}


def look(own: Mapping[str, Any], state: Mapping[str, Any], now: float) -> Alarm | None:
    """The time since the last progress of any counter, against what is allowed."""
    since = state["advanced_at"] if state["advanced_at"] is not None else state["since"]
    if is_catching_up(state, now) and since < state["back_at"]:
        return open_alarm(state, id)
    if silence_s(state, now) <= allowed_s(own, state):
        return _quiet(own, state, now)
    if state["advanced_at"] is None and quiet_s(state, now) <= THRESHOLDS.silence * max(
        state["quiets"].values(), default=0.0
    ):
        return None  # its lines have no counter that grows, but they go on
    where = f" after iteration {state['iteration']:,}" if state["iteration"] is not None else " yet"
    usual = step_s(state)
    usual_text = f"; a step usually takes {usual:.1f} s" if usual is not None else ""
    return Alarm(id, f"No progress{where}{usual_text}.", since, category)


def _quiet(own: Mapping[str, Any], state: Mapping[str, Any], now: float) -> Alarm | None:
    """The alarm of a pause that may still take longer, but in which lines came more often before."""
    usual = quiet_allowed_s(own, state)
    if usual is None or quiet_s(state, now) <= usual:
        return None
    where = f" after iteration {state['iteration']:,}" if state["iteration"] is not None else ""
    text = f"No line any more in the pause{where}; earlier ones were never silent for so long."
    return Alarm(id, text, state["heard_at"], category)


def quiet_allowed_s(own: Mapping[str, Any], state: Mapping[str, Any]) -> float | None:
    """How long no line may come in the present pause; None if no such pause is known."""
    usual = count_interval_s(state)
    if usual is None or state["advances"] < THRESHOLDS.advances:
        return None
    stage, kinds = state["stage"] or "training", [_recurring_pauses(own, state)]
    if stage in THRESHOLDS.first_stage_s:
        if not kinds[0] and _first_round_s(own, state):
            return None
        kinds = [*filter(None, kinds), rhythm.former_pauses(own.get("stages", {}), stage)]
    elif stage != "training":
        return None
    if min(map(len, kinds)) < THRESHOLDS.pauses:
        return None
    return float(
        max(THRESHOLDS.counts * usual, THRESHOLDS.silence * max(row[-1] for known in kinds for row in known))
        + THRESHOLDS.slack_s
    )


def allowed_s(own: Mapping[str, Any], state: Mapping[str, Any]) -> float:
    """How long the job may go without progress: until its present stage began, and what this stage may take."""
    usual = count_interval_s(state)
    if usual is None or state["advances"] < THRESHOLDS.advances:
        return float(THRESHOLDS.launch_s)
    least = THRESHOLDS.counts * usual * (1 + spread(state)) + THRESHOLDS.slack_s
    stage = state["stage"] or "training"
    if stage == "training" and state["is_last"] and not own.get("stages", {}).get("evaluation"):
        stage = "shutdown"
    passed = _before_stage_s(state)
    if stage != "training":
        if stage not in THRESHOLDS.first_stage_s:  # no evaluation follows a launch before its first steps
            return float(max(least, passed + _stage_s(own, state, stage)))
        known, began, passed = _recurring_pauses(own, state), passed, passed + _stage_s(own, state, stage)
        if not known:  # an evaluation that no line announces may be part of it
            return float(max(least, passed, began + _first_round_s(own, state)))
        counts = {row[0] for row in rhythm.former_pauses(own.get("stages", {}), stage)}
        both = [row[1] for row in known if row[0] in counts]
        # the first time that a save and an evaluation that no line announces come together, they take the sum
        return float(
            max(least, passed, rhythm.max_pause_s(both)) if both else max(least, passed + _recurring_s(own, state))
        )
    return float(
        passed
        + max(least, THRESHOLDS.longest * own.get("longest", 0.0) + THRESHOLDS.slack_s / 2, _unannounced_s(own, state))
    )


def _before_stage_s(state: Mapping[str, Any]) -> float:
    """Seconds from the last progress to the last stage that was announced since."""
    if not state["marks"]:
        return 0.0
    since = state["advanced_at"] if state["advanced_at"] is not None else state["since"]
    return float(max(0.0, state["marks"][-1][2] - since))


def _stage_s(own: Mapping[str, Any], state: Mapping[str, Any], stage: str) -> float:
    """How long an announced stage may take."""
    known = rhythm.former_pauses(own.get("stages", {}), stage)
    first = THRESHOLDS.first_stage_s.get(stage, THRESHOLDS.launch_s)
    pause = rhythm.limit_s(known, state["iteration"], state["interval"]) if known else first
    # a launch takes what the cluster takes
    return float(pause if stage in THRESHOLDS.first_stage_s else max(pause, THRESHOLDS.launch_s / 2))


def is_pause_likely(state: Mapping[str, Any]) -> bool:
    """Whether an evaluation that no line announces may follow the present count."""
    return _unannounced_s(state["watches"].get(id, {}), state) > 0.0


def _unannounced_s(own: Mapping[str, Any], state: Mapping[str, Any]) -> float:
    """What an evaluation that no line announces may take after the present count."""
    return _recurring_s(own, state) or _first_round_s(own, state)


def is_expected(state: Mapping[str, Any], pause: Pause) -> bool:
    """Whether the time between two counts is an evaluation that was to be expected, and no slow step."""
    usual = count_interval_s(state)
    if usual is None or pause.seconds <= THRESHOLDS.counts * usual + THRESHOLDS.slack_s:
        return False
    return is_pause_likely({**state, "iteration": pause.after})


def _recurring_s(own: Mapping[str, Any], state: Mapping[str, Any]) -> float:
    """What pauses at the same distance took before; 0 without any."""
    likely = [row[1] for row in _recurring_pauses(own, state)]
    return float(rhythm.max_pause_s(likely)) if likely else 0.0


def _recurring_pauses(own: Mapping[str, Any], state: Mapping[str, Any]) -> rhythm.Rows:
    """The pauses that no line announced, at the same distance as the present count."""
    n, interval = state["iteration"], state["interval"]
    pauses = own.get("pauses", ()) if n is not None else ()
    return [row for row in pauses if _is_recurrence(n, row[0], pauses, interval)]


def _first_round_s(own: Mapping[str, Any], state: Mapping[str, Any]) -> float:
    """What the first pause at a round count may take, of a job that announces no evaluation."""
    n, interval = state["iteration"], state["interval"]
    is_announced = own.get("stages", {}).get("evaluation") or any(row[0] == "evaluation" for row in state["marks"])
    if n is None or is_announced:
        return 0.0
    skipped = _unreached_sign(own, state)
    fresh = [unit for unit in _round_units(n, interval) if unit not in own.get("passed", ()) and unit * skipped <= 0]
    return THRESHOLDS.first_stage_s["evaluation"] if fresh else 0.0


def _unreached_sign(own: Mapping[str, Any], state: Mapping[str, Any]) -> int:
    """The sign of the round numbers that the job does not reach: -1 if its first iteration is called 1, because 1 was
    the first count and all are printed, or because announced pauses came after counts such as 100 and 200; 1 if these
    came after 99 and 199. 0 if nothing says it.
    """
    leader = state["counters"].get(state["leader"] or "", {})
    if leader.get("first") == 1 == state["interval"]:
        return -1
    stages = own.get("stages", {})
    reached = [
        unit
        for stage in THRESHOLDS.first_stage_s
        for row in rhythm.former_pauses(stages, stage)
        for unit in _round_units(int(row[0]), 1)
    ]
    ones = sum(unit > 0 for unit in reached)
    return (
        -1 if ones == len(reached) >= THRESHOLDS.pauses else 1 if len(reached) >= THRESHOLDS.pauses > 0 == ones else 0
    )


def _is_recurrence(n: int, after: int, pauses: Any, interval: int) -> bool:
    """Whether the count ``n`` follows the same rhythm as the earlier pause."""
    if n == after or (after > 0 and abs(n - after) % after < interval):
        return True
    distances = [abs(after - row[0]) for row in pauses if row[0] != after]
    return any((n - after) % step < interval for step in distances if step >= THRESHOLDS.rhythm * interval)


def _round_units(n: int, interval: int) -> list[int]:
    """The round numbers of iterations that ``n`` completes; negative ones if the first iteration is called 0."""
    units = [unit for unit in THRESHOLDS.round_counts if unit >= THRESHOLDS.round * interval and n > 0]
    return [u for u in units if n % u == 0] + [-u for u in units if interval == 1 and (n + 1) % u == 0]
