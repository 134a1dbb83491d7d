"""Phase 3b: the steps of a job and of each rank.

The pacing traffic (data parallel where there is any, else pipeline, else everything) gives the
job's boundaries; all other records are then assigned to a step by their start. A boundary is always
the end of the last pacing record of the step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeGuard

import numpy as np

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Capture, Floats, Flows, Ints
from diagnosis.kinds.flows.capture.packing import packable
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.pairs import DP, EP, OTHER, PP, Pairs, clocks_disagree
from diagnosis.kinds.flows.layout.grid import find_rare_pairs
from diagnosis.kinds.flows.steps.chain import cut_by_bytes
from diagnosis.kinds.flows.steps.pattern import cut_by_pattern
from diagnosis.kinds.flows.steps.segment import (
    MIN_BOUNDARIES,
    Cut,
    bursts_of,
    cut_by_gaps,
    judge,
    moved_before,
)

THRESHOLDS: Final = thresholds.of("steps")


@packable
@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of one job, in seconds of the capture.

    ``start[k]``/``end[k]``: step k; ``edges``: instants between the steps (len = steps + 1), inside
    the idle gap, which assign any record to a step; ``confidence`` in [0, 1]; ``pace``: their
    traffic; ``how``: gaps or pattern; ``work``: the expected time of each step as a multiple of the
    usual, if its sequence length varies.
    """

    start: Floats
    end: Floats
    edges: Floats
    confidence: Floats
    pace: str
    how: str
    work: Floats | None = None
    #: steps before which a planned pause was taken out of them
    planned: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.end)

    def of(self, moment: Floats) -> Ints:
        """The step number of each moment; -1 before the first and len after the last."""
        return np.searchsorted(self.edges, moment, side="right") - 1

    @property
    def seconds(self) -> Floats:
        """The duration of each step, boundary to boundary; NaN if the boundary before it is not in
        the capture.
        """
        lasting = self.end - self.start
        return np.asarray(lasting)

    @property
    def normalised_s(self) -> Floats:
        """The seconds of each step with the usual amount of work, by which slowness is judged."""
        return self.seconds if self.work is None else np.asarray(self.seconds / self.work)


def find_steps(job: JobFlows, pairs: Pairs, capture: Capture) -> Steps | None:
    """The job's steps, or None if its traffic has no rhythm. O(n log n) in records."""
    for pace, types in ((DP, (DP,)), (PP, (PP,)), (EP, (EP, OTHER)), ("all", (DP, PP, EP, OTHER))):
        mask = pairs.of(*types)
        if not mask.any() or (pace == "all" and mask.sum() == pairs.of(DP).sum()):
            continue
        traffic = pairs.carried(job.flows, len(capture.names), *types)
        if not len(traffic):  # all that these pairs exchange is of the experts' sizes
            continue
        cut = _find_cut(traffic, pairs, capture)
        slower = _rare_traffic(traffic, pairs, capture)
        finer = None if slower is None else _best_cut(slower, capture)
        if slower is not None and finer is not None and _is_finer(finer, cut):
            traffic, cut = slower, finer
        if cut is not None:
            return _whole_steps_of(job.flows, traffic, cut, pace, capture)
    return None


def _rare_traffic(traffic: Flows, pairs: Pairs, capture: Capture) -> Flows | None:
    """The traffic of the pairs that exchange far less often than the others, if there are both."""
    rare = find_rare_pairs(traffic, pairs, len(capture.names))
    if rare is None:
        return None
    return traffic.take(rare[pairs.index(traffic, len(capture.names))])


def _is_finer(finer: Cut, cut: Cut | None) -> bool:
    """Whether the cut of rare traffic shows steps that the cut of all joins or misses."""
    if (
        finer.odd_share > THRESHOLDS.max_odd
        or finer.uneven_bytes > THRESHOLDS.max_few_uneven
        or len(finer.stop) < MIN_BOUNDARIES
    ):
        return False
    return cut is None or len(finer.stop) > THRESHOLDS.min_finer_ratio * len(cut.stop)


def _find_cut(traffic: Flows, pairs: Pairs, capture: Capture) -> Cut | None:
    """The cut of all groups together; of one sender if clocks disagree or none is found."""
    together = None if clocks_disagree(pairs) else _best_cut(traffic, capture)
    return together or _best_cut(_busiest_sender(traffic), capture)


