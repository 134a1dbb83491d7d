"""What a course is: a function that writes a job, and the voices that fit it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lab.exams.sealed.common.case import Case

type Tell = Callable[[Case], None]


class Course(NamedTuple):
    """``able``: names of voices; ``low`` and ``high``: machines."""

    name: str
    tell: Tell
    able: tuple[str, ...]
    low: int
    high: int
    is_failing: bool


class Found:
    """The courses of a module; ``able``: the voices of those that name none."""

    def __init__(self, able: tuple[str, ...], *, is_failing: bool = True) -> None:
        self._all = able
        self.held: list[Course] = []
        self._is_failing = is_failing

    def course(
        self, able: tuple[str, ...] = (), low: int = 4, high: int = 64, *, is_failing: bool | None = None
    ) -> Callable[[Tell], Tell]:
        """Adds a function as a course of its name."""

        def add(tell: Tell) -> Tell:
            fails = self._is_failing if is_failing is None else is_failing
            self.held.append(Course(tell.__name__, tell, able or self._all, low, high, fails))
            return tell

        return add
