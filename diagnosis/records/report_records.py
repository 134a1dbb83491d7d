"""The records of a report that are of no kind of evidence, and those of its ``logs``; docs/report.md lists every field.

Times are seconds since the epoch (UTC), scores, shares and weights in [0, 1].
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from diagnosis.records.advice_records import Advice
from diagnosis.records.result import Attempt, Clue, Indicator, LogEvent, NodeSuspect
from diagnosis.records.timeline_rows import Timeline
from diagnosis.values.json_values import JsonObject


class InputRow(msgspec.Struct, frozen=True):
    """One file. ``skipped``: why it was not used; ``unread``: why nothing was concluded."""

    path: str
    kind: str
    sha256: str
    lines: int
    bytes: int
    skipped: str | None
    unread: str | None
    notes: list[str]


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
    attempts: tuple[Attempt, ...]
    gpus: int | None = None
    gpus_from: str | None = None
    switch_of: dict[str, str] | UnsetType = UNSET


class HistoryRow(msgspec.Struct, frozen=True):
    """The healthy jobs that this one was compared with."""

    digest: str | None = None
    jobs: int = 0


class RunnerUp(msgspec.Struct, frozen=True):
    """The second most probable category."""

    id: str
    confidence: float


class LinePlace(msgspec.Struct, frozen=True):
    """A line that shows the verdict."""

    file: str
    line: int


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
    nodes: list[NodeSuspect]
    answer: str
    events: tuple[LogEvent, ...]
    lines: list[LinePlace]
    indicators: tuple[Indicator, ...]
    clues: tuple[Clue, ...]
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
