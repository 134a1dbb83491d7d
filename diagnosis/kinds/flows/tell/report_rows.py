"""The report's ``flows`` object as records; ``docs/flows.md`` lists every field.

Times are epoch seconds, rates bytes a second, shares and scores in [0, 1]. A field that is left out of the report where
it says nothing is ``UNSET``.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from diagnosis.evidence import SilentMember
from diagnosis.evidence.flow_findings import Contradiction
from diagnosis.kinds.flows.slow.switch_rates import SwitchRate

#: The quality of one artifact, as its reader states it (``parse_flow``), with its path, notes and why it was skipped.
type CaptureRow = dict[str, Any]


class SlowRow(msgspec.Struct, frozen=True):
    """One finding; the fields have the meaning of ``SlowFinding``."""

    kind: str
    t0: float
    t1: float
    reason: str
    factor: float
    confidence: float
    switch: str | UnsetType = UNSET
    candidates: list[str] | UnsetType = UNSET
    link: str | UnsetType = UNSET
    members: list[str] | UnsetType = UNSET
    culprits: list[str] | UnsetType = UNSET
    measure: str | UnsetType = UNSET
    shares: dict[str, float] | UnsetType = UNSET
    step: int | UnsetType = UNSET


class PairRow(msgspec.Struct, frozen=True):
    """Two members that exchange data, and the type of their traffic."""

    a: str
    b: str
    type: str
    records: int


class StepRow(msgspec.Struct, frozen=True):
    """One step."""

    start: float
    end: float
    confidence: float
    is_slow: bool = msgspec.field(name="slow")


class StepSeconds(msgspec.Struct, frozen=True):
    """How long steps take. ``limit``: from which one is slow; ``is_varying``: they are compared for the work that they
    have.
    """

    median: float
    limit: float
    is_varying: bool = msgspec.field(name="varies")


class Pace(msgspec.Struct, frozen=True):
    """By which traffic steps were told apart, and how."""

    traffic: str
    cut: str


class PeerRow(msgspec.Struct, frozen=True):
    """The transfer times of one group against the usual: the median and the worst factor."""

    members: list[str]
    typical: float
    worst: float


class FlowJobRow(msgspec.Struct):
    """One job. ``parallelism``: sizes, None where unknown; ``groups`` of members by dimension; ``how``: sentences on
    how the layout was found; ``ceased``: who fell silent first; ``table``: the file of the timeline; ``stated``: the
    sizes that the job's own words state, ``apart``: where its flows contradict them.
    """

    id: str
    members: list[str]
    names: dict[str, str]
    nodes: list[str]
    parallelism: dict[str, int | None]
    groups: dict[str, list[list[str]]]
    pairs: list[PairRow]
    how: list[str]
    steps: list[StepRow]
    diagnoses: list[SlowRow]
    step_s: StepSeconds | UnsetType = UNSET
    paced_by: Pace | UnsetType = UNSET
    peers: list[PeerRow] | UnsetType = UNSET
    ceased: list[SilentMember] | UnsetType = UNSET
    table: str | UnsetType = UNSET
    stated: dict[str, int] | UnsetType = UNSET
    apart: Contradiction | UnsetType = UNSET


class ClockRow(msgspec.Struct, frozen=True):
    """How far a collector's clock was off, which was corrected; ``is_exact`` False: to some milliseconds only."""

    collector: str
    offset_s: float
    is_exact: bool = msgspec.field(name="exact")


class PortRow(msgspec.Struct, frozen=True):
    """Mean rates of one port; ``idle``: the share of slices without traffic."""

    port: str
    in_bps: int
    out_bps: int
    peak_bps: float
    idle: float


class PortCaptureRow(msgspec.Struct):
    """One artifact of port counters. ``table``: the file with a row a port and slice."""

    t0: float
    t1: float
    slice_s: float
    ports_total: int
    id: str
    path: str
    ports: list[PortRow]
    table: str | UnsetType = UNSET


class FlowSuspectRow(msgspec.Struct):
    """One entry of the ranking; the fields have the meaning of ``Suspect``."""

    entity: str
    kind: str
    score: float
    sources: list[str] = msgspec.field(name="from")
    reasons: list[str]
    is_suspect: bool | UnsetType = msgspec.field(name="suspect", default=UNSET)
    how: str | UnsetType = UNSET


class FlowReport(msgspec.Struct):
    """The whole object. ``background``: the share of records of no job; ``duplicates``: records left out;
    ``limits``: sentences on what these flows cannot show; ``cannot_tell``: why no finding in them does not mean that
    all was well.
    """

    has_timeline: bool = msgspec.field(name="usable_for_timeline", default=False)
    why_not: str | None = None
    cannot_tell: str | UnsetType = UNSET
    captures: list[CaptureRow] = msgspec.field(default_factory=list)
    ports: list[PortCaptureRow] = msgspec.field(default_factory=list)
    background: float | UnsetType = UNSET
    duplicates: int | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET
    clocks: list[ClockRow] | UnsetType = UNSET
    jobs: list[FlowJobRow] = msgspec.field(default_factory=list)
    switches: list[SwitchRate] = msgspec.field(default_factory=list)
    diagnoses: list[SlowRow] = msgspec.field(default_factory=list)
    limits: list[str] = msgspec.field(default_factory=list)
    is_late_unknown: bool = msgspec.field(name="late_unknown", default=False)
    suspects: list[FlowSuspectRow] | UnsetType = msgspec.field(default_factory=list)

    def without_suspects(self) -> FlowReport:
        """The object for a report, which has the suspects of all evidence joined."""
        return msgspec.structs.replace(self, suspects=UNSET)
