"""Steps that stay slow are an alarm; noise, single slow steps and a new usual pace are none."""

from __future__ import annotations

import random
from typing import Any


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
