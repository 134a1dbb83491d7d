"""A job that a test drives step by step."""

from __future__ import annotations

from typing import Any

import pytest

from diagnosis.live import decode_observation, judge, learn, new_state


class Course:
    """A job's state and time. Every step takes ``step_s``."""

    def __init__(self, step_s: float = 2.0) -> None:
        self.state, self.now, self.n, self.step_s = new_state(0.0), 0.0, 0, step_s

    def says(self, source: str = "node-1/train.log", **seen: Any) -> Course:
        learn(self.state, source, decode_observation({"lines": 1, **seen}), self.now)
        return self

    def trains(self, count: int, step_s: float | None = None, loss: float | None = 2.0, **seen: Any) -> Course:
        """So many steps, one range each."""
        for _ in range(count):
            self.now += step_s or self.step_s
            self.n += 1
            stamp = int(self.now * 1e9)
            self.says(counters={"iteration a": [[self.n, stamp, [], False]]}, losses=[[self.n, loss]], **seen)
        return self

    def waits(self, seconds: float) -> Course:
        self.now += seconds
        return self

    @property
    def kinds(self) -> list[str]:
        return [alarm.kind for alarm in judge(self.state, self.now)]

    @property
    def text(self) -> str:
        return judge(self.state, self.now)[0].text


@pytest.fixture
def job() -> Course:
    return Course()
