"""One job with the results of all phases."""

from __future__ import annotations

from dataclasses import dataclass

from diagnosis.flows.jobs import JobFlows
from diagnosis.flows.moving import Moving
from diagnosis.flows.pairs import Pairs
from diagnosis.flows.parallelism import Layout
from diagnosis.flows.pipeline_stages import StageTimes
from diagnosis.flows.rank_lanes import Rows
from diagnosis.flows.slowness import Slow
from diagnosis.flows.steps import Steps
from diagnosis.flows.transfers import Divided, Transfers


@dataclass(slots=True)
class Analysed:
    """One job with the results of all phases. ``rough``: its collectors' clocks were corrected only roughly.
    ``moving``: its work is split unevenly, each step otherwise. ``divided``, ``rows``: what others may have begun."""

    job: JobFlows
    pairs: Pairs
    layout: Layout
    steps: Steps | None
    transfers: Transfers | None
    slow: list[Slow]
    stages: StageTimes | None = None
    rough: bool = False
    divided: Divided | None = None
    rows: Rows | None = None
    moving: Moving | None = None
