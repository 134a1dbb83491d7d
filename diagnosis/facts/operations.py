"""Tables of single operations of each worker (a forward pass, a backward pass), summed by step.

What a worker computes can be compared between workers in the same step (:mod:`diagnosis.facts.unevenness`).
What communicates lasts as long as others let it, and is left out.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from diagnosis.evidence import Fact, Place
from diagnosis.knowledge.knowledge_files import table

#: The id of the format in the table of reports.
FORMAT: Final = "operations"
#: Its series: a time, and the stage of a pipeline.
TIME, STAGE = "time", "stage"
#: Operations, workers and steps of each that are kept.
MAX_SUMS: Final = 40_000
_PER_SECOND: Final = {"ms": 1e3, "us": 1e6, "ns": 1e9}
_MAX_NAME: Final = 60


class Operation(NamedTuple):
    """What one worker did in one step. ``stage`` is empty where it is not stated."""

    worker: str
    stage: str
    step: int
    name: str
    seconds: float


class Columns(NamedTuple):
    """The names of a table's columns; ``stage`` is empty where there is none."""

    rank: str
    step: str
    name: str
    duration: str
    stage: str

    @property
    def per_second(self) -> float:
        """How many of its units of time make a second."""
        return _PER_SECOND.get(self.duration.lower().rpartition("_")[2], 1.0)


def find_columns(names: Sequence[str]) -> Columns | None:
    """The columns of a table of operations; None for any other table."""
    known = {name.strip().lower(): name for name in reversed(names)}
    words = table("operations")["columns"]
    found = [next((known[word] for word in words[field] if word in known), "") for field in Columns._fields]
    columns = Columns(*found)
    return columns if all(columns[:4]) else None


def computes(name: str) -> bool:
    """Whether a worker does an operation by itself."""
    computing, communicating = _patterns()
    return bool(computing.search(name)) and not communicating.search(name)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    words = table("operations")["words"]
    return re.compile(words["computes"], re.IGNORECASE), re.compile(words["communicates"], re.IGNORECASE)


class Sum(NamedTuple):
    """A value of one worker in one step: ``path`` is its quantity, as reports state it."""

    path: tuple[str, ...]
    worker: str
    value: str


def sums(operations: Iterable[Operation]) -> Iterator[Sum]:
    """The seconds of each worker's computing operations, by step, and its stage. O(n log n)."""
    seconds: dict[tuple[str, str, int], float] = defaultdict(float)
    stages: dict[tuple[str, int], str] = {}
    for one in operations:
        key = (one.name[:_MAX_NAME], one.worker[:_MAX_NAME], one.step)
        is_time = math.isfinite(one.seconds) and one.seconds >= 0.0
        if is_time and computes(one.name) and (key in seconds or len(seconds) < MAX_SUMS):
            seconds[key] += one.seconds
            if one.stage:
                stages[key[1:]] = one.stage
    for (name, worker, _), value in sorted(seconds.items()):
        yield Sum((TIME, name), worker, f"{value:.6g}")
    for (worker, _), stage in sorted(stages.items()):
        yield Sum((STAGE,), worker, stage)


def stored(found: Iterable[Sum]) -> list[tuple[str, str, str, int, str, str]]:
    """The values as a parsed report keeps its facts: node, name, value, line, part, format."""
    facts = (Fact.of(Place("node", ""), one.path, one.value, 0, one.worker) for one in found)
    return [(fact.place.name, fact.name, fact.value, fact.line, fact.part, FORMAT) for fact in facts]
