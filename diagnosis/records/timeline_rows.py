"""The logs on an axis of time, as a report shows them, and the clocks that were corrected for it.

Times are seconds since the epoch (UTC).
"""

from __future__ import annotations

import msgspec


class StageRow(msgspec.Struct, frozen=True):
    """The time that a job, or one node, spent in a stage."""

    stage: str
    begin: float | None = msgspec.field(name="t0")
    end: float | None = msgspec.field(name="t1")


class MarkRow(msgspec.Struct, frozen=True):
    """The first line of an event on one node."""

    at: float | None = msgspec.field(name="t")
    role: str
    event: str
    file: str
    line: int


class NodeLane(msgspec.Struct, frozen=True):
    """One node on the timeline: its stages, its first lines of events, its last signs of life."""

    node: str
    segments: list[StageRow]
    marks: list[MarkRow]
    last_line_at: float | None
    last_progress_at: float | None


class IterationRow(msgspec.Struct, frozen=True):
    """One iteration: when it ended, how long it took; ``odd``: its lines' sigmas from others."""

    number: int = msgspec.field(name="n")
    at: float | None = msgspec.field(name="t", default=None)
    seconds: float | None = None
    odd: float | None = None


class Timeline(msgspec.Struct, frozen=True):
    """The logs on an axis of time. ``lanes`` shows some of the job's ``lanes_of`` nodes."""

    begin: float | None = msgspec.field(name="t0", default=None)
    end: float | None = msgspec.field(name="t1", default=None)
    stages: list[StageRow] = []
    lanes: list[NodeLane] = []
    lanes_of: int = 0
    iterations: list[IterationRow] = []

    @property
    def dated_iterations(self) -> list[tuple[float, int]]:
        """Time and number of each iteration whose time is known."""
        return [(row.at, row.number) for row in self.iterations if row.at is not None]

    def time_of(self, iteration: int) -> float | None:
        """When an iteration, or the first known one after it, ended; None if that is not known."""
        return next((at for at, number in self.dated_iterations if number >= iteration), None)


class ClockRow(msgspec.Struct, frozen=True):
    """What was subtracted from the times of a file in another time zone (``kind`` zone), or of a
    node whose clock is wrong (skew).
    """

    file: str | None
    node: str | None
    kind: str
    skew_s: float
