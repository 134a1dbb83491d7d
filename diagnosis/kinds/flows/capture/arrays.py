"""Small vectorised helpers shared by the phases: idle gaps, load, grouping, connected components."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.capture import Bools, Floats, Ints, Ints32


def idle_gaps(start: Floats, end: Floats) -> tuple[Floats, Floats]:
    """The idle intervals between records sorted by start: (end of activity, next start). O(n)."""
    stops, begins = [np.empty(0)], [np.empty(0)]
    until = -np.inf
    for piece in pieces.pieces_of(len(start)):
        busy = np.maximum.accumulate(np.append(until, end[piece]))
        idle = start[piece] > busy[:-1]
        idle[:1] &= until > -np.inf  # no gap precedes the first record
        stops.append(busy[:-1][idle])
        begins.append(start[piece][idle])
        until = busy[-1]
    return np.concatenate(stops), np.concatenate(begins)


def components(a: Ints | Ints32, b: Ints | Ints32, size: int) -> Ints:
    """The component number of each of ``size`` nodes joined by edges a–b."""
    graph = coo_array((np.ones(len(a), dtype=np.int8), (a, b)), shape=(size, size))
    _, label = connected_components(graph, directed=False)
    return np.asarray(label, dtype=np.int64)


def members_of(label: Ints, chosen: Ints | Ints32) -> list[Ints]:
    """The chosen nodes grouped by label, largest group first, then by the smallest node."""
    order = np.argsort(label[chosen], kind="stable")
    sorted_nodes = np.asarray(chosen, dtype=np.int64)[order]
    cuts = np.flatnonzero(np.diff(label[sorted_nodes])) + 1
    groups = np.split(sorted_nodes, cuts)
    return sorted((np.sort(g) for g in groups if len(g)), key=lambda g: (-len(g), int(g[0])))


class Load:
    """The load of many keys: the sum over their ways, for any interval in O(log n).

    A way is busy in the union of its records. All keys share one axis (key k begins at k·span), so that one sorted
    array of slope changes is enough.
    """

    def __init__(self, key: Ints, way: Ints, start: Floats, end: Floats, span: float) -> None:
        self._span = span * 1.01 + 1.0
        order = np.lexsort((start, way))
        key, way, start, end = key[order], way[order], start[order], end[order]
        far = way * self._span
        until = np.maximum.accumulate(far + end)
        fresh = np.ones(len(start), dtype=bool)
        fresh[1:] = (far + start)[1:] > until[:-1]
        first = np.flatnonzero(fresh)
        last = np.append(first[1:], len(start)) - 1
        base = key[first] * self._span
        begin, stop = base + start[first], base + (until - far)[last]
        moment = np.concatenate([begin, stop])
        slope = np.concatenate([np.ones(len(begin)), -np.ones(len(stop))])
        order = np.argsort(moment, kind="stable")
        self._moment = moment[order]
        self._slope = np.cumsum(slope[order])
        areas = np.cumsum(self._slope[:-1] * np.diff(self._moment))
        self._area = np.concatenate([[0.0], areas])[: len(moment)]

    def _until(self, x: Floats) -> Floats:
        i = np.searchsorted(self._moment, x, side="right") - 1
        known = np.maximum(i, 0)
        return np.asarray(np.where(i >= 0, self._area[known] + self._slope[known] * (x - self._moment[known]), 0.0))

    def during(self, key: Ints, start: Floats, end: Floats) -> Floats:
        """The mean number of busy ways of the key in [start, end]."""
        if not len(self._moment) or not len(start):
            return np.zeros(len(start))
        # key by key, so that what is looked up is near what was looked up before: three times as fast
        order = pieces.order_of(key, int(key.max()) + 1)
        begin = key[order] * self._span + start[order]
        length = np.maximum(end - start, 1e-9)[order]
        mean = np.empty(len(start))
        mean[order] = (self._until(begin + length) - self._until(begin)) / length
        return mean


def runs(mask: Bools) -> list[tuple[int, int]]:
    """The runs of True as (first, last), both inclusive."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def close_holes(mask: Bools, most: int = 1) -> Bools:
    """The mask without holes of at most so many places: what is so before and after is so in between."""
    closed = mask.copy()
    for first, last in runs(~mask):
        if first > 0 and last < len(mask) - 1 and last - first < most:
            closed[first : last + 1] = True
    return closed
