"""A job over time: what is an alarm, when, and what is none."""

from __future__ import annotations

from typing import Any

from diagnosis.live import judge, learn, new_state
from diagnosis.live.state import MOST_COUNTERS, MOST_ERRORS, MOST_SOURCES, MOST_STEPS, step_s


def quiet(**more: Any) -> dict[str, Any]:
    return {"lines": 1, "counters": {}, "stage": None, "errors": [], **more}


def steps(*numbers: int, stage: str | None = None) -> dict[str, Any]:
    return quiet(counters={"iteration a": [[n, None] for n in numbers]}, stage=stage)


def trained(count: int, each_s: float = 2.0) -> tuple[dict[str, Any], float]:
    """A job that made so many even steps, and the time."""
    state, now = new_state(0.0), 0.0
    for n in range(1, count + 1):
        now += each_s
        learn(state, "node-1/train.log", steps(n), now)
    return state, now


def kinds(state: dict[str, Any], now: float) -> list[str]:
    return [alarm.kind for alarm in judge(state, now)]


def test_a_steady_job_raises_no_alarm_and_its_beat_is_known() -> None:
    state, now = trained(100)
    assert kinds(state, now + 5) == []
    assert step_s(state) == 2.0
    assert state["iteration"] == 100


def test_a_hang_is_reported_within_three_usual_steps_and_fifteen_seconds() -> None:
    state, now = trained(100)
    assert kinds(state, now + 3 * 2.0 + 15) == ["hang"]
    (alarm,) = judge(state, now + 30)
    assert alarm.text == "No progress for 30 s after iteration 100; a step usually takes 2.0 s."
    assert alarm.since == now


def test_an_evaluation_may_take_as_long_as_its_own_history_says() -> None:
    state, now = trained(50)
    learn(state, "a", quiet(stage="evaluation"), now + 1)
    assert kinds(state, now + 600) == [], "the first one is not known yet"
    learn(state, "node-1/train.log", steps(51), now + 60)
    for n in range(52, 90):
        learn(state, "node-1/train.log", steps(n), now + 60 + 2 * (n - 51))
    then = now + 60 + 2 * 38
    learn(state, "a", quiet(stage="evaluation"), then + 1)
    assert kinds(state, then + 70) == []
    assert kinds(state, then + 200) == ["hang"]


def test_the_first_step_may_take_half_an_hour() -> None:
    state = new_state(0.0)
    learn(state, "a", quiet(stage="model_build"), 10.0)
    assert kinds(state, 1500.0) == []
    assert kinds(state, 2000.0) == ["hang"]


def test_lasting_slow_steps_are_an_alarm_and_one_slow_step_is_none() -> None:
    state, now = trained(40)
    learn(state, "node-1/train.log", steps(41), now + 6)
    assert kinds(state, now + 6) == []
    for n in range(42, 50):
        now += 4
        learn(state, "node-1/train.log", steps(n), now + 6)
    assert kinds(state, now + 6) == ["slow"]


def test_a_decisive_error_is_an_alarm_until_training_continues() -> None:
    state, now = trained(20)
    error = {
        "signature": "x",
        "category": "hardware.gpu.ecc",
        "title": "GPU memory error",
        "text": "Xid 48",
        "at": None,
    }
    learn(state, "node-2/dmesg", quiet(errors=[error]), now)
    (alarm,) = judge(state, now + 1)
    assert (alarm.kind, alarm.text) == ("error", "GPU memory error: Xid 48")
    for n in range(21, 40):
        learn(state, "node-1/train.log", steps(n), now + 2 * (n - 20))
    assert kinds(state, now + 40) == []


def test_a_restart_counts_again_from_its_checkpoint() -> None:
    state, now = trained(50)
    learn(state, "node-1/train.log", steps(40), now + 2)
    learn(state, "node-1/train.log", steps(41), now + 4)
    assert state["iteration"] == 41
    assert kinds(state, now + 6) == []


def test_hostile_evidence_does_not_grow_the_state() -> None:
    state = new_state(0.0)
    errors = [{"signature": str(n), "category": "x", "title": "t", "text": "t", "at": None} for n in range(100)]
    for n in range(MOST_SOURCES + 50):
        many = {f"iteration {n} {k}": [[k, None], [k + 1, None]] for k in range(3)}
        learn(state, f"source-{n}", quiet(counters=many, errors=errors), float(n))
    for n in range(500):
        learn(state, "source-0", quiet(counters={"iteration 0 0": [[n * 10, None]]}), 10_000.0 + n)
    assert len(state["sources"]) == MOST_SOURCES
    assert len(state["counters"]) == MOST_COUNTERS
    assert len(state["errors"]) == MOST_ERRORS
    assert len(state["steps"]) <= MOST_STEPS


def test_steps_are_timed_by_the_stamps_of_their_lines_though_many_come_in_one_look() -> None:
    state = new_state(0.0)
    said = [[n, n * 500_000_000] for n in range(1, 21)]
    learn(state, "a", quiet(counters={"iteration a": said}), 5.0)
    assert step_s(state) == 0.5
    assert kinds(state, 5.0 + 3 * 0.5 + 15) == ["hang"]
