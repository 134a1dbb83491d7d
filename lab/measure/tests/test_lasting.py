"""Least figures on captures in which something is slow from the first step to the last."""

from __future__ import annotations

import pytest

from lab.exams.flows.lasting import shape
from lab.measure.lasting import judge


@pytest.mark.parametrize(("fault", "least"), [("port", 3), ("machine", 3), ("quiet", 4), ("uneven", 4)])
def test_what_is_slow_all_the_time_is_named_and_nobody_else(fault: str, least: int) -> None:
    said = [judge(shape(seed, fault))[0] for seed in range(4)]
    assert said.count("right") >= least
    assert "wrong" not in said
