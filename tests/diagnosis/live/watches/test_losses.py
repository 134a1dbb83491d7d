"""A loss that is no number, or that jumped."""

from __future__ import annotations

import random
from typing import Any


def test_a_loss_that_stays_not_finite_is_an_alarm_and_a_skipped_step_is_none(job: Any) -> None:
    assert job.trains(40).trains(2, loss=None).trains(5).kinds == []
    assert job.trains(3, loss=None).text == "The loss is not a finite number since iteration 48."
    assert job.trains(1).kinds == []


def test_a_spike_is_one_above_the_noise_of_this_loss(job: Any) -> None:
    dice = random.Random(3)
    for _ in range(300):
        assert job.trains(1, loss=2 + dice.gauss(0, 0.1)).kinds == []
    assert job.trains(2, loss=9.0).kinds == []
    assert job.trains(1, loss=9.0).kinds == ["loss"]
    assert "jumped to 9 at iteration 301; before it was 2" in job.text.replace("2.0", "2")
    assert job.trains(3, loss=2.0).kinds == []


def test_a_loss_that_stays_high_becomes_the_usual_one(job: Any) -> None:
    assert job.trains(60).trains(450, loss=9.0).kinds == []


def test_the_first_losses_of_a_run_are_its_own_affair(job: Any) -> None:
    for n in range(60):
        assert job.trains(1, loss=12 / (1 + n)).kinds == []
