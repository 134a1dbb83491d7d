"""How long a job may go without progress, and without a line, of which iterations take 2 s and each is printed."""

from __future__ import annotations

from typing import Any

import pytest

from diagnosis.live import JobState
from diagnosis.live.job_state import CounterState, StageEntry
from diagnosis.live.range_effect import Pause
from diagnosis.live.step_time import spread
from diagnosis.live.watches.hang import find_alarm, is_expected, is_pause_likely
from diagnosis.live.watches.hang_limits import allowed_s, line_silence_allowed_s
from diagnosis.live.watches.pause_history import HangState, PauseRow
from diagnosis.live.watches.rhythm import max_pause_s
from diagnosis.live.watches.unannounced import first_round_s, recurring_pauses, round_units

SAVE, EVALUATION = "checkpoint_save", "evaluation"


def running(iteration: int = 337, stage: str = "training", begun_s: float | None = None, **known: Any) -> JobState:
    """A job with its last progress at 1,000. ``begun_s``: how long after it its stage began."""
    marks = [] if begun_s is None else [StageEntry(stage, None, 1_000.0 + begun_s)]
    usual = {"steps": [2.0] * 64, "advances": 60, "advanced_at": 1_000.0, **known}
    return JobState(since=0.0, iteration=iteration, stage=stage, marks=marks, **usual)


def pause(after: int, seconds: float, silence_s: float | None = None) -> PauseRow:
    return PauseRow(after, seconds, seconds if silence_s is None else silence_s)


def recurring(seconds: float = 50.0, silence_s: float | None = None) -> HangState:
    """After each 150 counts the job made a pause that no line announced."""
    return HangState(pauses=[pause(150, seconds, silence_s), pause(300, seconds, silence_s)])


def test_a_count_is_late_after_three_usual_ones_and_the_time_of_its_way() -> None:
    assert allowed_s(HangState(), running()) == 3 * 2 + 8
    assert allowed_s(HangState(), running(interval=10)) == 3 * 20 + 8


def test_a_job_whose_pace_is_not_known_has_the_time_of_a_launch() -> None:
    assert allowed_s(HangState(), running(advances=4)) == 1_800
    assert allowed_s(HangState(), running(steps=[2.0] * 4)) == 1_800
    assert allowed_s(HangState(), running(advances=5)) < 1_800


def test_the_longest_usual_time_between_counts_may_come_again() -> None:
    assert allowed_s(HangState(longest_s=13.0), running()) == pytest.approx(1.6 * 13 + 4)


def test_training_that_goes_on_after_a_stage_has_its_time_from_there() -> None:
    assert allowed_s(HangState(), running(begun_s=5.0)) == 5 + 14
    assert allowed_s(HangState(), running(begun_s=-5.0)) == 14


@pytest.mark.parametrize(("stage", "seconds"), [(SAVE, 900), (EVALUATION, 900), ("launch", 1_800), ("setup", 1_800)])
def test_a_stage_that_the_job_enters_for_the_first_time_has_a_time_of_its_own(stage: str, seconds: int) -> None:
    assert allowed_s(HangState(), running(stage=stage, begun_s=5.0)) == 5 + seconds


def test_a_launch_takes_what_the_cluster_takes() -> None:
    short = HangState(stages={"launch": [pause(1, 10.0)]})
    assert allowed_s(short, running(stage="launch", begun_s=5.0)) == 5 + 900
    long = HangState(stages={"launch": [pause(1, 2_000.0)]})
    assert allowed_s(long, running(stage="launch")) == max_pause_s([2_000.0])


def test_the_end_of_a_job_begins_with_its_last_count_unless_it_announces_evaluations() -> None:
    assert allowed_s(HangState(), running(is_last=True)) == 900
    evaluated = HangState(stages={EVALUATION: [pause(50, 10.0)]})
    assert allowed_s(evaluated, running(is_last=True)) == 14
    assert allowed_s(evaluated, running(is_last=True, stage=EVALUATION)) == max_pause_s([10.0])


def test_a_pause_that_no_line_announces_may_take_what_those_at_the_same_distance_took() -> None:
    assert allowed_s(recurring(), running(450)) == max_pause_s([50.0, 50.0])
    assert allowed_s(recurring(), running(450, begun_s=5.0)) == 5 + max_pause_s([50.0, 50.0])
    assert allowed_s(recurring(), running(451)) == 14


