"""How long the next pause may take, from those before: a save that an evaluation follows at every fifth count is long
there, and at no other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from diagnosis import thresholds

THRESHOLDS: Final = thresholds.of("rhythm")


type Rows = Sequence[Sequence[float]]


def former_pauses(stages: Mapping[str, Any], stage: str) -> list[list[float]]:
    """The former pauses of a stage: rows of the count before, the seconds, and the longest of them without a line."""
    return [row for row in stages.get(stage, ()) if isinstance(row, list)]


def limit_s(known: Rows, n: int | None, interval: int) -> float:
    """How long the pause after the count ``n`` may take."""
    return max_pause_s([row[1] for row in _same_kind(known, n, interval)])


def max_pause_s(likely: Sequence[float]) -> float:
    """How long a pause may take, of which some are known: in logarithms, their mean and so many spreads of a next one.
    A few pauses show little of their spread, so it begins as that of ``THRESHOLDS.prior_pauses``.
    """
    logs = [math.log(max(seconds, 1.0)) for seconds in likely]
    middle, count = sum(logs) / len(logs), len(logs)
    variance = (THRESHOLDS.prior_pauses * THRESHOLDS.prior_spread**2 + sum((x - middle) ** 2 for x in logs)) / (
        THRESHOLDS.prior_pauses + count - 1
    )
    most = math.exp(middle + THRESHOLDS.spreads * math.sqrt(variance * (1 + 1 / count)))
    return float(max(most, THRESHOLDS.longest * max(likely)) + THRESHOLDS.transport_s)


def _same_kind(known: Rows, n: int | None, interval: int) -> Rows:
    """The pauses of the kind that is due after ``n``; all, if the counts do not tell the long ones from the short."""
    ordered = sorted(known, key=lambda row: row[1])
    ratio, place = max(
        ((b[1] / max(a[1], THRESHOLDS.shortest_s), k) for k, (a, b) in enumerate(pairwise(ordered), 1)),
        default=(0.0, 0),
    )
    short, long = ordered[:place], ordered[place:]
    if n is None or ratio < THRESHOLDS.ratio or len(long) < THRESHOLDS.multiples:
        return known
    counts = sorted(int(row[0]) for row in long)
    period = math.gcd(*(b - a for a, b in pairwise(counts)))
    if period < 2 * interval or any(_is_due(row[0], counts[0], period, interval) for row in short):
        return known
    is_multiple = any(_is_due(0, counts[0] + first, period, interval) for first in (0, 1))
    if len(long) < THRESHOLDS.long_pauses and not is_multiple:
        return known
    return long if _is_due(n, counts[0], period, interval) else short


def _is_due(n: float, at: int, period: int, interval: int) -> bool:
    """Whether a pause that comes every ``period`` counts, once at ``at``, comes after ``n``."""
    return abs((n - at + period / 2) % period - period / 2) < interval
