"""Windows in which lines are counted, and when they are many: of error lines 30 s, of retries 60 s twice."""

from __future__ import annotations

from typing import Any

import pytest

from diagnosis.live import JobState, Observation
from diagnosis.live.observation import CountRow, LineTallies, StageMark
from diagnosis.live.range_effect import RangeEffect
from diagnosis.live.watches.rates import BURST, RETRIES, Rate, RateState, begun_stages

SAVE = "checkpoint_save"


def window(stage: str = "training", most: int = 5, windows: int = 6, **known: Any) -> RateState:
    """A window that began at 0, of a stage whose former windows had at most so many lines."""
    return RateState(began_at=0.0, stage=stage, most={stage: most}, windows={stage: windows}, **known)


def add(state: RateState, lines: int, now: float, rate: Rate = BURST, **seen: Any) -> RateState:
    observation = Observation(tallies=LineTallies(errors=lines, retries=lines), **seen)
    rate.learn(state, JobState(since=0.0), RangeEffect("log", observation, now))
    return state


def alarm(state: RateState, rate: Rate = BURST) -> str | None:
    found = rate.find_alarm(state, JobState(since=0.0), 100.0)
    return None if found is None else found.text


def test_lines_are_many_from_a_least_number_and_from_four_times_the_most_so_far() -> None:
    assert alarm(add(window(), 19, 10.0)) is None
    assert alarm(add(window(), 20, 10.0)) == "20 error lines within 30 s; at most 5 before."
    assert alarm(add(window(most=6), 23, 10.0)) is None
    assert alarm(add(window(most=6), 24, 10.0)) is not None
    assert alarm(add(window(most=0), 20, 10.0)) == "20 error lines within 30 s; at most 0 before."
    assert alarm(add(RateState(began_at=0.0, windows={"training": 6}), 20, 1.0)) is not None


def test_a_history_is_known_from_six_windows_on() -> None:
    assert alarm(add(window(windows=5), 500, 10.0)) is None
    assert alarm(RateState()) is None


def test_a_window_that_is_over_joins_the_history_of_its_stage() -> None:
    state = add(add(window(), 7, 10.0), 2, 29.0)
    assert (state.began_at, state.count) == (0.0, 9)
    add(state, 3, 30.0)
    assert (state.began_at, state.count, state.last) == (30.0, 3, 9)
    assert (state.most, state.windows) == ({"training": 9}, {"training": 7})
    add(state, 0, 60.0)
    assert (state.most, state.windows) == ({"training": 9}, {"training": 8})


def test_an_alarm_holds_until_two_windows_were_quiet_and_its_lines_are_then_usual() -> None:
    state = add(add(window(), 20, 10.0), 0, 30.0)
    assert (state.hits, state.is_open, state.windows) == ([0.0], True, {"training": 6})
    assert alarm(state) == "20 error lines within 30 s; at most 5 before."
    add(state, 0, 60.0)
    assert (state.is_open, state.quiet) == (True, 1)
    add(state, 0, 90.0)
    assert (state.is_open, state.hits, state.many, state.waiting) == (False, [], 0, {})
    assert state.most == {"training": 20}


def test_what_lasts_does_not_become_usual() -> None:
    state = window()
    for n in range(3):
        add(state, 30, 30.0 * n)
    for n in range(3, 6):
        add(state, 0, 30.0 * n)
    assert (state.is_open, state.most) == (False, {"training": 5})


def test_a_quiet_window_between_two_with_many_lines_ends_no_alarm() -> None:
    state = window()
    for n, lines in enumerate((20, 0, 20, 0, 20)):
        add(state, lines, 30.0 * n)
    assert (state.is_open, state.quiet, state.hits) == (True, 1, [60.0])


def test_retries_are_an_alarm_in_the_second_window() -> None:
    state = add(window(most=0), 12, 10.0, RETRIES)
    assert alarm(state, RETRIES) is None
    add(state, 11, 60.0, RETRIES)
    assert alarm(state, RETRIES) is None
    add(state, 1, 70.0, RETRIES)
    assert alarm(state, RETRIES) == "12 lines about retries within 60 s; at most 0 before."
    found = RETRIES.find_alarm(state, JobState(since=0.0), 100.0)
    assert found is not None and found.since == 0.0


@pytest.mark.parametrize(("visits", "least"), [(8, 150), (60, 20), (600, 20), (0, 1_200)])
def test_a_stage_that_came_rarely_needs_more_lines(visits: int, least: int) -> None:
    known = {"visits": {SAVE: visits}} if visits else {}
    assert alarm(add(window(SAVE, most=0, **known), least - 1, 10.0)) is None
    assert alarm(add(window(SAVE, most=0, **known), least, 10.0)) is not None


def test_lines_that_waited_for_the_site_are_not_counted() -> None:
    state = window(quiet=1, many=1, hits=[0.0])
    job = JobState(since=0.0, back_at=1_000.0)
    effect = RangeEffect("log", Observation(tallies=LineTallies(errors=500)), 1_010.0)
    BURST.learn(state, job, effect)
    assert state == RateState(began_at=1_010.0, most={"training": 5}, windows={"training": 6})


def test_a_window_is_of_the_launch_or_of_the_first_stage_that_it_touches() -> None:
    assert add(window(), 0, 1.0).stage == "training"
    assert add(window(), 0, 1.0, stage=SAVE).stage == SAVE
    assert add(window(SAVE), 0, 1.0, stage="evaluation").stage == SAVE
    assert add(window(SAVE), 0, 1.0, stage="launch").stage == "launch"
    state = window()
    BURST.learn(state, JobState(since=0.0, stage=SAVE), RangeEffect("log", Observation(), 1.0))
    assert state.stage == SAVE


def test_each_beginning_of_a_stage_is_a_visit() -> None:
    state = add(add(window(), 0, 1.0, stage=SAVE), 0, 2.0, stage=SAVE)
    assert state.visits == {SAVE: 2}


def test_the_stages_that_begin_in_a_range_are_those_it_announces_and_its_last_if_that_is_new() -> None:
    rows = (CountRow(1, None, (StageMark("evaluation"),)), CountRow(2))
    counters = {"a": rows, "b": rows}
    seen = Observation(counters=counters, announced=(StageMark(SAVE),), stage=SAVE)
    assert begun_stages(JobState(since=0.0), RangeEffect("log", seen, 1.0)) == ["evaluation"] * 2 + [SAVE]
    alone = RangeEffect("log", Observation(stage="launch"), 1.0)
    assert begun_stages(JobState(since=0.0), alone) == ["launch"]
    assert begun_stages(JobState(since=0.0, stage="launch"), alone) == []