def test_a_save_at_a_round_count_may_be_followed_by_an_evaluation_that_no_line_announces() -> None:
    saved = HangState(stages={SAVE: [pause(30, 10.0)] * 3})
    assert allowed_s(saved, running(400, SAVE, begun_s=5.0)) == 5 + 900
    assert allowed_s(saved, running(337, SAVE, begun_s=5.0)) == 5 + max_pause_s([10.0] * 3)


def test_a_save_and_an_evaluation_take_the_sum_until_they_came_together() -> None:
    state = recurring()
    state.stages[SAVE] = [pause(30, 10.0)] * 3
    assert allowed_s(state, running(450, SAVE)) == max_pause_s([10.0] * 3) + max_pause_s([50.0, 50.0])
    state.stages[SAVE] = [pause(30, 10.0), pause(300, 10.0)]
    assert allowed_s(state, running(450, SAVE)) == max_pause_s([50.0])


def test_a_pause_may_be_silent_for_three_times_as_long_as_those_like_it() -> None:
    assert line_silence_allowed_s(recurring(silence_s=12.0), running(450)) == 3 * 12 + 8
    assert line_silence_allowed_s(recurring(silence_s=0.1), running(450)) == 3 * 2 + 8
    assert line_silence_allowed_s(recurring(silence_s=12.0), running(450, advances=4)) is None


def test_without_two_pauses_like_it_nobody_knows_how_silent_one_is() -> None:
    assert line_silence_allowed_s(HangState(), running(450)) is None
    once = HangState(pauses=[pause(150, 50.0)])
    assert line_silence_allowed_s(once, running(450)) is None
    assert line_silence_allowed_s(recurring(), running(450, "launch")) is None


def test_a_save_may_be_as_silent_as_saves_and_what_may_follow_them() -> None:
    saved = HangState(stages={SAVE: [pause(30, 50.0, 20.0), pause(60, 50.0, 2.0)]})
    assert line_silence_allowed_s(saved, running(337, SAVE)) == 3 * 20 + 8
    assert line_silence_allowed_s(saved, running(400, SAVE)) is None, "an evaluation may follow for the first time"
    both = recurring(silence_s=30.0)
    both.stages = saved.stages
    assert line_silence_allowed_s(both, running(450, SAVE)) == 3 * 30 + 8
    both.stages = {SAVE: saved.stages[SAVE][:1]}
    assert line_silence_allowed_s(both, running(450, SAVE)) is None, "one save is known"


def recurs(after: list[int], iteration: int | None, interval: int = 1) -> bool:
    state = HangState(pauses=[pause(n, 50.0) for n in after])
    return bool(recurring_pauses(state, running(interval=interval), iteration))


def test_a_pause_recurs_at_multiples_of_its_count() -> None:
    assert recurs([137], 137)
    assert recurs([137], 274)
    assert not recurs([137], 275)
    assert not recurs([137], None)
    assert recurs([100], 99, interval=2)
    assert not recurs([100], 1, interval=2)


def test_a_pause_before_the_first_count_recurs_there_alone() -> None:
    assert recurs([0], 0)
    assert not recurs([0], 50)


def test_a_pause_recurs_at_the_distance_of_two_if_that_is_ten_intervals() -> None:
    assert recurs([130, 140], 150)
    assert not recurs([130, 140], 151)
    assert not recurs([130, 139], 148)


def rounds(iteration: int, state: HangState | None = None, **known: Any) -> float:
    job = running(**known)
    return first_round_s(state or HangState(), job, iteration)


def saved_after(*counts: int) -> HangState:
    return HangState(stages={SAVE: [pause(n, 5.0) for n in counts]})


def test_the_first_pause_at_a_round_count_may_be_an_evaluation() -> None:
    assert (rounds(400), rounds(399), rounds(401)) == (900, 900, 0)
    assert rounds(400, HangState(passed=[100, 200])) == 0
    assert rounds(400, HangState(passed=[100])) == 900
    assert rounds(400, stage=SAVE, begun_s=5.0) == 900
    assert rounds(400, stage=EVALUATION, begun_s=5.0) == 0
    assert rounds(400, HangState(stages={EVALUATION: [pause(30, 5.0)]})) == 0
    assert first_round_s(HangState(), running(), None) == 0


