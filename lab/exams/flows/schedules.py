"""Pipelines that are no plain 1F1B: zero bubble (ZB-H1) and bidirectional (DualPipe), by a greedy list schedule."""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def greedy(
    seconds: Array, hop: float, micro: int, rng: np.random.Generator, *, dual: bool, jitter: float
) -> tuple[list[tuple[Array, Array]], Array]:
    """Forward and backward ends [stage, 1, micro-batch, replica] of each direction, and when each stage is done
    [stage, replica].

    The backward pass is split: gradients of the input are handed on after one forward time, gradients of the weights
    fill the pauses. With ``dual`` half of the micro-batches enter at either end; the second direction's arrays are
    indexed by rank as well, so that its forward pass runs from the last rank to the first.
    """
    stages, replicas = seconds.shape
    ways = [(1, micro - micro // 2), (-1, micro // 2)] if dual else [(1, micro)]
    out = [(np.full((stages, 1, n, replicas), np.nan), np.full((stages, 1, n, replicas), np.nan)) for _, n in ways]
    done = np.zeros((stages, replicas))
    for r in range(replicas):
        done[:, r] = _one(seconds[:, r], hop, ways, [(f[:, 0, :, r], b[:, 0, :, r]) for f, b in out], rng, jitter)
    return out, done


def _one(
    seconds: Array,
    hop: float,
    ways: list[tuple[int, int]],
    ends: list[tuple[Array, Array]],
    rng: np.random.Generator,
    jitter: float,
) -> Array:
    """Fills the ends of one replica; each rank takes backward before forward before weights, as they become ready."""
    stages = len(seconds)
    ready: list[list[tuple[float, int, int, int]]] = [[] for _ in range(stages)]  # (time, priority, way, micro-batch)
    open_now = np.zeros((stages, len(ways)), dtype=int)
    waiting: list[list[tuple[float, int, int, int]]] = [[] for _ in range(stages)]
    for way, (step, count) in enumerate(ways):
        first = 0 if step > 0 else stages - 1
        ready[first] += [(0.0, 1, way, m) for m in range(count)]
    free = np.zeros(stages)
    events = [(0.0, p) for p in range(stages)]
    left = stages * 3 * sum(n for _, n in ways)
    while left:
        now, p = heapq.heappop(events)
        if now < free[p] - 1e-12:
            continue
        ready[p] += waiting[p]
        waiting[p] = []
        able = [op for op in ready[p] if op[0] <= now + 1e-12]
        allowed = [op for op in able if op[1] != 1 or open_now[p, op[2]] < _most_open(p, ways[op[2]][0], stages)]
        if not allowed:
            later = [op[0] for op in ready[p] if op[0] > now]
            if later:
                heapq.heappush(events, (min(later), p))
            continue
        op = min(allowed, key=lambda o: (o[1], o[3]))
        ready[p].remove(op)
        _, kind, way, m = op
        step = ways[way][0]
        end = now + seconds[p] * rng.normal(1, jitter)
        free[p] = end
        left -= 1
        forward, backward = ends[way]
        last = stages - 1 if step > 0 else 0
        first = stages - 1 - last
        if kind == 1:
            forward[p, m] = end
            open_now[p, way] += 1
            target, what, at = (p, 0, end) if p == last else (p + step, 1, end + hop)
            waiting[target].append((at, what, way, m))
            heapq.heappush(events, (at, target))
        elif kind == 0:
            backward[p, m] = end
            open_now[p, way] -= 1
            waiting[p].append((end, 2, way, m))
            if p != first:
                waiting[p - step].append((end + hop, 0, way, m))
                heapq.heappush(events, (end + hop, p - step))
        heapq.heappush(events, (end, p))
    return free


def _most_open(rank: int, step: int, stages: int) -> int:
    """How many micro-batches a stage may hold: as under 1F1B."""
    return stages - rank if step > 0 else rank + 1