def _busiest_sender(traffic: Flows) -> Flows:
    """The transfers of one sender: they have one clock even if the collectors' clocks disagree."""
    sent = np.zeros(int(traffic.src.max()) + 1, np.int64)
    for _, part in traffic.parts():
        sent += np.bincount(part.src, minlength=len(sent))
    return traffic.take(traffic.src == sent.argmax())


def _part_volumes(flows: Flows, cut: Cut, capture: Capture) -> Floats:
    """The volume of each part between two boundaries."""
    return np.diff(moved_before(flows, cut.begin, capture.has_bytes))


def _best_cut(traffic: Flows, capture: Capture) -> Cut | None:
    """Long pauses decide, if there are enough. Otherwise the chain of even bytes or the pattern of
    bursts: of those without odd parts and with about the best evenness, the finer one, because
    pairs of steps look even too.
    """
    plain = cut_by_gaps(traffic, capture.has_bytes)
    if _is_clean(plain) and len(plain.stop) >= THRESHOLDS.enough_boundaries:
        return plain
    even = cut_by_bytes(traffic, capture.has_bytes)
    regular = _regular_cut(plain, even) if _is_clean(plain) else None
    if regular is not None:
        return regular
    layered = None if even is None or _is_clean(even) else _cut_at_layers(traffic, even, capture)
    if layered is not None:
        return layered
    pattern = cut_by_pattern(traffic, capture.has_bytes, capture.resolution_s)
    # The pattern is the shortest possible; if bytes give more parts, these are similar layers of one step.
    if even is not None and _is_clean(pattern) and len(even.stop) > 2.5 * len(pattern.stop):
        even = None
    found = [cut for cut in (plain, even, pattern) if cut is not None]
    clean = list(filter(_is_clean, found))
    best = _finest_cut(clean) if clean else min(found, key=lambda cut: cut.odd_share, default=None)
    return None if best is None else _without_hidden_steps(traffic, best, capture)


def _is_clean(cut: Cut | None) -> TypeGuard[Cut]:
    """Whether there is a cut, and few of its parts are odd."""
    return cut is not None and cut.odd_share <= THRESHOLDS.max_odd


def _regular_cut(plain: Cut, even: Cut | None) -> Cut | None:
    """The cut at long pauses, if these are not too few; regular pauses between groups of steps
    divide the bytes evenly as well: then the chain of even bytes, which shows each step.
    """
    if len(plain.stop) < MIN_BOUNDARIES and plain.uneven_bytes > THRESHOLDS.max_few_uneven:
        return None
    if not _is_clean(even) or len(even.stop) < THRESHOLDS.min_steps_between * len(plain.stop):
        return plain
    return even if _is_as_even(even, plain) else plain


def _without_hidden_steps(traffic: Flows, best: Cut, capture: Capture) -> Cut:
    """The cut with the boundaries that a stretch hides whose part moves several steps' bytes."""
    moved = _part_volumes(traffic, best, capture)
    if not len(moved) or moved.max() <= 1.7 * np.median(moved):
        return best
    whole = cut_by_bytes(traffic, capture.has_bytes, float(np.median(moved)))
    is_better = whole is not None and len(whole.stop) > len(best.stop) and whole.odd_share <= best.odd_share
    return whole if whole is not None and is_better else best


def _is_as_even(finer: Cut, few: Cut) -> bool:
    """Whether the bytes of a finer cut leave no chance, or no more than those of a few parts: lost
    records make each step uneven, and parts of several steps less so.
    """
    if finer.uneven_bytes <= THRESHOLDS.exact_uneven:
        return True
    is_alike = finer.uneven_bytes / len(finer.stop) <= few.uneven_bytes / len(few.stop)
    return len(few.stop) < MIN_BOUNDARIES and is_alike


def _cut_at_layers(traffic: Flows, cut: Cut, capture: Capture) -> Cut | None:
    """The cut at the ends of steps, if the parts of ``cut`` are layers: one of every so many moves
    other bytes, because a step ends in it, at its longest pause. None if these do not recur at one
    distance, or the steps are uneven.
    """
    moved = _part_volumes(traffic, cut, capture)
    other = np.flatnonzero(np.abs(moved / np.median(moved) - 1.0) > THRESHOLDS.min_layer_difference)
    distances = np.diff(other)
    if (
        len(other) < MIN_BOUNDARIES
        or distances.min() < THRESHOLDS.min_steps_between
        or distances.max() > distances.min()
    ):
        return None
    used = bursts_of(traffic, capture.has_bytes)
    stops, begins = used.gaps
    spans = np.searchsorted(begins, np.stack([cut.begin[other], cut.begin[other + 1]], axis=1), side="right")
    inside = [np.arange(first, max(first + 1, last - 1)) for first, last in spans.tolist()]
    chosen = np.array([rows[np.argmax((begins - stops)[rows])] for rows in inside])
    whole = judge(used, stops[chosen], begins[chosen], cut.how)
    return whole if whole.odd_share <= THRESHOLDS.max_odd and whole.uneven_bytes <= THRESHOLDS.exact_uneven else None


