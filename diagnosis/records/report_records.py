"""The records of a report that are of no kind of evidence, and those of its ``logs``; docs/report.md lists every field.

Times are seconds since the epoch (UTC), scores, shares and weights in [0, 1].
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from diagnosis.records.advice_records import Advice
from diagnosis.values.json_values import JsonObject


class InputRow(msgspec.Struct, frozen=True):
    """One file. ``skipped``: why it could not be used, ``unread``: why nothing was concluded from it; None if it
    was.
    """

    path: str
    kind: str
    sha256: str
    lines: int
    bytes: int
    skipped: str | None
    unread: str | None
    notes: list[str]


class AttemptRow(msgspec.Struct, frozen=True):
    """One launch of the job: its times, how it ended, and its first and last iteration."""

    number: int = msgspec.field(name="n")
    t0: float | None
    t1: float | None
    outcome: str
    first: int | None
    last: int | None


class JobRow(msgspec.Struct, frozen=True):
    """What is known of the job. ``nodes`` counts its machines; ``gpus``: of all nodes together,
    None if no evidence tells; ``gpus_from``: stated, ranks or devices; ``layout``: the sizes as
    they are stated; ``said_outcome``: how it ended, as the uploader says; ``switch_of``: the switch
    of each named machine, where a description states it.
    """

    id: str
    name: str
    family: str
    framework: str
    nodes: int
    node_names: list[str]
    world_size: int | None
    gpus_per_node: int | None
    layout: JsonObject | None
    scheduler: str
    said_outcome: str | None
    attempts: list[AttemptRow]
    gpus: int | None = None
    gpus_from: str | None = None
    switch_of: dict[str, str] | UnsetType = UNSET


class HistoryRow(msgspec.Struct, frozen=True):
    """The healthy jobs that this one was compared with."""

    digest: str | None = None
    jobs: int = 0


class LineRow(msgspec.Struct, frozen=True):
    """One line of evidence: its position (``line`` from 1, the others in bytes), writer and time."""

    file: str
    line: int
    offset: int
    length: int
    node: str | None
    rank: int | None
    time: float | None


class EventRow(msgspec.Struct, frozen=True):
    """The lines of one meaning. ``nodes`` of ``of_nodes`` have it; ``jobs_with_it`` of ``healthy_jobs`` too."""

    id: str
    template: str
    role: str
    signature: str | None
    category: str | None
    level: int
    count: int
    nodes: int
    of_nodes: int
    node_names: list[str]
    jobs_with_it: int
    healthy_jobs: int
    first_at: float | None
    last_at: float | None
    is_stamped: bool
    example: str
    recovered: bool
    score: float
    lines: list[LineRow]
    writers: list[LineRow]


class RunnerUp(msgspec.Struct, frozen=True):
    """The second most probable category."""

    id: str
    confidence: float


class NodeScore(msgspec.Struct, frozen=True):
    """A node in the ranking of the logs."""

    node: str
    score: float
    is_suspect: bool = msgspec.field(name="suspect")
    reasons: list[str]


class LinePlace(msgspec.Struct, frozen=True):
    """A line that shows the verdict."""

    file: str
    line: int


class IndicatorRow(msgspec.Struct, frozen=True):
    """The words of a line that state the fault; ``spans``: begin, end and name of each parameter in them."""

    text: str
    file: str
    line: int
    parameters: dict[str, str]
    spans: list[list[int | str]]


class ClueRow(msgspec.Struct, frozen=True):
    """A clue of a detector about an event, a node or a category, with its weight."""

    detector: str
    about: str
    subject: str
    weight: float
    reason: str
    why: str


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
    """One iteration: when it ended, and how long it took. ``odd``: by how many sigmas its lines
    differ from the others.
    """

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


class LogsReport(msgspec.Struct, frozen=True):
    """The ``logs`` object. ``help``: what usually helps where a line states this cause."""

    is_failure: bool
    outcome: str
    category: str
    subcategory: str
    id: str
    confidence: float
    runner_up: RunnerUp | None
    labels: list[str]
    symptom: str
    stage: str | None
    iteration: int | None
    nodes: list[NodeScore]
    answer: str
    events: list[EventRow]
    lines: list[LinePlace]
    indicators: list[IndicatorRow]
    clues: list[ClueRow]
    fingerprint: str
    attempt: int
    advice: Advice | None
    timeline: Timeline
    help: str = ""


class SuspectRow(msgspec.Struct, frozen=True):
    """One entry of the ranking over all evidence; the fields have the meaning of ``Suspect``."""

    entity: str
    kind: str
    score: float
    is_suspect: bool = msgspec.field(name="suspect")
    sources: list[str] = msgspec.field(name="from")
    reasons: list[str]
    ranks: list[int] | UnsetType = UNSET
