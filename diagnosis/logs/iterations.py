"""Compares each iteration with the ten before it and finds iterations with other messages (L4, section 3.4).

The lines between two beats of the counter are one iteration's sequence of messages. Two distances to each of the ten
iterations before: dynamic time warping with 0/1 cost over the sequence without repeats (order, new and missing
messages), and a distance of counts (0/1 warping does not see a retry storm, which repeats one message). An iteration is
odd beyond three sigma of its predecessors' distances, with a floor, because a constant history has no spread. The first
ten are not scored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.logs.case import Case
from diagnosis.logs.cells import MOST_LINES

AT: Final = thresholds.of("iterations")


def odd(case: Case) -> list[tuple[int, float]]:
    """Odd iterations among the last ones: (number, how many sigmas), by number. Reads no raw lines; O(last × window ×
    longest × band)."""
    sequences = _sequences(case)
    return scored(sequences)


def scored(sequences: Sequence[tuple[int, tuple[int, ...]]]) -> list[tuple[int, float]]:
    """Odd ones among (iteration, messages in order)."""
    cache: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
    means: list[float] = []
    out = []
    for place, (number, mine) in enumerate(sequences):
        before = [s for _, s in sequences[max(0, place - AT.window) : place]]
        if not before:
            continue
        mean = float(np.mean([_distance(mine, other, cache) for other in before]))
        history = means[-3 * AT.window :]
        if place >= AT.window and len(history) >= AT.window - 1:
            usual, spread = float(np.median(history)), max(float(np.std(history)), AT.floor / AT.sigmas)
            sigmas = (mean - usual) / spread
            if sigmas > AT.sigmas:
                out.append((number, round(sigmas, 2)))
                continue  # an odd iteration is not compared with the next ones
        means.append(mean)
    return out


def _sequences(case: Case) -> list[tuple[int, tuple[int, ...]]]:
    """(iteration, its messages) of the file with most beats."""
    beats = case.progress.beats
    if beats.is_empty():
        return []
    busiest = beats.group_by("file").len().sort("len", "file", descending=[True, False])["file"][0]
    mine = beats.filter(pl.col("file") == busiest).unique("n", keep="first").sort("line").tail(AT.last + AT.window)
    edges = mine.select("n", "line").rows()
    if len(edges) <= AT.window:
        return []
    first, most = edges[0][1] + 1, 50 * AT.longest
    small = case.table.around(int(busiest), first, edges[-1][1]) if edges[-1][1] - first < MOST_LINES else None

    def messages(low: int, high: int) -> list[int]:
        if small is None:
            return case.table.around(int(busiest), low, high)["masked"].to_list()
        return small["masked"].slice(low - first, high + 1 - low).to_list()

    return [(number, tuple(messages(low + 1, min(high, low + most)))) for (_, low), (number, high) in pairwise(edges)]


def _distance(
    one: tuple[int, ...], other: tuple[int, ...], cache: dict[tuple[tuple[int, ...], tuple[int, ...]], float]
) -> float:
    """In [0, 1]: the larger of warping and counting."""
    if one == other:
        return 0.0
    key = (one, other) if one <= other else (other, one)
    if key not in cache:
        cache[key] = max(warped(_once(one), _once(other)), counted(one, other))
    return cache[key]


def _once(sequence: tuple[int, ...]) -> tuple[int, ...]:
    """Without immediate repeats, cut to ``longest``."""
    kept = [m for k, m in enumerate(sequence) if k == 0 or m != sequence[k - 1]]
    return tuple(kept[: AT.longest])


def counted(one: Sequence[int], other: Sequence[int]) -> float:
    """Distance of counts on a log scale, relative to the common part: ten times the same line differs from once."""
    a, b = Counter(one), Counter(other)
    keys = a.keys() | b.keys()
    apart = sum(abs(np.log1p(a[k]) - np.log1p(b[k])) for k in keys)
    total = sum(max(np.log1p(a[k]), np.log1p(b[k])) for k in keys)
    return float(apart / total) if total else 0.0


def warped(one: Sequence[int], other: Sequence[int]) -> float:
    """Banded dynamic time warping with 0/1 cost, by the length of the longer sequence."""
    if not one or not other:
        return float(bool(one) != bool(other))
    band = max(AT.band, abs(len(one) - len(other)))
    far = float(len(one) + len(other))
    previous = [0.0] + [far] * len(other)
    for i, a in enumerate(one, 1):
        current = [far] * (len(other) + 1)
        for j in range(max(1, i - band), min(len(other), i + band) + 1):
            current[j] = (a != other[j - 1]) + min(previous[j], current[j - 1], previous[j - 1])
        previous = current
    return float(min(previous[-1] / max(len(one), len(other)), 1.0))
