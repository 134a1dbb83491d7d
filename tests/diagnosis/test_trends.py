"""What changes over the steps of a job is said, and accuses nobody."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.evidence import Measure, Place
from diagnosis.facts import trends

EVEN = [1.0] * 60


def told(sense: str, *of_places: list[float]) -> list[str]:
    measures = [
        Measure(Place("node", f"gpu-{n}"), "x_ms", sense, "", tuple(values), steps=tuple(range(1, len(values) + 1)))
        for n, values in enumerate(of_places)
    ]
    found = trends.find_trends(measures)
    assert not any(result.is_fault or result.target for result in found)
    return [result.outcome.says for result in found]


def test_long_first_steps_that_become_shorter_are_a_warm_up() -> None:
    [said] = told("work", [9.0, 6.0, 4.0, 2.0, *EVEN], [8.0, 6.0, 4.0, 2.0, *EVEN])
    assert said.startswith("the job warms up, steps 1 to 4 took 5.12 times as long as the later ones")


@pytest.mark.parametrize("first", [[9.0], [2.0, 4.0, 6.0, 9.0], [2.0] * 40])
def test_one_long_step_rising_and_lasting_ones_are_no_warm_up(first: list[float]) -> None:
    assert told("work", first + EVEN) == []


def test_steps_that_are_long_at_even_distances_are_told_with_the_distance() -> None:
    assert told("work", [8.0 if n % 20 == 0 else 1.0 for n in range(1, 101)]) == [
        "every 20th step takes 8.00 times as long as the others: x_ms"
    ]
    uneven = [8.0 if n in (11, 17, 60, 83) else 1.0 for n in range(100)]
    assert told("work", uneven) == []


def test_a_level_that_grows_is_told_with_its_places() -> None:
    rising = list(np.linspace(30.0, 80.0, 60))
    assert told("level", rising, rising) == ["x_ms grows from 30 to 80, at all places alike"]
    assert told("level", rising, EVEN, EVEN) == ["x_ms grows from 30 to 80 at gpu-0, not at the others"]
    assert told("level", EVEN, EVEN) == []


def test_a_short_run_shows_no_trend() -> None:
    assert told("work", [9.0, 6.0, 4.0, 1.0, 1.0, 1.0]) == []
    assert told("level", [1.0, 50.0]) == []


def dropped(values: list[float], name: str = "rate of tokens_per_second", sense: str = "rate") -> list[str]:
    measure = Measure(Place("node", ""), name, sense, "", tuple(values))
    found = trends.find_drops([measure])
    assert all(result.is_fault for result in found)
    return [result.outcome.says for result in found]


def test_work_that_falls_and_stays_low_is_slow() -> None:
    assert dropped([90.0, 91.0] * 10 + [40.0, 41.0] * 10) == [
        "rate of tokens_per_second falls from 90 to 40 and stays there"
    ]


@pytest.mark.parametrize(
    "values",
    [
        [40.0, 41.0] * 10 + [90.0, 91.0] * 10,
        [90.0, 91.0] * 10 + [0.0] * 20,
        [90.0, 91.0] * 20 + [40.0] * 3,
        [90.0, 91.0] * 10 + [80.0, 81.0] * 10,
        [90.0, 40.0] * 10 + [80.0, 30.0] * 10,
    ],
    ids=["rises", "stops", "pauses", "hardly falls", "scatters"],
)
def test_work_that_rises_stops_pauses_or_scatters_is_not(values: list[float]) -> None:
    assert dropped(values) == []


def test_a_device_that_rests_says_nothing_of_the_work() -> None:
    assert dropped([90.0, 91.0] * 10 + [40.0, 41.0] * 10, "rate of gpu utilization") == []
    assert dropped([90.0, 91.0] * 10 + [40.0, 41.0] * 10, "level of tokens", "level") == []