def test_a_job_whose_first_iteration_is_called_one_reaches_no_99() -> None:
    counters = {"a": CounterState(400, None, 0.0, first=1)}
    assert (rounds(399, counters=counters, leader="a"), rounds(400, counters=counters, leader="a")) == (0, 900)
    late = {"a": CounterState(400, None, 0.0, first=2)}
    assert rounds(399, counters=late, leader="a") == 900


def test_saves_show_whether_the_first_iteration_is_called_zero() -> None:
    assert (rounds(399, saved_after(100, 300)), rounds(400, saved_after(100, 300))) == (0, 900)
    assert (rounds(399, saved_after(99, 299)), rounds(400, saved_after(99, 299))) == (900, 0)
    assert (rounds(399, saved_after(100, 299)), rounds(400, saved_after(100, 299))) == (900, 900)
    assert (rounds(399, saved_after(100)), rounds(400, saved_after(100))) == (900, 900)
    assert (rounds(399, saved_after(99)), rounds(400, saved_after(99))) == (900, 900)


def test_round_numbers_have_five_intervals() -> None:
    assert list(round_units(200, 1)) == [100, 200]
    assert list(round_units(200, 20)) == [100, 200]
    assert list(round_units(200, 25)) == [200]
    assert list(round_units(99, 1)) == [-100]
    assert list(round_units(99, 2)) == []
    assert list(round_units(0, 1)) == []


def test_a_job_whose_iterations_differ_has_its_own_noise_more() -> None:
    noisy = running(steps=[1.5, 2.5] * 32)
    assert allowed_s(HangState(), noisy) == pytest.approx(3 * 2 * (1 + spread(noisy)) + 8)
    assert spread(noisy) > 0.3


def test_an_evaluation_is_likely_after_a_round_count_and_at_the_distance_of_former_ones() -> None:
    assert is_pause_likely(running(400))
    assert not is_pause_likely(running(337))
    assert is_pause_likely(running(450, watches={"hang": recurring(seconds=0.0)}))


def test_a_long_time_between_counts_is_expected_where_an_evaluation_is_likely() -> None:
    assert is_expected(running(337), Pause(400, 15.0, "training"))
    assert not is_expected(running(400), Pause(337, 15.0, "training"))
    assert not is_expected(running(337), Pause(400, 14.0, "training")), "no count is late"
    assert not is_expected(running(337, steps=[]), Pause(400, 15.0, "training"))


def hangs(job: JobState, now: float, state: HangState | None = None) -> str | None:
    alarm = find_alarm(state or HangState(), job, now)
    return None if alarm is None else alarm.text


def test_a_job_hangs_once_it_took_longer_than_allowed() -> None:
    assert hangs(running(), 1_014.0) is None
    assert hangs(running(), 1_014.1) == "No progress after iteration 337; a step usually takes 2.0 s."


def test_a_job_without_progress_hangs_when_its_lines_end() -> None:
    silent = JobState(since=0.0)
    assert hangs(silent, 1_800.0) is None
    assert hangs(silent, 1_801.0) == "No progress yet."
    assert hangs(JobState(since=0.0, last_line_at=1_801.0), 1_801.0) is None
    assert hangs(JobState(since=0.0, last_line_at=1_800.0), 1_801.0) == "No progress yet."
    often = {"last_line_at": 1_800.0, "longest_silence_s": {"training": 2.0, SAVE: 4.0}}
    assert hangs(JobState(since=0.0, **often), 1_812.0) is None
    assert hangs(JobState(since=0.0, **often), 1_812.5) is not None


def test_a_pause_without_a_line_for_longer_than_those_like_it_hangs_though_it_may_last() -> None:
    state = recurring(seconds=500.0, silence_s=12.0)
    job = running(450, last_line_at=1_100.0)
    assert hangs(job, 1_144.0, state) is None
    assert hangs(job, 1_144.5, state) == (
        "No line has come for long in the pause after iteration 450; earlier pauses were never silent for so long."
    )
    assert hangs(running(450), 1_400.0, recurring(seconds=500.0)) is None, "no line was ever seen"