def _finest_cut(cuts: list[Cut]) -> Cut:
    """The finest of the cuts that are as even as the most even one. Parts of n steps scatter up to
    n times less than steps, because errors of boundaries cancel between neighbours. If bytes agree
    exactly, no chance is left. One with fewer than twice the parts divides no part of the other: of
    such, the more even one.
    """
    scatter = [cut.uneven_bytes / len(cut.stop) for cut in cuts]
    even = [
        cut
        for cut, own in zip(cuts, scatter, strict=True)
        if cut.uneven_bytes <= THRESHOLDS.exact_uneven or own <= THRESHOLDS.even_ratio * min(scatter)
    ]
    finest = max(even, key=lambda cut: len(cut.stop))
    similar = [cut for cut in even if THRESHOLDS.min_finer_ratio * len(cut.stop) > len(finest.stop)]
    return min(similar, key=lambda cut: (cut.uneven_bytes, -len(cut.stop)))


def _whole_steps_of(flows: Flows, traffic: Flows, cut: Cut, pace: str, capture: Capture) -> Steps:
    """Makes whole steps; a first or last part is kept if its bytes show that it is whole."""
    moved = np.diff(moved_before(traffic, np.concatenate([[-np.inf], cut.begin, [np.inf]]), capture.has_bytes))
    usual = float(np.median(moved[1:-1]))
    # Directly after the boundary: the next step's other traffic begins long before its pacing traffic.
    between = cut.stop + THRESHOLDS.edge_share * (cut.begin - cut.stop)
    pause = float(np.median(cut.begin - cut.stop))
    start = np.concatenate([[float(flows.start[0])], cut.stop])
    end = np.concatenate([cut.stop, [_last_end(traffic, float(cut.begin[-1]), usual, pause, capture.has_bytes)]])
    usual_s = float(np.median(np.diff(cut.stop)))
    edges = np.concatenate([[-1.0], between, [float(flows.end.max()) + 1.0]])
    # Setting up moves as much in far less time: nobody computes before the first weights are sent.
    at_once = cut.stop[0] - traffic.start[0] < THRESHOLDS.min_first_time_share * float(
        np.quantile(cut.stop[1:] - cut.begin[:-1], 0.05)
    )
    first = 0 if moved[0] >= THRESHOLDS.min_whole_share * usual and not at_once else 1
    last = len(end) if moved[-1] >= THRESHOLDS.min_whole_share * usual else len(end) - 1
    if first == 0 or moved[0] < THRESHOLDS.min_first_share * usual:
        # The begin of the first step is unknown: traffic earlier than a usual step is set-up.
        start[first] = max(float(start[first]), float(end[first]) - usual_s)
    gap = np.concatenate([cut.begin - cut.stop, [np.inf]])
    clear = np.minimum(1.0, gap / max(float(np.median(cut.begin - cut.stop)), 1e-9))
    confidence = np.clip(1.0 - np.abs(moved / usual - 1.0), 0.0, 1.0) * (0.5 + 0.5 * clear)
    return Steps(start[first:last], end[first:last], edges[first : last + 1], confidence[first:last], pace, cut.how)


def _last_end(traffic: Flows, begin: float, usual: float, pause: float, has_bytes: bool) -> float:
    """The end of the last step: before the first long pause after most of a step's bytes. Later
    traffic is the end of the job (barriers, the last checkpoint).
    """
    tail = bursts_of(traffic, has_bytes, begin)
    if not len(tail.start):
        return float(traffic.end.max())
    stops, begins = tail.gaps
    over = np.flatnonzero((begins - stops >= 0.5 * pause) & (tail.before(begins) >= 0.8 * usual))
    return float(stops[over[0]]) if len(over) else float(tail.stop[-1])
