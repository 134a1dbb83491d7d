"""The alarms of a job over time: their record, and its bounds."""

from __future__ import annotations

from typing import Any

from diagnosis.live import Observation, decode_observation, decode_state, encode, judge, learn, new_state, record
from diagnosis.live.counting import MAX_COUNTERS, MAX_STEPS
from diagnosis.live.job_learning import MAX_SOURCES
from diagnosis.live.judge import MAX_FORMER_ALARMS
from diagnosis.live.step_time import step_s


def test_a_steady_job_raises_no_alarm_and_its_step_time_is_known(job: Any) -> None:
    job.trains(100).waits(5)
    assert job.kinds == []
    assert (step_s(job.state), job.state.iteration, job.state.stage) == (2.0, 100, "training")


def test_an_alarm_is_kept_in_place_while_it_holds_and_with_its_end_afterwards(job: Any) -> None:
    job.trains(103)
    began = job.now
    assert not record(job.state, judge(job.state, job.now), job.now)
    job.waits(20)
    assert record(job.state, judge(job.state, job.now), job.now)
    job.waits(5)
    assert not record(job.state, judge(job.state, job.now), job.now), "no news"
    (row,) = job.state.alarms
    assert (row.kind, row.since, row.until) == ("hang", began, None)
    assert row.text.startswith("No progress after iteration")
    job.trains(1)
    assert record(job.state, judge(job.state, job.now), job.now)
    (row,) = job.state.alarms
    assert row.until == job.now


def test_an_alarm_that_lasts_is_said_again_at_growing_ages(job: Any) -> None:
    job.trains(103)
    said = []
    for _ in range(120):
        job.waits(5)
        if record(job.state, judge(job.state, job.now), job.now):
            said.append(job.now - 206)
    assert said == [15, 45, 75, 105, 315]


def test_the_incident_of_a_late_alarm_is_written_again_when_stacks_have_come(job: Any) -> None:
    job.trains(103, step_s=30.0)
    said = []
    for _ in range(40):
        job.waits(5)
        if record(job.state, judge(job.state, job.now), job.now):
            said.append(job.now)
    assert [at - said[0] for at in said] == [0, 30, 60, 90]


def test_former_alarms_are_bounded(job: Any) -> None:
    for _ in range(40):
        for percent in (99.0, 10.0):
            job.says(disks=[["/ckpt", percent]])
            record(job.state, judge(job.state, job.now), job.now)
    assert len(job.state.alarms) == MAX_FORMER_ALARMS


def test_a_state_of_an_older_version_is_read(job: Any) -> None:
    job.trains(20)
    stored = encode(job.state)
    first = {name: stored[name] for name in ("since", "sources", "counters", "leader", "iteration", "steps")}
    old = decode_state({**first, "advanced_at": job.now, "advances": 19, "stage": "training"}, job.now)
    assert judge(old, job.now) == []
    learn(old, "a", Observation(lines=1), job.now)
    assert judge(old, job.now + 60)[0].kind == "hang"


def test_hostile_evidence_does_not_grow_the_state() -> None:
    state = new_state(0.0)
    for n in range(MAX_SOURCES + 50):
        many = {f"iteration {n} {k}": [[k, None, [], False], [k + 1, None, [], False]] for k in range(3)}
        seen = {"writers": [f"node-{n}"], "disks": [[f"/d{n}", 99.0]], "losses": [[n, 1.0]]}
        learn(state, f"source-{n}", decode_observation({"counters": many, **seen}), float(n))
    for n in range(500):
        counts = {"iteration 0 0": [[n * 10, None, [], False]]}
        learn(state, "source-0", decode_observation({"counters": counts}), 10_000.0 + n)
    stored = encode(state)
    assert len(stored["sources"]) == MAX_SOURCES
    assert len(stored["counters"]) == MAX_COUNTERS
    assert len(stored["steps"]) <= MAX_STEPS
    assert len(stored["watches"]["silent"]["nodes"]) == 4_096
    assert len(stored["watches"]["disk"]["disks"]) == 32
    assert len(stored["watches"]["loss"]["files"]) == 8


def test_steps_are_timed_by_the_stamps_of_their_lines_though_many_come_in_one_look(job: Any) -> None:
    job.waits(5).says(counters={"a": [[n, n * 500_000_000, [], False] for n in range(1, 24)]})
    assert step_s(job.state) == 0.5
    assert job.waits(3 * 0.5 + 15).kinds == ["hang"]


def test_lines_that_come_an_hour_late_change_no_progress_and_no_step(job: Any) -> None:
    job.trains(60)
    old = [[n, int(2.0 * n * 1e9), [], False] for n in range(20, 40)]
    before = (job.state.iteration, job.state.advances, job.state.steps, job.state.advanced_at)
    job.says(counters={"iteration a": old})
    assert (job.state.iteration, job.state.advances, job.state.steps, job.state.advanced_at) == before
    assert job.trains(40).kinds == []
    assert (job.state.iteration, set(job.state.steps)) == (100, {2.0})


def test_a_job_that_starts_again_after_its_clock_was_set_back_goes_on(job: Any) -> None:
    job.trains(60)
    for n in range(40, 60):
        job.now += 2.0
        job.says(counters={"iteration a": [[n, int(n * 1e9), [], False]]})
    assert (job.state.iteration, job.kinds) == (59, [])
