"""Phase 3a if pauses inside a step are as long as those between steps: boundaries that divide the bytes evenly.

If every step moves B bytes, boundaries lie where whole multiples of B have passed. Dynamic programming finds the chain
of idle gaps with the longest pauses and the most even parts between them. B comes from trial cuts: if most parts of a
cut are whole steps, their median is B. It also comes from the places of the pauses on the axis of bytes: they repeat
every step, also if none of them is longer than the others (weights gathered and gradients reduced layer by layer).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Floats, Flows, Ints
from diagnosis.kinds.flows.steps.segment import (
    CERTAIN_UNEVEN,
    Bursts,
    Cut,
    bursts_of,
    is_much_more_even,
    judge,
)
from diagnosis.values.stats import median_and_spread

THRESHOLDS: Final = thresholds.of("chain")

#: Number of gaps that are considered: the longest ones.
MAX_GAPS = 20_000
#: Pauses whose places are compared: the longest ones.
MAX_PLACES = 4096


def cut_by_bytes(flows: Flows, has_bytes: bool, step: float | None = None) -> Cut | None:
    """The most even chain over all plausible byte counts of a step, or for the given one; None if none is plausible.

    Long records may be several merged ones, or transfers that waited. Without them the bytes of a step must be even in
    the first case, and are uneven in the second: the reading that is much more even is right.
    O(gaps · gaps in a step) for each count tried.
    """
    plain = bursts_of(flows, has_bytes)
    cut = _cut_by_bytes(plain, step)
    if plain.records == len(flows) or (cut is not None and cut.uneven_bytes <= CERTAIN_UNEVEN):
        return cut
    every = bursts_of(flows, has_bytes, is_every=True)
    whole = _cut_by_bytes(every, step)
    if cut is None or (whole is not None and is_much_more_even(whole, cut)):
        return whole
    return cut


def _cut_by_bytes(used: Bursts, step: float | None) -> Cut | None:
    stops, begins = used.gaps
    gaps = begins - stops
    if len(gaps) < 4:
        return None
    if len(gaps) > MAX_GAPS:
        long = gaps >= np.sort(gaps)[-MAX_GAPS]
        stops, begins, gaps = stops[long], begins[long], gaps[long]
    total = used.before(begins)
    best: Cut | None = None
    for amount in [step] if step is not None else _candidates(total, gaps):
        if len(chosen := _best_chain(total / amount, gaps, THRESHOLDS.close_tolerance)) < 4:
            continue
        chosen = _settle_gaps(total, gaps, chosen, amount)
        cut = judge(used, stops[chosen], begins[chosen], "bytes")
        better = (
            best is None
            or cut.odd_share < best.odd_share - 0.02
            or (cut.odd_share <= best.odd_share + 0.02 and len(chosen) > len(best.stop))
        )
        if cut.is_believable and cut.uneven_bytes <= THRESHOLDS.max_uneven and better:
            best = cut
    return best


def _settle_gaps(total: Floats, gaps: Floats, chosen: Ints, amount: float) -> Ints:
    """Bytes are often much more even than the first tolerance: then they decide between close gaps, not pauses."""
    scatter = 2.0 * median_and_spread(np.diff(total[chosen]) / amount)[1]
    return (
        _best_chain(total / amount, gaps, max(scatter, THRESHOLDS.finest_tolerance))
        if scatter < THRESHOLDS.close_tolerance / 2
        else chosen
    )


def _candidates(total: Floats, gaps: Floats) -> list[float]:
    """Possible byte counts of a step: medians over cuts at the k longest gaps, k growing by a tenth."""
    order = np.argsort(-gaps)
    found: list[float] = []
    k = 6
    while k <= len(gaps):
        part = np.diff(total[np.sort(order[:k])])
        middle = float(np.median(part))
        similar_share = float((np.abs(part / middle - 1) < 0.1).mean()) if middle > 0 else 0.0
        if similar_share >= 0.35 and not any(abs(middle / f - 1) < 0.03 for f in found):
            found.append(middle)
        k = max(k + 1, int(k * 1.1))
    return [*found[:12], *_repeating_shift(total, gaps)]


def _repeating_shift(total: Floats, gaps: Floats) -> list[float]:
    """The shift in bytes under which the places of the pauses repeat, if there is one.

    O(MAX_PLACES · ``places_after``).
    """
    long = np.sort(np.argsort(-gaps, kind="stable")[:MAX_PLACES])
    place = total[long]
    shifts = [place[k:] - place[:-k] for k in range(1, min(THRESHOLDS.places_after, len(place) - 1) + 1)]
    shift = np.concatenate(shifts) if shifts else np.empty(0)
    shift = shift[shift > 0]
    if not len(shift):
        return []
    code = np.floor(np.log(shift) / THRESHOLDS.place_tolerance).astype(np.int64)
    code -= code.min()
    count = np.bincount(code)
    both = count + np.append(count[1:], 0)  # a shift on the border of two classes is in either
    # By chance a place has as many others at this shift as lie on so many bytes.
    chance = (
        2.0
        * THRESHOLDS.place_tolerance
        * np.exp(THRESHOLDS.place_tolerance * np.arange(len(both)))
        * float(shift.min())
        / (total[-1] - total[0])
    )
    joined = both / len(place) - chance * len(place)
    if joined.max() < THRESHOLDS.min_joined_share:
        return []
    at = int(np.flatnonzero(joined >= THRESHOLDS.nearly_best_share * joined.max())[0])
    return [float(np.median(shift[(code == at) | (code == at + 1)]))]


def _best_chain(edge: Floats, gaps: Floats, scatter: float) -> Ints:
    """The best chain of gaps; ``edge`` is each gap's position in steps of bytes. A chain may be broken at a cost and
    continue elsewhere.
    """
    count = max(3, round(float(edge[-1] - edge[0])))
    # The capture may begin and end inside a step, so there may be fewer pauses between steps than steps.
    surely_between = max(1, int(THRESHOLDS.sure_share * min(count, len(gaps))))
    usual = float(np.sort(gaps)[::-1][surely_between - 1])
    gain = np.minimum(gaps / max(usual, 1e-9), 1.0)
    score = gain.copy()
    before = np.full(len(gaps), -1, dtype=np.int64)
    leader, lead = -1, -np.inf
    waiting = 0
    for j in range(1, len(gaps)):
        first = int(np.searchsorted(edge, edge[j] - 1 - THRESHOLDS.bytes_tolerance))
        last = int(np.searchsorted(edge, edge[j] - 1 + THRESHOLDS.bytes_tolerance, side="right"))
        while waiting < first:
            if score[waiting] > lead:
                lead, leader = float(score[waiting]), waiting
            waiting += 1
        if last > first:
            part = edge[j] - edge[first:last]
            reached = score[first:last] - np.minimum(((part - 1) / scatter) ** 2 * 0.1, 2.0)
            k = int(np.argmax(reached))
            if reached[k] > 0:
                score[j] = gain[j] + reached[k]
                before[j] = first + k
        if leader >= 0 and gain[j] + lead - THRESHOLDS.break_cost > score[j]:
            score[j] = gain[j] + lead - THRESHOLDS.break_cost
            before[j] = leader
    at = int(np.argmax(score))
    found = []
    while at >= 0:
        found.append(at)
        at = int(before[at])
    return np.array(found[::-1], dtype=np.int64)
