"""Whether rings end their collectives together: rings of one group do, rings of different tensor-parallel ranks drift
against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, combinations, product, starmap
from typing import Final

import numpy as np

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Floats, Flows, Ints
from diagnosis.kinds.flows.capture.partitions import partition, run_parts

THRESHOLDS: Final = thresholds.of("lockstep")

#: Transfers of a ring that are compared, and the fewest of a hop.
MAX_TRANSFERS = 6000
MIN_TRANSFERS: Final = 8

#: The ends and the sizes of a sender's transfers.
type Hop = tuple[Floats, Floats]


def ring_scatters(families: list[list[int]], flows: Flows, ring_of: Ints) -> Iterator[Floats]:
    """For each family of rings the scatter of the ends of matching transfers between two of them, divided by the
    scatter within rings. 1 = lockstep.

    Matching is by equal size and nearest time; the scatter is a median absolute deviation, so that clocks may differ
    by a constant.
    """
    parts = []
    for numbers in families:
        first = _first_transfers(numbers, flows, ring_of)
        hops: list[list[Hop]] = []
        for number in numbers:
            own = flows.take(first[number])
            sources = np.unique(own.src)[:4]
            hops.append([(own.end[own.src == s], own.size[own.src == s]) for s in sources])
        parts.append((hops,))
    return run_parts(flows.disk, _scatter, parts)


@partition
def _scatter(hops: list[list[Hop]]) -> Floats:
    """The same for one family: ends and sizes of the first transfers of some senders of each ring.
    O(rings² · transfers · log transfers).
    """
    hops = [[_in_order(hop) for hop in own] for own in hops]
    out = np.ones((len(hops), len(hops)))
    within = _spreads(chain.from_iterable(combinations(own, 2) for own in hops))
    if not within:
        return out
    base = max(_middle(np.array(within)), 1e-7)
    one = float(np.median([_equal_size_share(own[0], own[1]) for own in hops if len(own) > 1] or [1.0]))
    for i, j in combinations(range(len(hops)), 2):
        if one >= THRESHOLDS.min_own_equal_sizes and _are_strangers(hops[i], hops[j], one):
            out[i, j] = out[j, i] = THRESHOLDS.stranger_scatter
        elif between := _spreads(product(hops[i][:2], hops[j][:2])):
            out[i, j] = out[j, i] = _middle(np.array(between)) / base
    return out


def _in_order(hop: Hop) -> Hop:
    end, size = hop
    order = np.argsort(end)
    return end[order], size[order]


def _spreads(pairs: Iterable[tuple[Hop, Hop]]) -> list[float]:
    """The known scatters of some hops against others."""
    return [spread for spread in starmap(_spread, pairs) if spread is not None]


def _are_strangers(some: list[Hop], others: list[Hop], one: float) -> bool:
    """Whether transfers of two rings have equal sizes more seldom than those of a ring (``one``)."""
    if not some or not others:
        return False
    return bool(_equal_size_share(some[0], others[0]) < THRESHOLDS.min_equal_sizes * one)


def _first_transfers(numbers: list[int], flows: Flows, ring_of: Ints) -> dict[int, Ints]:
    """The rows of each ring's first transfers."""
    found = {number: [np.empty(0, np.int64)] for number in numbers}
    left = dict.fromkeys(numbers, MAX_TRANSFERS)
    for piece, part in flows.parts():
        ring = ring_of[part.src]
        for number in [n for n in numbers if left[n]]:
            rows = np.flatnonzero(ring == number)[: left[number]]
            found[number].append(piece.start + rows)
            left[number] -= len(rows)
        if not any(left.values()):
            break
    return {number: np.concatenate(rows) for number, rows in found.items()}


def _nearest(x: Hop, y: Hop) -> Ints:
    """The place in ``y`` of the transfer that ends nearest to each of ``x``."""
    (end, _), (other, _) = x, y
    at = np.clip(np.searchsorted(other, end), 1, len(other) - 1)
    return np.where(np.abs(other[at - 1] - end) <= np.abs(other[at] - end), at - 1, at)


def _equal_size_share(x: Hop, y: Hop) -> float:
    """The share of transfers with the same size as the nearest one of the other ring: data that is compressed in every
    step has one size in all rings of a group, and another in every group.
    """
    if len(x[0]) < MIN_TRANSFERS or len(y[0]) < MIN_TRANSFERS or not np.isfinite(x[1]).all():
        return 1.0
    return float((y[1][_nearest(x, y)] == x[1]).mean())


def _spread(x: Hop, y: Hop) -> float | None:
    """Scatter of the time from x's transfers to y's nearest transfer of the same size."""
    (end, size), (other, sizes) = x, y
    if len(end) < MIN_TRANSFERS or len(other) < MIN_TRANSFERS:
        return None
    near = _nearest(x, y)
    distances = other[near] - end
    if np.isfinite(size).all():
        distances = distances[sizes[near] == size]
    if len(distances) < MIN_TRANSFERS:
        return None
    return _middle(np.abs(distances - _middle(distances)))


def _middle(values: Floats) -> float:
    """The median of finite values: as NumPy's, which takes ten times as long for a few hundred."""
    half = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, half)[half])
    low, high = np.partition(values, (half - 1, half))[half - 1 : half + 1]
    return float((low + high) / 2)


def lockstep_evidence(scatters_of_pairs: Floats, groups: int, together: float) -> float:
    """How much more synchronous rings of one group are than rings of different ones, if they are divided in turn into
    ``groups`` groups; ``together``: the evidence if all of them are synchronous. Only the contrast counts, because the
    absolute scatter depends on the fabric.
    """
    total = len(scatters_of_pairs)
    kind = np.arange(total) % groups
    i, j = np.triu_indices(total, 1)
    distance = np.log(np.maximum(scatters_of_pairs[i, j], 0.05))
    same = kind[i] == kind[j]
    if same.all():
        typical = float(np.median(distance))
        far_off = (typical - np.log(2 * THRESHOLDS.max_group_scatter)) / np.log(2.0)
        return together if typical < np.log(THRESHOLDS.max_group_scatter) else float(-2.0 * np.clip(far_off, 0.0, 1.0))
    if not same.any():
        return 0.0
    near, far = distance[same], distance[~same]
    spread = max(float(np.sqrt((near.var() * len(near) + far.var() * len(far)) / len(distance))), 0.15)
    chance = 0.3 + 1.3 / np.sqrt(len(near))  # few pairs differ from the others by luck
    # rings that differ by less may do so by luck
    most = 6.0 if far.mean() - near.mean() >= THRESHOLDS.min_contrast else 0.0
    return float(np.clip(4.0 * ((far.mean() - near.mean()) / spread - chance), -3.0, most))
