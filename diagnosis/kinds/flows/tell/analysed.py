"""One job with the results of all phases."""

from __future__ import annotations

from dataclasses import dataclass, field

from diagnosis.kinds.flows.capture.capture import Offset
from diagnosis.kinds.flows.capture.packing import packable
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.pairs import Pairs
from diagnosis.kinds.flows.layout.parallelism import Layout
from diagnosis.kinds.flows.slow.late.moving import UnevenWork
from diagnosis.kinds.flows.slow.slowness import SlowReport
from diagnosis.kinds.flows.slow.stragglers import StragglerResult
from diagnosis.kinds.flows.steps.rank_lanes import LaneRows
from diagnosis.kinds.flows.steps.stage_times import StageTimes
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.transfers import RecordsByUnit, Transfers


@packable
@dataclass(slots=True)
class JobAnalysis:
    """One job with the results of all phases. ``exact_s``: the seconds that its records' times are exact to. ``rough``:
    its collectors' clocks were corrected only roughly. ``moving``: its work is split unevenly, each step otherwise.
    ``stragglers``: None if nobody looked for them. ``offsets``, ``notes``: of its collectors' clocks, and what was left
    out. ``divided``, ``rows``: what others may have begun.
    """

    job: JobFlows
    pairs: Pairs
    layout: Layout
    steps: Steps | None
    transfers: Transfers | None
    slow: list[SlowReport]
    exact_s: float
    stages: StageTimes | None = None
    rough: bool = False
    divided: RecordsByUnit | None = None
    rows: LaneRows | None = None
    moving: UnevenWork | None = None
    stragglers: StragglerResult | None = None
    offsets: list[Offset] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
