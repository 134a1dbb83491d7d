"""Unequal work that moves between replicas (:mod:`diagnosis.facts.uneven_work`), as flows show it:
who began the gradient exchange last, or whose pipeline ended last. O(members · steps).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from diagnosis import thresholds
from diagnosis.facts.uneven_work import lost_to_moving_work
from diagnosis.kinds.flows.capture.capture import Bools, Floats
from diagnosis.kinds.flows.capture.packing import packable
from diagnosis.kinds.flows.layout.group_numbers import group_numbers
from diagnosis.kinds.flows.layout.parallelism import Layout
from diagnosis.kinds.flows.slow.late.slow_workers import shared_share
from diagnosis.kinds.flows.slow.slowness import SlowReport, lateness_by_step
from diagnosis.kinds.flows.steps.stage_times import StageTimes
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.transfers import Transfers
from diagnosis.values.plain import percent

THRESHOLDS: Final = thresholds.of("moving")


@packable
@dataclass(frozen=True, slots=True)
class UnevenWork:
    """The finding over the whole capture, which accuses nobody, and each step's lost seconds."""

    slow: SlowReport
    lost: Floats

    def explains(self, steps: Steps, usual: float) -> Bools:
        """The steps whose excess is mostly the wait for their last replica."""
        return np.asarray(self.lost >= THRESHOLDS.explained * (steps.normalised_s - usual))


def find_uneven_work(
    transfers: Transfers, stages: StageTimes | None, steps: Steps, layout: Layout, usual: float
) -> UnevenWork | None:
    """Whether the job loses time in most steps, each time to another replica: by who began the
    gradient exchange last, or by which pipeline ended last.
    """
    if len(steps) < THRESHOLDS.steps:
        return None
    found = _uneven(_begins(transfers, steps), "began the gradient exchange", steps, layout, usual)
    if found is None and stages is not None and shared_share(stages) >= THRESHOLDS.shared:
        found = _uneven(stages.ended, "ended its last pass", steps, layout, usual)
    return found


def _uneven(moments: Floats | None, what: str, steps: Steps, layout: Layout, usual: float) -> UnevenWork | None:
    """The finding by when replicas did something; None if even, or if one is always last."""
    if moments is None or len(moments) < 2:
        return None
    number = layout.dp or len(moments)
    lost = lost_to_moving_work(moments, usual, THRESHOLDS.lost, number)
    if lost is None or _rank_correlation(lost, steps.normalised_s) < THRESHOLDS.correlation:
        return None
    share = float(lost.mean()) / usual
    reason = (
        f"In each step another of {number} replicas {what} last; the others waited, "
        f"{percent(share)} of a step on average. The work is split unevenly between them, for example sequences of "
        "different lengths. No machine is at fault for that."
    )
    members = sorted(group_numbers(layout.dp_groups or layout.pp_groups))
    factor = 1.0 / max(1.0 - share, THRESHOLDS.useful)
    slow = SlowReport("slow_group", float(steps.start[0]), float(steps.end[-1]), reason, members, factor=factor)
    slow.measure, slow.confidence = "uneven", THRESHOLDS.sure
    return UnevenWork(slow, lost)


def that_stay(late: list[SlowReport], steps: Steps) -> list[SlowReport]:
    """Of members that are late while the work moves, those that are late in most steps: a slow
    worker stays, and with uneven work one is late in some steps in a row by chance.
    """
    least = THRESHOLDS.stays * (float(steps.end[-1]) - float(steps.start[0]))
    return [slow for slow in late if slow.t1 - slow.t0 >= least]


def _begins(transfers: Transfers, steps: Steps) -> Floats | None:
    """Seconds by which each began later than the usual one in a step: [members, steps]."""
    late = transfers.late
    if late.is_empty():
        return None
    members = np.unique(late["src"].to_numpy())
    return np.asarray(lateness_by_step(late, members, "added", len(steps)))


def _rank_correlation(one: Floats, other: Floats) -> float:
    """Spearman's rank correlation; 0 if one of them is constant."""
    known = ~np.isnan(other)
    a, b = (np.argsort(np.argsort(x[known])).astype(float) for x in (one, other))
    return float(np.corrcoef(a, b)[0, 1]) if known.sum() > 2 and a.std() > 0 and b.std() > 0 else 0.0
