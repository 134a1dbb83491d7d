"""One job with the results of all phases."""

from __future__ import annotations

from dataclasses import dataclass

from diagnosis.flows.jobs import JobFlows
from diagnosis.flows.moving import UnevenWork
from diagnosis.flows.pairs import Pairs
from diagnosis.flows.parallelism import Layout
from diagnosis.flows.pipeline_stages import StageTimes
from diagnosis.flows.rank_lanes import LaneRows
from diagnosis.flows.slowness import SlowReport
from diagnosis.flows.steps import Steps
from diagnosis.flows.transfers import RecordsByUnit, Transfers


@dataclass(slots=True)
class JobAnalysis:
    """One job with the results of all phases. ``rough``: its collectors' clocks were corrected only roughly.
    ``moving``: its work is split unevenly, each step otherwise. ``divided``, ``rows``: what others may have begun."""

    job: JobFlows
    pairs: Pairs
    layout: Layout
    steps: Steps | None
    transfers: Transfers | None
    slow: list[SlowReport]
    stages: StageTimes | None = None
    rough: bool = False
    divided: RecordsByUnit | None = None
    rows: LaneRows | None = None
    moving: UnevenWork | None = None
