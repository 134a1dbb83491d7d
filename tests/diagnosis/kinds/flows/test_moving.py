"""Unequal work that moves between replicas, against one slow replica."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.facts.uneven_work import _strongest_share
from diagnosis.kinds.flows.capture.capture import Floats


def one(waits: Floats) -> float:
    return _strongest_share(waits, waits.max(axis=0))


def turns(replicas: int, steps: int = 40) -> Floats:
    """Each step another replica is late, by .1 s."""
    waits = np.zeros((replicas, steps))
    waits[np.arange(steps) % replicas, np.arange(steps)] = 0.1
    return waits


@pytest.mark.parametrize("replicas", [2, 4, 8])
def test_replicas_that_take_turns_have_equal_shares(replicas: int) -> None:
    assert one(turns(replicas)) == pytest.approx(1 / replicas)


def test_a_slow_replica_has_all_of_the_lost_time_also_if_its_members_are_late_together() -> None:
    waits = np.zeros((8, 40))
    waits[4:6] = np.linspace(0.1, 0.3, 40)
    assert one(waits) == pytest.approx(1.0)


def test_a_few_long_steps_that_one_replica_has_by_chance_do_not_make_it_slow() -> None:
    waits = turns(4)
    waits[0, [4, 20]] *= 5  # more of the squares than all others together
    assert one(waits) < (1 + 1 / 4) / 2 < one(waits**2)


def test_without_lost_time_there_is_one_pattern() -> None:
    assert one(np.zeros((4, 40))) == 1.0
