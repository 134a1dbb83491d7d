"""Phase 3a if communication fills the step: follows the repeating pattern of bursts (ZeRO-3, context parallelism,
pipelines).

Traffic is cut into bursts at short gaps. Each burst has a volume and a distance to the next; one step is the shortest
shift under which that sequence resembles itself (the same idea as an autocorrelation, but with medians, and in the
order of bursts rather than in time, so that a slow step does not blur it). A template of one step is then followed
through the capture, allowing bursts to have merged or split on the way.
"""

from __future__ import annotations

import numpy as np

from diagnosis.kinds.flows.capture.capture import Floats, Flows, Ints
from diagnosis.kinds.flows.steps.segment import Bursts, Cut, bursts_of, judge

#: Number of bursts used to find the period, and the longest period in bursts.
MAX_BURSTS = 6000
MAX_PERIOD = 1500
#: How much the sequence may differ from itself under a shift by one step (median of log volume plus log distance).
MAX_DIFFERENCE = 0.25


def cut_by_pattern(flows: Flows, has_bytes: bool, resolution: float) -> Cut | None:
    """Cuts where the pattern of bursts begins; None if none repeats three times. O(n log n)."""
    used = bursts_of(flows, has_bytes)
    stops, begins = used.gaps
    if len(begins) < 6:
        return None
    best: Cut | None = None
    for length in _burst_gaps(begins - stops, resolution):
        chosen = begins - stops >= length
        cut = _cut(used, stops[chosen], begins[chosen])
        if cut is not None and cut.is_believable and (best is None or cut.odd_share < best.odd_share - 0.01):
            best = cut
    return best


def _burst_gaps(gaps: Floats, resolution: float) -> list[float]:
    """Gap lengths that may separate bursts: where the sorted gaps jump, and the smallest one that the time resolution
    shows.
    """
    least = 2.0 * resolution
    rising = np.sort(gaps[gaps >= least])
    if len(rising) < 6:
        return []
    jump = np.diff(np.log(rising))
    places = np.argsort(-jump)[:6]
    return sorted({float(rising[0])} | {float(rising[i + 1]) for i in places if len(rising) - i > 6})


def _cut(used: Bursts, stops: Floats, begins: Floats) -> Cut | None:
    """One attempt: features, period, phase, tracking."""
    if len(begins) < 9:
        return None
    moved = np.diff(used.before(begins))
    shape = np.stack([np.log(np.maximum(moved, 1.0)), np.log(np.diff(begins))])
    period = _period(shape[:, :MAX_BURSTS])
    if period is None:
        return None
    seed = _most_similar(shape, period)
    template = np.median(np.stack([shape[:, seed + k * period : seed + (k + 1) * period] for k in range(2)]), axis=0)
    anchors = _follow_template(shape, template, seed)
    if len(anchors) < 3:
        return None
    gap = begins - stops
    inside = anchors[anchors + period < len(gap)]
    gaps = np.median(np.stack([gap[inside + c] for c in range(period)]), axis=1)
    sizes = np.median(np.stack([moved[np.minimum(inside + c, len(moved) - 1)] for c in range(period)]), axis=1)
    phase = _phase(gaps, sizes)
    starts = np.unique(np.clip(anchors + phase, 0, len(begins) - 1))
    if phase and anchors[0] + phase - period >= 0:
        starts = np.unique(np.concatenate([[anchors[0] + phase - period], starts]))
    return judge(used, stops[starts], begins[starts], "pattern")


def _period(shape: Floats) -> int | None:
    """The smallest shift that is nearly as good as the best."""
    longest = min(MAX_PERIOD, shape.shape[1] // 3)
    if longest < 2:
        return None
    unlike = np.array([_difference(shape, shift) for shift in range(1, longest + 1)])
    least = float(unlike.min())
    if least > MAX_DIFFERENCE:
        return None
    good = np.flatnonzero(unlike <= least * 1.6 + 0.01) + 1
    return int(good[0])


def _difference(shape: Floats, shift: int) -> float:
    differences = np.abs(shape[:, shift:] - shape[:, :-shift])
    # The mean of the upper half counts as well: a pattern of many equal bursts and a few others resembles itself under
    # any shift.
    return float(np.median(differences, axis=1).sum() + 0.5 * np.minimum(differences, 1.0).mean(axis=1).sum())


def _most_similar(shape: Floats, period: int) -> int:
    """The position where two consecutive periods are most similar."""
    differences = np.minimum(np.abs(shape[:, period:] - shape[:, :-period]), 1.0).sum(axis=0)
    if len(differences) <= period:
        return 0
    window = np.convolve(differences, np.ones(period), mode="valid")
    return int(np.argmin(window))


def _follow_template(shape: Floats, template: Floats, seed: int) -> Ints:
    """Places where the template begins, followed from ``seed`` both ways; each time the best of the nearby offsets is
    taken.
    """
    period = template.shape[1]
    reach = min(4, (period - 1) // 2)  # never so far that the search could stop

    def unlike(at: int) -> float:
        low, high = max(0, -at), min(period, shape.shape[1] - at)
        if high - low < max(1, period // 2):
            return np.inf
        return float(np.minimum(np.abs(shape[:, at + low : at + high] - template[:, low:high]), 1.0).mean())

    found = [seed]
    for direction in (1, -1):
        at = seed
        while True:
            options = [at + direction * period + o for o in sorted(range(-reach, reach + 1), key=abs)]
            costs = [unlike(o) + 0.02 * abs(o - at - direction * period) for o in options]
            best = int(np.argmin(costs))
            if not np.isfinite(costs[best]) or not -period < options[best] < shape.shape[1]:
                break
            at = options[best]
            if at < 0:
                break
            found.append(at)
    return np.unique(np.array(found, dtype=np.int64))


def _phase(gaps: Floats, sizes: Floats) -> int:
    """The burst of the pattern that opens a step: after the longest gap; of similar gaps, where the volume falls
    most.

    The turn from forward to backward may be as long a pause as the step's end, but there the volume rises: backward
    moves gradients too.
    """
    period = len(gaps)
    close = np.flatnonzero(gaps >= 0.85 * gaps.max())
    half = max(1, period // 4)
    fall = [
        float(
            np.take(sizes, range(c - half, c), mode="wrap").sum()
            - np.take(sizes, range(c, c + half), mode="wrap").sum()
        )
        for c in close
    ]
    return int(close[int(np.argmax(fall))])
