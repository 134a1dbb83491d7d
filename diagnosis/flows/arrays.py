"""Small vectorised helpers shared by the phases: idle gaps, activity, grouping, connected components."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from diagnosis.flows.capture import Bools, Floats, Ints, Small


def idle_gaps(start: Floats, end: Floats) -> tuple[Floats, Floats]:
    """The idle intervals between records sorted by start: (when activity stopped, when it began again). O(n)."""
    if len(start) < 2:
        return np.empty(0), np.empty(0)
    busy_until = np.maximum.accumulate(end)[:-1]
    after = start[1:]
    idle = after > busy_until
    return busy_until[idle], after[idle]


def components(a: Ints | Small, b: Ints | Small, size: int) -> Ints:
    """The component number of each of ``size`` nodes joined by edges a–b."""
    graph = coo_array((np.ones(len(a), dtype=np.int8), (a, b)), shape=(size, size))
    _, label = connected_components(graph, directed=False)
    return np.asarray(label, dtype=np.int64)


def members_of(label: Ints, chosen: Ints | Small) -> list[Ints]:
    """The chosen nodes grouped by label, largest group first, then by the smallest node."""
    order = np.argsort(label[chosen], kind="stable")
    sorted_nodes = np.asarray(chosen, dtype=np.int64)[order]
    cuts = np.flatnonzero(np.diff(label[sorted_nodes])) + 1
    groups = np.split(sorted_nodes, cuts)
    return sorted((np.sort(g) for g in groups if len(g)), key=lambda g: (-len(g), int(g[0])))


class Activity:
    """When each of many nodes was busy: the union of its intervals, answered as covered seconds in O(log n).

    The nodes' unions are laid end to end on one axis (node k begins at k·span), so that one sorted array serves all.
    """

    def __init__(self, node: Small | Ints, start: Floats, end: Floats, span: float) -> None:
        self._span = span * 1.01 + 1.0
        base = node.astype(np.float64) * self._span
        begin, stop = base + start, base + end
        order = np.argsort(begin, kind="stable")
        begin, stop = begin[order], stop[order]
        until = np.maximum.accumulate(stop)
        fresh = np.ones(len(begin), dtype=bool)
        fresh[1:] = begin[1:] > until[:-1]
        self._begin = begin[fresh]
        last = np.append(np.flatnonzero(fresh)[1:] - 1, len(begin) - 1) if len(begin) else np.empty(0, dtype=np.int64)
        self._stop = until[last] if len(begin) else np.empty(0)
        self._before = np.concatenate([[0.0], np.cumsum(self._stop - self._begin)])

    def _busy_until(self, x: Floats) -> Floats:
        i = np.searchsorted(self._begin, x, side="right")
        inside = np.where(
            i > 0, np.minimum(x, self._stop[np.maximum(i - 1, 0)]) - self._begin[np.maximum(i - 1, 0)], 0.0
        )
        return np.asarray(self._before[np.maximum(i - 1, 0)] + np.maximum(inside, 0.0))

    def covered(self, node: Small | Ints, start: Floats, end: Floats) -> Floats:
        """Share of [start, end] in which ``node`` was busy, in [0, 1]."""
        if not len(self._begin):
            return np.zeros(len(start))
        base = node.astype(np.float64) * self._span
        length = np.maximum(end - start, 1e-9)
        return np.asarray(
            np.clip((self._busy_until(base + start + length) - self._busy_until(base + start)) / length, 0.0, 1.0)
        )


def robust(values: Floats) -> tuple[float, float]:
    """Median and 1.4826·MAD."""
    if not len(values):
        return 0.0, 0.0
    middle = float(np.median(values))
    return middle, 1.4826 * float(np.median(np.abs(values - middle)))


def runs(mask: Bools) -> list[tuple[int, int]]:
    """The runs of True as (first, last), both inclusive."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]
