"""What one range of a growing log says: the record that a reader process sends and that watches
learn from.

Rows of numbers are arrays in JSON, the others objects. Moments in lines are nanoseconds (UTC), None
if a line states none.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

#: Nanoseconds since the epoch.
type Stamp = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
#: A count that a line states.
type Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
#: So many numbers of a line may count.
MAX_NUMBERS = 12
#: A fraction as a line states it.
type Measure = Annotated[str, msgspec.Meta(max_length=40)]
#: Number of lines.
type Lines = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
#: A finite loss.
type Loss = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]
#: A name of a stage, as long as the site stores it.
type Stage = Annotated[str, msgspec.Meta(max_length=24)]


class StageMark(msgspec.Struct, frozen=True, array_like=True):
    """A line that announces a stage; ``training`` where it ends one."""

    stage: Stage
    at: Stamp | None = None


class CountRow(msgspec.Struct, frozen=True, array_like=True):
    """A line with a counter. ``announced``: what was announced since the row before; ``is_last``:
    it is the last count that is planned.
    """

    number: Count
    at: Stamp | None = None
    announced: tuple[StageMark, ...] = ()
    is_last: bool = False


class NumberRow(msgspec.Struct, frozen=True, array_like=True):
    """A line without a known counter that holds whole numbers beside a measurement. ``numbers``:
    each whole one, 0 if it cannot count; ``measure``: the first fraction.
    """

    numbers: Annotated[tuple[Count, ...], msgspec.Meta(max_length=MAX_NUMBERS)]
    measure: Measure
    at: Stamp | None = None
    announced: tuple[StageMark, ...] = ()


class LossRow(msgspec.Struct, frozen=True, array_like=True):
    """The loss beside a count; None if it is not a finite number."""

    number: Count
    loss: Loss | None


class ErrorRow(msgspec.Struct, frozen=True):
    """The first line of a decisive rule: ``signature``, category and title; ``text``: the line."""

    signature: str
    category: str
    title: str
    text: str
    at: Stamp | None = None


class DiskUse(msgspec.Struct, frozen=True, array_like=True):
    """What a line says of the use of a file system. ``name`` may be empty."""

    name: str
    percent: Annotated[float, msgspec.Meta(ge=0, le=100)]


class LineTallies(msgspec.Struct, frozen=True):
    """Numbers of lines that are errors, and of lines about retries."""

    errors: Lines = 0
    retries: Lines = 0


class Observation(msgspec.Struct, frozen=True):
    """All that watches need of one range. Without lines it has the defaults.

    ``counters``: message -> its counts in the order of the lines; ``numbers``: message -> its lines
    of which a number may count; ``stage``: at the end of the
    range, None if no line names one; ``announced``: stages after the last count, each once in a
    row; ``ended``: the first line that tells that a process ended badly, '' without any;
    ``writers``: nodes.
    """

    lines: Lines = 0
    counters: dict[str, tuple[CountRow, ...]] = {}
    numbers: dict[str, tuple[NumberRow, ...]] = {}
    losses: tuple[LossRow, ...] = ()
    stage: Stage | None = None
    stage_at: Stamp | None = None
    announced: tuple[StageMark, ...] = ()
    errors: tuple[ErrorRow, ...] = ()
    ended: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    tallies: LineTallies = LineTallies()
    disks: tuple[DiskUse, ...] = ()
    writers: tuple[str, ...] = ()
