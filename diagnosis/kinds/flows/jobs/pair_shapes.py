"""Shapes that the pairs of a job form together: all-to-alls, and pairs across a ring of gradients. O(pairs), an
all-to-all O(members³).
"""

from __future__ import annotations

import numpy as np

from diagnosis.kinds.flows.capture.arrays import components, members_of
from diagnosis.kinds.flows.capture.capture import Bools, Floats, Ints
from diagnosis.kinds.flows.jobs.sizes import Sizes

#: No all-to-all joins more members over the network.
MAX_CLIQUE = 1024


def find_chords(a: Ints, b: Ints, bucketed: Bools, sizes: Sizes, count: int) -> Bools:
    """Pairs across a ring of gradients that carry one size only, and none of the ring's own: one that its neighbours
    exchange in addition to their gradients (the way back of a smaller ring, as in context parallelism).
    """
    if not (bucketed.any() and sizes.guest.any()):
        return np.zeros(len(a), dtype=bool)
    label = components(a[bucketed], b[bucketed], count)
    degree = np.bincount(a[bucketed], minlength=count) + np.bincount(b[bucketed], minlength=count)
    whole = (degree[a] >= 2) & (degree[b] >= 2)  # else it is the ring's own missing hop
    return np.asarray(sizes.guest & ~bucketed & (sizes.covered >= 0.5) & (label[a] == label[b]) & whole)


def in_clique(a: Ints, b: Ints, chosen: Bools, count: int) -> Bools:
    """Pairs whose component (of the chosen ones) is an all-to-all: all with all, or with all outside their own machine,
    because traffic inside a machine is not visible. Then members that never exchange have the same peers.
    """
    if not chosen.any():
        return chosen
    label = components(a[chosen], b[chosen], count)
    found = np.zeros(len(chosen), dtype=bool)
    inside = label[a] == label[b]
    for group in members_of(label, np.unique(np.concatenate([a[chosen], b[chosen]]))):
        if not 4 <= len(group) <= MAX_CLIQUE:
            continue
        own = chosen & inside & (label[a] == label[group[0]])
        adjacent = np.zeros((len(group), len(group)), dtype=np.int64)
        x, y = np.searchsorted(group, a[own]), np.searchsorted(group, b[own])
        adjacent[x, y] = adjacent[y, x] = 1
        common = adjacent @ adjacent
        degree = adjacent.sum(axis=1)
        either = degree[:, None] + degree[None, :] - common
        strange = (adjacent == 0) & ~np.eye(len(group), dtype=bool)
        common_share = (common[strange] >= 0.7 * either[strange]).mean() if strange.any() else 1.0
        complete = adjacent.sum() >= 0.7 * len(group) * (len(group) - 1)
        found |= own if complete or (common_share >= 0.8 and np.median(degree) >= 2) else False
    return found


def rarely_sent(times: Ints | Floats, mutual: Floats, gradients: Bools) -> Bools:
    """Whether what each pair sends so many ``times`` (its rarest size, or all) is sent no more often
    than a bucket by the pairs that exchange ``gradients``. Of a pair that sends both ways, both
    members send each bucket. O(pairs).
    """
    each_way = times / np.where(mutual >= 0.5, 2.0, 1.0)
    usual = float(np.median(each_way[gradients])) if gradients.any() else np.inf
    return np.asarray(each_way <= 1.5 * usual)
