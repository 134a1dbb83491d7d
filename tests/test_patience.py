"""The limits of waits stay far above what a busy machine needs, and work is counted the same everywhere."""

from __future__ import annotations

import os

import pytest

from tests import patience


@pytest.mark.skipif("PATIENCE_S" in os.environ, reason="somebody lowered it for this run")
def test_nobody_lowered_a_limit_for_good() -> None:
    """A limit of 40 s failed on a busy machine, though nothing was wrong."""
    assert min(patience.PATIENCE_S, patience.WORK_S / 5, patience.HANG_CPU_S) >= 180


def test_steps_are_the_same_each_time_and_grow_with_the_work() -> None:
    def work(size: int) -> int:
        return patience.steps_of(lambda: [abs(number) for number in range(size)])

    assert work(100) == work(100)
    assert 3 < work(4000) / work(1000) < 5


def test_endless_work_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "HANG_CPU_S", 0.05)

    def go_on() -> None:
        while True:
            pass

    with pytest.raises(AssertionError, match="it goes on"), patience.no_hang():
        go_on()
