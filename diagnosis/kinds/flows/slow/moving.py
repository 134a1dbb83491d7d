"""Unequal work that moves between workers: in each step another replica is the last, and no machine
is slow.

Batches of sequences differ in their work (long documents, images beside text), so the replica with
the most of it begins the gradient exchange last, and the others wait for it. A slow machine is last
in step after step; with unequal work each replica is last in some. The lost time of a step is the
wait for its last replica beyond that for the mean of all: with equal shares each would need the
mean. What a replica is always later by is not counted, because that stays. Source: *Understanding
Stragglers in Large Model Training Using What-if Analysis* (arXiv 2505.05713). O(members · steps).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.sparse.linalg import svds

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Bools, Floats
from diagnosis.kinds.flows.capture.packing import packable
from diagnosis.kinds.flows.jobs.group_numbers import group_numbers
from diagnosis.kinds.flows.jobs.parallelism import Layout
from diagnosis.kinds.flows.slow.slow_workers import shared_share
from diagnosis.kinds.flows.slow.slowness import SlowReport, lateness_by_step
from diagnosis.kinds.flows.steps.pipeline_stages import StageTimes
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.transfers import Transfers
from diagnosis.plain import percent

THRESHOLDS: Final = thresholds.of("moving")


@packable
@dataclass(frozen=True, slots=True)
class UnevenWork:
    """The finding over the whole capture, which accuses nobody, and the seconds that each step
    lost.
    """

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
    """The finding by when each replica did something in each step; None if the work is even, or one
    is always last.
    """
    if moments is None or len(moments) < 2:
        return None
    waits = _moving_waits(moments)
    lost = waits.max(axis=0)
    share, number = float(lost.mean()) / usual, layout.dp or len(waits)
    # Halfway from replicas that are late equally often to one that always is.
    if (
        share < THRESHOLDS.lost
        or _strongest_share(waits, lost) > (1 + 1 / number) / 2
        or _rank_correlation(lost, steps.normalised_s) < THRESHOLDS.correlation
    ):
        return None
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
    """Seconds by which each member began its part later than the usual one, of all collectives of a
    step together: [members, steps].
    """
    late = transfers.late
    if late.is_empty():
        return None
    members = np.unique(late["src"].to_numpy())
    return np.asarray(lateness_by_step(late, members, "added", len(steps)))


def _moving_waits(moments: Floats) -> Floats:
    """Seconds by which each was later than the mean one, less what it usually is later: [members,
    steps].
    """
    is_known = ~np.isnan(moments)
    mean = np.nansum(moments, axis=0) / np.maximum(is_known.sum(axis=0), 1)
    waits = np.nan_to_num(moments - mean)
    moving = waits - np.median(waits, axis=1, keepdims=True)
    return np.asarray(np.maximum(moving - moving.mean(axis=0), 0.0))


def _strongest_share(waits: Floats, lost: Floats) -> float:
    """The share of the lost time in the strongest pattern of late replicas (those that are late
    together), by the first singular value. Each step counts with the time that it ``lost``, not
    with its square: by chance, a few long steps belong to one replica. Only that value is computed:
    all of them need members² · steps.
    """
    size = np.linalg.norm(waits, axis=0)
    if lost.sum() <= 0:
        return 1.0
    parts = waits * (np.sqrt(lost) / np.maximum(size, np.finfo(float).tiny))
    first = svds(parts, k=1, v0=np.ones(min(parts.shape)), return_singular_vectors=False)[0]
    return float(first**2 / lost.sum())


def _rank_correlation(one: Floats, other: Floats) -> float:
    """Spearman's rank correlation; 0 if one of them is constant."""
    known = ~np.isnan(other)
    a, b = (np.argsort(np.argsort(x[known])).astype(float) for x in (one, other))
    return float(np.corrcoef(a, b)[0, 1]) if known.sum() > 2 and a.std() > 0 and b.std() > 0 else 0.0
