"""What the logs of a job show: the part of a diagnosis that conclusions read. The records in it are
those of the report. Times are seconds since the epoch (UTC), scores and weights in [0, 1].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from diagnosis.evidence import Fact, Measure, Result, Suspect
from diagnosis.records.timeline_rows import ClockRow, Timeline


class LineRef(msgspec.Struct, frozen=True):
    """One line of evidence: its position (``line`` from 1, the others in bytes), writer and time."""

    file: str
    line: int
    offset: int = 0
    length: int = 0
    node: str | None = None
    rank: int | None = None
    at: float | None = msgspec.field(name="time", default=None)


class LogEvent(msgspec.Struct, frozen=True):
    """All lines of one template and one signature.

    ``jobs_with_it`` of ``healthy_jobs`` healthy jobs print it too. ``lines`` is cut at a limit,
    ``count`` is not. It was seen on ``nodes`` of the job's ``of_nodes`` nodes. ``recovered``:
    training continued after its last line. ``is_stamped``: a line states its time; else
    ``first_at`` is the last time before it. ``writers``: the first line of each of its first nodes, by
    time; empty where fewer than two nodes state times.
    """

    id: str
    template: str
    role: str
    signature: str | None = None
    category: str | None = None
    level: int = 0
    count: int = 0
    nodes: int = 0
    of_nodes: int = 0
    node_names: tuple[str, ...] = ()
    jobs_with_it: int = 0
    healthy_jobs: int = 0
    first_at: float | None = None
    last_at: float | None = None
    is_stamped: bool = True
    example: str = ""
    recovered: bool = False
    score: float = 0.0
    lines: tuple[LineRef, ...] = ()
    writers: tuple[LineRef, ...] = ()


class NodeSuspect(msgspec.Struct, frozen=True):
    """A node with the reasons of the suspicion; ``is_suspect`` False means ranked, not accused."""

    node: str
    score: float
    is_suspect: bool = msgspec.field(name="suspect")
    reasons: tuple[str, ...] = ()


class Attempt(msgspec.Struct, frozen=True):
    """One launch of the job: its times, how it ended, and its first and last iteration."""

    number: int = msgspec.field(name="n")
    t0: float | None
    t1: float | None
    outcome: str
    first: int | None = None
    last: int | None = None


class Clue(msgspec.Struct, frozen=True):
    """One clue of a detector: ``about`` is ``event``, ``node`` or ``category``, ``subject`` its id;
    ``weight`` in [0, 1]; ``reason`` a sentence; ``why``: the idea of the detector.
    """

    detector: str
    about: str
    subject: str
    weight: float
    reason: str
    why: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """The category with its confidence in [0, 1], the runner-up, and labels that also apply."""

    id: str
    category: str
    subcategory: str
    confidence: float
    runner_up: tuple[str, float] | None = None
    labels: tuple[str, ...] = ()


class Indicator(msgspec.Struct, frozen=True):
    """The words of one line that state the fault, and its typed parameters; ``spans``: begin, end
    and name of each parameter in them.
    """

    text: str
    file: str
    line: int
    parameters: dict[str, str] = {}
    spans: tuple[tuple[int, int, str], ...] = ()


class LogDiagnosis(msgspec.Struct, frozen=True):
    """The diagnosis of one attempt from its logs. ``protocol``: the `State` of each rank and group
    (of `diagnosis.kinds.logs.compare.detectors.watchdogs`), for the stack analysis.
    ``progress_files``: paths of the logs whose lines count iterations or epochs. ``read_notes``: what
    was read of each log, a sentence by its path. ``stated``: what
    its nodes state of their set-up, with the path; ``measures``: what they say of their steps;
    ``shown``: what lines show beside the verdict, such as ranks that are behind or missing.
    ``help``: what usually helps where a line states the verdict's cause.
    """

    is_failure: bool
    outcome: str
    verdict: Verdict
    symptom: str
    stage: str | None
    iteration: int | None
    nodes: tuple[NodeSuspect, ...] = ()
    answer: str = ""
    events: tuple[LogEvent, ...] = ()
    lines: tuple[LineRef, ...] = ()
    indicators: tuple[Indicator, ...] = ()
    fingerprint: str = ""
    attempt: int = 0
    attempts: tuple[Attempt, ...] = ()
    timeline: Timeline = msgspec.field(default_factory=Timeline)
    progress_files: frozenset[str] = frozenset()
    read_notes: Mapping[str, str] = msgspec.field(default_factory=dict)
    clocks: tuple[ClockRow, ...] = ()
    missing: tuple[str, ...] = ()
    clues: tuple[Clue, ...] = ()
    observed: tuple[str, ...] = ()
    inferred: tuple[str, ...] = ()
    culprits: tuple[Suspect, ...] = ()
    framework: str = ""
    scheduler: str = ""
    node_names: tuple[str, ...] = ()
    world_size: int | None = None
    protocol: tuple[Any, ...] = ()
    slow_phase: tuple[int, int, float] | None = None
    stated: tuple[tuple[str, Fact], ...] = ()
    measures: tuple[Measure, ...] = ()
    shown: tuple[Result, ...] = ()
    help: str = ""

    @property
    def has_evidence(self) -> bool:
        """Whether there are log lines at all."""
        return self is not NO_LOGS

    @property
    def roots(self) -> list[LogEvent]:
        """The events that state the cause, in the order of their weight."""
        return [event for event in self.events if event.role == "root"]


#: The diagnosis of a job without log lines.
NO_LOGS: Final = LogDiagnosis(False, "unknown", Verdict("", "", "", 0.0), "", None, None)
