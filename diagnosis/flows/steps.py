"""Phase 3b: the steps of a job and of each rank.

The pacing traffic (data parallel where there is any, else pipeline, else everything) gives the job's boundaries; all other records are
then assigned to a step by their start. A boundary is the end of the last pacing record of the step, everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from diagnosis.flows.arrays import components, idle_gaps
from diagnosis.flows.chain import by_bytes
from diagnosis.flows.capture import Bools, Capture, Floats, Flows, Ints
from diagnosis.flows.jobs import JobFlows
from diagnosis.flows.pairs import DP, EP, OTHER, PP, Pairs
from diagnosis.flows.pattern import by_pattern
from diagnosis.flows.segment import Cut, by_gaps, judge, plain_records, volumes

#: A torn first or last part counts as a step when it moved at least this share of a step's bytes.
WHOLE = 0.85


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of one job, in seconds of the capture.

    ``start[k]``/``end[k]``: step k; ``edges``: instants between the steps (len = steps + 1), inside the idle gap, by which any record is
    assigned; ``confidence`` in [0, 1]; ``pace``: the traffic that gave them; ``how``: gaps or pattern.
    """

    start: Floats
    end: Floats
    edges: Floats
    confidence: Floats
    pace: str
    how: str

    def __len__(self) -> int:
        return len(self.end)

    def of(self, moment: Floats) -> Ints:
        """The step number of each moment; -1 before the first and len after the last."""
        return np.searchsorted(self.edges, moment, side="right") - 1

    @property
    def seconds(self) -> Floats:
        """How long each step took, boundary to boundary; NaN where the boundary before it was not seen."""
        lasting = self.end - self.start
        return np.asarray(lasting)


def find_steps(job: JobFlows, pairs: Pairs, capture: Capture) -> Steps | None:
    """The job's steps, or None when its traffic shows no rhythm."""
    index = pairs.index(job.flows, len(capture.names))
    for pace, types in ((DP, (DP,)), (PP, (PP,)), (EP, (EP, OTHER)), ("all", (DP, PP, EP, OTHER))):
        mask = pairs.of(*types)
        if not mask.any() or (pace == "all" and mask.sum() == pairs.of(DP).sum()):
            continue
        traffic = job.flows.take(mask[index])
        cut = _cut(traffic, pairs, mask, capture)
        if cut is not None:
            return _steps(job.flows, traffic, cut, pace, capture)
    return None


def _cut(traffic: Flows, pairs: Pairs, mask: Bools, capture: Capture) -> Cut | None:
    """The cut of all groups together, unless a single group shows a longer rhythm.

    Stages of a pipeline exchange gradients one after another: together they may look like several steps. One group alone cannot; its
    rhythm then tells how many steps there are, and the longest pause of all groups within each of its periods is the boundary.
    """
    together = _best_cut(traffic, capture)
    label = components(pairs.a[mask], pairs.b[mask], len(capture.names))
    owner = label[traffic.src]
    amount = np.bincount(owner, weights=volumes(traffic, capture.has_bytes))
    if (amount > 0).sum() < 2:
        return together
    alone = _best_cut(traffic.take(owner == int(amount.argmax())), capture)
    if alone is None or (together is not None and len(alone.stop) > 0.75 * len(together.stop)):
        return together
    used = plain_records(traffic)
    stops, begins = idle_gaps(used.start, used.end)
    window = np.searchsorted(alone.stop, stops)
    gaps = begins - stops
    order = np.lexsort((-gaps, window))
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.diff(window[order]) != 0
    chosen = np.sort(order[first])
    chosen = chosen[(window[chosen] > 0) & (window[chosen] <= len(alone.stop))]
    joint = judge(used, volumes(used, capture.has_bytes), stops[chosen], begins[chosen], alone.how)
    return joint if joint.believable else alone


def _best_cut(traffic: Flows, capture: Capture) -> Cut | None:
    """The simplest way of cutting that gives even parts; the others are asked only when it leaves odd ones."""
    best: Cut | None = None
    for attempt in (
        lambda: by_gaps(traffic, capture.has_bytes),
        lambda: by_bytes(traffic, capture.has_bytes),
        lambda: by_pattern(traffic, capture.has_bytes, capture.resolution_s),
    ):
        cut = attempt()
        if cut is not None and (best is None or cut.odd < best.odd - 0.03):
            best = cut
        if best is not None and best.odd <= 0.05:
            break
    return best


def _steps(flows: Flows, traffic: Flows, cut: Cut, pace: str, capture: Capture) -> Steps:
    """Boundaries to steps: whole ones only; a torn first or last part is kept when its bytes say that it is whole."""
    volume = volumes(traffic, capture.has_bytes)
    total = np.concatenate([[0.0], np.cumsum(volume)])
    at = np.concatenate([[0], np.searchsorted(traffic.start, cut.begin), [len(traffic)]])
    moved = np.diff(total[at])
    usual = float(np.median(moved[1:-1]))
    between = (cut.stop + cut.begin) / 2
    start = np.concatenate([[float(flows.start[0])], cut.stop])
    end = np.concatenate([cut.stop, [_last_end(traffic, total, int(at[-2]), usual)]])
    edges = np.concatenate([[-1.0], between, [float(flows.end.max()) + 1.0]])
    first = 0 if moved[0] >= WHOLE * usual else 1
    last = len(end) if moved[-1] >= WHOLE * usual else len(end) - 1
    gap = np.concatenate([cut.begin - cut.stop, [np.inf]])
    clear = np.minimum(1.0, gap / max(float(np.median(cut.begin - cut.stop)), 1e-9))
    confidence = np.clip(1.0 - np.abs(moved / usual - 1.0), 0.0, 1.0) * (0.5 + 0.5 * clear)
    return Steps(start[first:last], end[first:last], edges[first : last + 1], confidence[first:last], pace, cut.how)


def _last_end(traffic: Flows, total: Floats, first: int, usual: float) -> float:
    """The end of the last step: when a step's bytes have moved; what follows is the job's farewell (barriers, last checkpoint)."""
    moved = total[first + 1 :] - total[first]
    inside = np.flatnonzero(moved <= 1.02 * usual)
    last = first + (int(inside[-1]) if len(inside) else 0)
    return float(traffic.end[first : last + 1].max())


def rank_ends(flows: Flows, steps: Steps, owner: Ints, owners: int) -> Floats:
    """The end of the last pacing record of each owner (group or rank) in each step: array [steps, owners], NaN where none was seen.

    Records that reach into the next step (merged ones) do not count.
    """
    step = steps.of(flows.start)
    limit = np.append(steps.edges, np.inf)[np.clip(step, -1, len(steps)) + 1]
    usable = (step >= 0) & (step < len(steps)) & (owner >= 0) & (flows.end <= limit)
    table = (
        pl.DataFrame({"cell": step[usable] * owners + owner[usable], "end": flows.end[usable]})
        .group_by("cell")
        .agg(pl.col("end").max())
    )
    out = np.full(len(steps) * owners, np.nan)
    out[table["cell"].to_numpy()] = table["end"].to_numpy()
    return out.reshape(len(steps), owners)
