"""What every scheduler has: the name of a job, and words when it starts, when a process ends and when it ends."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from lab.exams.sealed.common.case import Case


class Scheduler:
    """The base: nothing is said."""

    numbered: ClassVar[tuple[int, int]] = (10_000, 9_000_000)

    def job_id(self, rng: random.Random) -> str:
        """A number."""
        return str(rng.randrange(*self.numbered))

    def put(self, c: Case, text: str, dt: float) -> tuple[str, str]:
        """File and line."""
        return f"scheduler-{c.job}.log", text

    def launched(self, c: Case) -> None:
        """The job starts."""

    def died(self, c: Case, rank: int, code: int, role: str, tid: str) -> None:
        """A process ended."""

    def closed(self, c: Case, how: str, role: str = "secondary", tid: str = "closed") -> None:
        """The job ended."""
