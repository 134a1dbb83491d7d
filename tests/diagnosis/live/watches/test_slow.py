"""Steps that stay slow are an alarm; noise, single slow steps and a new usual pace are none."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from diagnosis.live import JobState, Observation
from diagnosis.live.range_effect import RangeEffect
from diagnosis.live.watches import slow
from diagnosis.live.watches.slow import SlowState, UsualStep, alarm_sum, log_likelihood_ratios, usual_step_of


def test_three_slow_steps_of_an_even_job_are_enough_and_the_last_need_not_be_over(job: Any) -> None:
    job.trains(60).trains(2, step_s=5.0)
    assert job.waits(5).kinds == []
    assert job.waits(5).kinds == ["slow"]
    assert job.text == "Steps take 5.0 s, 2.50 times as long as before."
    assert job.trains(1, step_s=1.0).kinds == ["slow"]


def test_one_slow_step_is_none_and_the_alarm_ends_with_usual_steps(job: Any) -> None:
    assert job.trains(60).trains(1, step_s=9.0).kinds == []
    assert job.trains(20).trains(12, step_s=5.0).kinds == ["slow"]
    assert job.trains(12).kinds == []


def test_a_noisy_job_needs_more_of_them_and_has_no_alarm_of_its_noise(job: Any) -> None:
    dice = random.Random(4)
    for _ in range(4000):
        job.trains(1, step_s=2 * max(0.3, dice.gauss(1, 0.2)))
        assert job.kinds == []
    for _ in range(12):
        job.trains(1, step_s=3.6 * max(0.3, dice.gauss(1, 0.2)))
    assert job.kinds == ["slow"]


def test_a_slightly_higher_load_is_no_alarm(job: Any) -> None:
    assert job.trains(100).trains(100, step_s=2.3).kinds == []


def test_a_pace_that_stays_becomes_the_usual_one(job: Any) -> None:
    assert job.trains(60).trains(300, step_s=4.0).kinds == ["slow"]
    assert job.trains(200, step_s=4.0).kinds == []


def test_bursts_that_passed_by_themselves_are_the_noise_of_this_job(job: Any) -> None:
    job.trains(60).trains(3, step_s=5.0).trains(40)
    assert job.trains(3, step_s=5.0).kinds == []
    assert job.trains(9, step_s=5.0).kinds == ["slow"]


def test_two_slow_steps_are_enough_where_a_step_takes_long(job: Any) -> None:
    job.step_s = 30.0
    assert job.trains(60).trains(1, step_s=60.0).kinds == []
    assert job.trains(1, step_s=60.0).kinds == ["slow"]


def test_a_job_that_prints_every_tenth_step_is_slow_for_all_ten(job: Any) -> None:
    def counts(number: int, step_s: float) -> None:
        for _ in range(number):
            job.n, job.now = job.n + 10, job.now + 10 * step_s
            job.says(counters={"iteration a": [[job.n, int(job.now * 1e9), [], False]]})

    counts(30, 0.4)
    counts(4, 0.8)
    assert job.kinds == ["slow"], "32 s of slow steps"


def even(step_s: float = 1.0, spread: float = 0.1) -> UsualStep:
    return UsualStep(step_s, spread)


def training(**known: Any) -> JobState:
    """A job that made its last progress at 1,000."""
    return JobState(since=0.0, stage="training", advanced_at=1_000.0, **known)


def suspecting(**known: Any) -> SlowState:
    """Two steps of 2.5 s in a job whose steps take 1 s: one more is an alarm."""
    usual = {"usual_s": [1.0] * 20, "usual_step": even(), "sums": [4.0, 7.0, 7.0, 1.0]}
    return SlowState(**{**usual, "since": 900.0, "suspect_s": [2.5, 2.5], "count": 2, "lasted_s": 5.0, **known})


def test_a_step_is_as_much_more_likely_under_a_slowdown_as_the_normal_distribution_says() -> None:
    assert log_likelihood_ratios(even(), 1.5)[:2] == pytest.approx([2.49, 0.83], abs=0.01)
    assert log_likelihood_ratios(even(), 1.3)[0] == pytest.approx(-0.70, abs=0.01)
    assert set(log_likelihood_ratios(even(), 1.0)) == {-3.7}, "no step says more"
    assert log_likelihood_ratios(even(), 3.0)[1] == 3.7


def test_a_step_that_is_not_over_may_still_take_longer() -> None:
    found = log_likelihood_ratios(even(), 1.3, is_finished=False)
    assert found[:2] == pytest.approx([1.47, 1.55], abs=0.01)
    assert log_likelihood_ratios(even(), 1.5, is_finished=False)[0] == pytest.approx(3.66, abs=0.01)
    assert log_likelihood_ratios(even(), 0.1, is_finished=False) == pytest.approx([0.0] * 4, abs=0.01)
    assert set(log_likelihood_ratios(even(), 1e6, is_finished=False)) == {0.0}, "then it is a hang"


def test_the_usual_step_has_the_wider_of_two_robust_spreads_and_at_least_four_percent() -> None:
    assert usual_step_of([1.0] * 16) == even(1.0, 0.04)
    assert usual_step_of([1.0, 1.1, 0.9, 1.2, 0.8] * 4).spread == pytest.approx(0.156, abs=0.001)
    assert usual_step_of([1.0] * 12 + [1.1] * 4 + [1.3] * 2).spread == pytest.approx(0.0745, abs=0.0001)
    assert usual_step_of([1.0] * 9 + [1.5]).spread == 0.04, "nine of ten are below"
    assert usual_step_of([1.0] * 8 + [1.2] * 2).spread == pytest.approx(0.142, abs=0.001)


def test_counts_that_come_more_often_need_a_larger_sum() -> None:
    assert alarm_sum(even(30.0), training()) == alarm_sum(even(90.0), training()) == 6.0
    assert alarm_sum(even(3.0), training(interval=10)) == 6.0
    assert alarm_sum(even(1.0), training()) == pytest.approx(6 + math.log(30))


def steps(state: SlowState, *seconds: float, now: float = 950.0, interval: int = 1) -> SlowState:
    effect = RangeEffect("log", Observation(), now, steps=seconds)
    slow.learn(state, training(interval=interval), effect)
    return state


def test_the_steps_since_the_first_slow_one_are_counted() -> None:
    state = steps(SlowState(), *[1.0] * 16)
    assert (state.sums, state.suspect_s, len(state.usual_s)) == ([], [], 16)
    steps(state, 2.0, 2.5, now=30.0, interval=10)
    assert (state.since, state.suspect_s, state.count, state.lasted_s) == (30.0, [2.0, 2.5], 2, 45.0)
    assert state.highest == max(state.sums) > 6


def test_before_sixteen_steps_nothing_is_slow() -> None:
    assert steps(SlowState(), *[1.0] * 15, 9.0).sums == []
    assert steps(SlowState(), *[1.0] * 16, 9.0).sums != []


def test_a_sum_is_at_most_three_times_that_of_an_alarm() -> None:
    state = steps(SlowState(), *[30.0] * 20, *[90.0] * 20)
    assert max(state.sums) == 3 * 6.0


def test_an_alarm_needs_its_sum_six_seconds_and_more_than_the_noise_of_the_job() -> None:
    assert steps(suspecting(), 2.5, 2.5).is_open
    assert not steps(suspecting(lasted_s=0.0), 2.5, 2.5).is_open
    assert steps(suspecting(lasted_s=1.0), 2.5, 2.5).is_open
    assert not steps(suspecting(noise=25.0), 2.5, 2.5).is_open


def test_a_suspicion_that_passes_is_the_noise_of_the_job() -> None:
    state = steps(suspecting(highest=5.0), *[1.0] * 4)
    assert (state.noise, state.sums, state.is_open) == (pytest.approx(1.2 * 5), [], False)
    assert state.usual_s[-6:] == [2.5, 2.5, 1.0, 1.0, 1.0, 1.0]
    enough = 6 + math.log(30)
    assert steps(suspecting(highest=90.0), *[1.0] * 4).noise == pytest.approx(4 * enough)
    assert steps(suspecting(noise=7.0), *[1.0] * 4).noise == 7.0
    assert steps(suspecting(count=10), *[1.0] * 4).noise == 0.0


def test_an_alarm_ends_at_half_its_sum_and_its_steps_are_not_usual() -> None:
    state = suspecting(is_open=True, sums=[9.0, 9.0, 9.0, 9.0])
    assert steps(state, 1.0).is_open
    steps(state, 1.0)
    assert (state.is_open, state.sums, state.suspect_s) == (False, [], [])
    assert state.usual_s == [1.0] * 21


def test_a_restart_forgets_the_pace() -> None:
    state = suspecting()
    slow.learn(state, training(), RangeEffect("log", Observation(), 950.0, has_restarted=True))
    assert state == SlowState()


def waiting(seconds: float, state: SlowState | None = None, **known: Any) -> str | None:
    alarm = slow.find_alarm(state or suspecting(), training(**known), 1_000.0 + seconds)
    return None if alarm is None else alarm.text


def test_the_step_that_is_not_over_counts_for_what_it_took_so_far() -> None:
    assert waiting(6.0) is None, "a line needs so long until it is judged"
    assert waiting(9.0) == "Steps take 2.5 s, 2.50 times as long as before."
    assert waiting(9.0, suspecting(lasted_s=2.9)) is None
    assert waiting(9.0, suspecting(lasted_s=3.0)) is not None
    assert waiting(9.0, suspecting(noise=20.0)) is None


def test_of_a_job_that_prints_every_tenth_step_the_wait_is_that_of_ten() -> None:
    state = suspecting(suspect_s=[])
    assert waiting(36.0, state, interval=10) == "Steps take 3.0 s, 3.00 times as long as before."


def test_no_step_is_slow_outside_training_or_where_an_evaluation_is_likely() -> None:
    job = training(iteration=100)
    job.stage = "evaluation"
    assert slow.find_alarm(suspecting(), job, 1_009.0) is None
    assert waiting(9.0, iteration=100) is None
    assert waiting(9.0, iteration=101) is not None
    assert waiting(9.0, suspecting(sums=[])) is None
    assert waiting(9.0, SlowState()) is None


def test_an_alarm_that_is_open_does_not_wait_for_the_next_step() -> None:
    state = suspecting(is_open=True)
    assert waiting(0.0, state) == waiting(500.0, state) == "Steps take 2.5 s, 2.50 times as long as before."
