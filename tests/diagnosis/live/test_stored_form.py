"""The state of a job is JSON where it is stored: nothing is lost, and nothing that is stored stops a judgement."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from diagnosis.live import (
    Observation,
    decode_alarms,
    decode_observation,
    decode_state,
    decode_steps,
    encode,
    judge,
    learn,
    note_judgement,
    record,
)
from diagnosis.live.observation import CountRow, LossRow

ERROR = {"signature": "x", "category": "hardware.gpu.ecc", "title": "GPU memory error", "text": "Xid 48", "at": None}
NODES = [f"node-{n}" for n in range(4)]
#: What no version stores.
BROKEN = (None, "x", -1, 0, 0.0, 1e308, 10**40, math.nan, [], {}, [[]], [None], {"a": None}, True)


def stored(job: Any) -> Any:
    """The state as the database gives it back."""
    return json.loads(json.dumps(encode(job.state)))


@pytest.fixture
def watched(job: Any) -> Any:
    """A job of which every watch knows something."""
    job.trains(40, writers=NODES).says(stage="evaluation", announced=[["evaluation", None]]).waits(30)
    job.trains(40, writers=NODES, tallies={"errors": 3, "retries": 2}, disks=[["/ckpt", 80.0]])
    job.says(errors=[ERROR]).trains(3, step_s=5.0, loss=None, writers=NODES[:3])
    note_judgement(job.state, job.now)
    record(job.state, judge(job.state, job.now), job.now)
    return job


def test_a_state_that_was_stored_is_the_same_state(watched: Any) -> None:
    again = decode_state(stored(watched), 0.0)
    assert again == watched.state
    assert judge(again, watched.now) == judge(watched.state, watched.now)


def test_the_names_that_are_stored_stay_those_that_former_versions_read(watched: Any) -> None:
    state = stored(watched)
    assert {"stage_ns", "heard_at", "heard_away_s", "quiets", "away_before_s"} <= set(state)
    assert set(next(iter(state["counters"].values()))) == {"n", "t", "at", "since", "first", "advances", "late"}
    assert set(state["watches"]["slow"]) >= {"usual", "of", "sums", "since", "began", "lasted", "top", "noise"}
    assert set(state["watches"]["burst"]) >= {"began", "count", "hits", "waits", "most", "windows", "visits"}
    assert set(state["alarms"][0]) >= {"kind", "text", "since", "category", "until", "said"}
    assert state["watches"]["hang"]["stages"] == {"evaluation": [[40, 32.0, 32.0]]}


def test_a_state_of_nothing_begins_now() -> None:
    for nothing in (None, {}, [], "x", {"since": "x", "watches": 3}):
        assert decode_state(nothing, 7.0).since == 7.0


def places(part: Any) -> Iterator[tuple[Any, Any]]:
    """Each container of a JSON value with each of its keys."""
    for key in list(part) if isinstance(part, dict) else range(len(part)):
        yield part, key
        if isinstance(part[key], (dict, list)):
            yield from places(part[key])


def test_a_value_that_is_broken_costs_what_it_said_and_no_judgement(watched: Any) -> None:
    dice = random.Random(5)
    whole = stored(watched)
    for number in dice.sample(range(len(list(places(whole)))), 200):
        broken = json.loads(json.dumps(whole))
        part, key = list(places(broken))[number]
        part[key] = dice.choice(BROKEN)
        state = decode_state(broken, watched.now)
        learn(state, "a", Observation(lines=1), watched.now + 2)
        record(state, judge(state, watched.now + 60), watched.now + 60)
        assert json.dumps(encode(state), allow_nan=False)


def test_of_a_broken_state_the_rest_is_kept(watched: Any) -> None:
    broken = stored(watched)
    broken["iteration"] = "many"
    broken["watches"]["slow"]["of"] = [0.0, 0.0]
    state = decode_state(broken, 0.0)
    assert (state.iteration, state.stage, len(state.steps)) == (None, "training", len(watched.state.steps))
    assert encode(state)["watches"]["silent"] == stored(watched)["watches"]["silent"]


def test_sums_of_other_slowdowns_than_those_of_now_are_forgotten(watched: Any) -> None:
    of_before = stored(watched)
    of_before["watches"]["slow"]["sums"] = [1.0]
    assert encode(decode_state(of_before, 0.0))["watches"]["slow"]["usual"] == []


def test_alarms_and_steps_are_read_without_the_rest(watched: Any) -> None:
    state = stored(watched)
    assert decode_alarms(state) == watched.state.alarms
    assert decode_steps(state) == watched.state.steps
    assert decode_alarms({"alarms": "x"}) == decode_alarms(None) == []
    assert decode_steps({"steps": ["x"]}) == decode_steps({}) == []


def test_an_observation_keeps_what_can_be_read_of_it() -> None:
    sent = {"lines": 3, "counters": {"a": [[1, None, [], False]]}, "losses": [[1, math.nan]], "stage": "x" * 500}
    found = decode_observation({**sent, "writers": ["a\0b"], "disks": [["/", 1e9]], "other": 1})
    assert found == Observation(lines=3, counters={"a": (CountRow(1),)}, losses=(LossRow(1, None),), writers=("a␀b",))
    assert decode_observation("x") == decode_observation(None) == Observation()
