"""Compares each iteration with the ten before it and finds iterations with other messages (L4, section 3.4).

The lines between two points of the counter are one iteration's messages. Their counts are compared
with those of each of the ten iterations before: new, missing and repeated messages differ. The
order does not count, because several writers share a file. An iteration is odd beyond three sigma
of its predecessors' distances, with a floor, because a constant history has no spread. The first
ten are not scored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.rows.occurrences import MAX_LINES

THRESHOLDS: Final = thresholds.of("iterations")


def odd_iterations(case: Case) -> list[tuple[int, float]]:
    """Odd iterations among the last ones: (number, how many sigmas), by number. Reads no raw lines; O(last × window ×
    longest)."""
    return score_iterations(_counts(case))


def score_iterations(counts: Sequence[tuple[int, Counter[int]]]) -> list[tuple[int, float]]:
    """Odd ones among (iteration, lines of each message)."""
    means: list[float] = []
    out = []
    for place, (number, lines) in enumerate(counts):
        before = [other for _, other in counts[max(0, place - THRESHOLDS.window) : place]]
        if not before:
            continue
        distances = [distance(lines, other) for other in before]
        mean = float(np.mean(distances)) if any(distances) else 0.0
        history = means[-THRESHOLDS.history * THRESHOLDS.window :]
        is_scored = place >= THRESHOLDS.window and len(history) >= THRESHOLDS.window - 1
        if is_scored and mean > min(history):  # one that differs less than all others is not odd
            usual, spread = float(np.median(history)), max(float(np.std(history)), THRESHOLDS.floor / THRESHOLDS.sigmas)
            sigmas = (mean - usual) / spread
            if sigmas > THRESHOLDS.sigmas:
                out.append((number, round(sigmas, 2)))
                continue  # an odd iteration is not compared with the next ones
        means.append(mean)
    return out


def _counts(case: Case) -> list[tuple[int, Counter[int]]]:
    """(iteration, lines of each of its messages) of the file with most points."""
    points = case.progress.points
    if points.is_empty():
        return []
    busiest = points.group_by("file").len().sort("len", "file", descending=[True, False])["file"][0]
    own_points = (
        points.filter(pl.col("file") == busiest)
        .unique("n", keep="first")
        .sort("line")
        .tail(THRESHOLDS.last + THRESHOLDS.window)
    )
    edges = own_points.filter(pl.col("line") + MAX_LINES > pl.col("line").max()).select("n", "line").rows()
    if len(edges) <= THRESHOLDS.window:
        return []
    first = edges[0][1]
    lines = case.table.around(int(busiest), first + 1, edges[-1][1])["masked"]
    return [
        (number, Counter(lines.slice(low - first, min(high - low, THRESHOLDS.longest)).to_list()))
        for (_, low), (number, high) in pairwise(edges)
    ]


def distance(one: Counter[int], other: Counter[int]) -> float:
    """In [0, 1], on a log scale, relative to the common part: ten times the same line differs from once."""
    if one == other:
        return 0.0
    pairs = [(math.log1p(one[key]), math.log1p(other[key])) for key in one.keys() | other.keys()]
    total = sum(map(max, pairs))
    return sum(abs(a - b) for a, b in pairs) / total if total else 0.0
