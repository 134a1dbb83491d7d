"""In-network reduction: every member exchanges gradients with a point in the fabric, not with the others.

Points are shared: the groups of several pipeline stages may use one, and then look like one group. The members of one
group send together; those of another stage send at another time.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from diagnosis.kinds.flows.capture.capture import Flows, Ints
from diagnosis.kinds.flows.layout.group_numbers import group_numbers

#: Number of transfers of one member that are compared.
MAX_TRANSFERS = 400


def split_stars(rings: list[Ints], members: Ints, chains: list[Ints], flows: Flows) -> list[Ints]:
    """The rings, with a star's members divided by the time they send, into as many groups as members of one star share
    a pipeline of ``chains``; without the points themselves. ``flows``: the collectives' records.

    O(members² / groups) comparisons in such a star, each of ``MAX_TRANSFERS`` transfers.
    """
    chain = group_numbers(chains)
    out: list[Ints] = []
    for ring in rings:
        own = np.intersect1d(ring, members)
        met = Counter(chain[m] for m in own.tolist() if m in chain)
        parts = max(met.values(), default=1)
        if len(own) == len(ring) or parts < 2 or len(own) % parts:
            out.append(ring)
            continue
        ends = {m: np.sort(flows.end[flows.src == m])[:MAX_TRANSFERS] for m in own.tolist()}
        left = own.tolist()
        while left:
            distances = [_time_apart(ends[left[0]], ends[m]) for m in left]
            near = [left[i] for i in np.argsort(distances, kind="stable")[: len(own) // parts]]
            out.append(np.sort(np.array(near, dtype=np.int64)))
            left = [m for m in left if m not in near]
    return sorted(out, key=lambda g: (-len(g), int(g[0])))


def _time_apart(x: np.ndarray, y: np.ndarray) -> float:
    """Seconds from a transfer of one member to the nearest of another, typically."""
    if not len(x) or len(y) < 2:
        return np.inf if len(x) or len(y) else 0.0
    at = np.clip(np.searchsorted(y, x), 1, len(y) - 1)
    return float(np.median(np.minimum(np.abs(y[at - 1] - x), np.abs(y[at] - x))))
