"""Phase 4, how exact the times of a job's records are: what is shorter than they show accuses nobody.

Two things make times coarse. Stamps lie on a grid. And an exporter joins the transfers of a connection to one record
until its active time-out: then records begin and end with the time-out, not with a transfer. O(n) in records looked at.
"""

from __future__ import annotations

from typing import Final

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Capture, Flows
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.pairs import Pairs
from diagnosis.kinds.flows.slow.slowness import SlowReport
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.values.plain import duration

THRESHOLDS: Final = thresholds.of("exactness")

#: Records whose lengths are looked at, evenly spread.
_MAX_LENGTHS: Final = 1_000_000


def exact_to_s(job: JobFlows, pairs: Pairs, capture: Capture) -> float:
    """The seconds that the times of a job are exact to. O(records)."""
    return max(capture.resolution_s, _cut_after_s(job.flows, len(pairs.a)))


def _cut_after_s(flows: Flows, pairs: int) -> float:
    """The active time-out in seconds by which most records are cut; 0 where records are transfers.

    Many cut records are nearly as long as a usual time-out, hardly any is longer, and they leave few pauses.
    """
    if not len(flows) or not pairs:
        return 0.0
    every = -(-len(flows) // _MAX_LENGTHS)
    end = flows.end[::every]
    length = end - flows.start[::every]
    span = float(end.max()) - float(flows.start[0])
    busy = float(length.mean()) * len(flows) / max(pairs * span, 1e-9)
    if busy < THRESHOLDS.busy:
        return 0.0
    for seconds in THRESHOLDS.timeouts_s:
        is_short, is_longer = length < THRESHOLDS.near * seconds, length > THRESHOLDS.over * seconds
        if is_longer.mean() <= THRESHOLDS.longer and (~is_short & ~is_longer).mean() >= THRESHOLDS.cut_part:
            return float(seconds)
    return 0.0


def drop_unclear(found: list[SlowReport], usual: float, exact_s: float) -> list[SlowReport]:
    """The findings whose lost seconds the records can show. Slow steps stay: they accuse nobody."""
    least = THRESHOLDS.stamps * exact_s
    return [slow for slow in found if slow.kind == "slow_step" or (slow.factor - 1.0) * usual >= least]


def why_unclear(steps: Steps, usual: float, exact_s: float) -> str:
    """A sentence on why the records of a job cannot show whether somebody in it is slow; empty if they can."""
    said = "These flows cannot show whether somebody was slow"
    if len(steps) < THRESHOLDS.steps:
        return f"{said}: {len(steps)} steps are too few to compare."
    if THRESHOLDS.stamps * exact_s > THRESHOLDS.told * usual:
        return f"{said}: their times are exact to {duration(exact_s)}, and a step takes {duration(usual)}."
    return ""
