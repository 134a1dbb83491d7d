"""How long the next pause may take, from those before: a save that an evaluation follows at every fifth count is long
there, and at no other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

#: Seconds for transport and reading.
TRANSPORT_S: Final = 4.0
#: The spread of pauses of one kind, in logarithms, before they show it, as if so many were known; how many spreads, and
#: how many times the longest one, the next may take.
PRIOR_SPREAD, PRIOR_PAUSES = 0.19, 4
NEXT_SPREADS: Final = 3.0
LONGEST_FACTOR: Final = 1.2
#: Pauses of one kind differ by less from the next longer one.
MIN_KIND_RATIO: Final = 1.5
#: Long pauses that show at which counts they come: so many, or fewer if they come at multiples of their distance.
MIN_LONG_PAUSES, MIN_LONG_MULTIPLES = 3, 2

type Rows = Sequence[Sequence[float]]


def former_pauses(stages: Mapping[str, Any], stage: str) -> list[list[float]]:
    """The former pauses of a stage: rows of the count before, the seconds, and the longest of them without a line."""
    return [row for row in stages.get(stage, ()) if isinstance(row, list)]


def limit_s(known: Rows, n: int | None, interval: int) -> float:
    """How long the pause after the count ``n`` may take."""
    return max_pause_s([row[1] for row in _same_kind(known, n, interval)])


def max_pause_s(likely: Sequence[float]) -> float:
    """How long a pause may take, of which some are known: in logarithms, their mean and so many spreads of a next one.
    A few pauses show little of their spread, so it begins as that of :data:`PRIOR_PAUSES` pauses.
    """
    logs = [math.log(max(seconds, 1.0)) for seconds in likely]
    middle, count = sum(logs) / len(logs), len(logs)
    variance = (PRIOR_PAUSES * PRIOR_SPREAD**2 + sum((x - middle) ** 2 for x in logs)) / (PRIOR_PAUSES + count - 1)
    most = math.exp(middle + NEXT_SPREADS * math.sqrt(variance * (1 + 1 / count)))
    return max(most, LONGEST_FACTOR * max(likely)) + TRANSPORT_S


def _same_kind(known: Rows, n: int | None, interval: int) -> Rows:
    """The pauses of the kind that is due after ``n``; all, if the counts do not tell the long ones from the short."""
    ordered = sorted(known, key=lambda row: row[1])
    ratio, place = max(((b[1] / max(a[1], 0.1), k) for k, (a, b) in enumerate(pairwise(ordered), 1)), default=(0.0, 0))
    short, long = ordered[:place], ordered[place:]
    if n is None or ratio < MIN_KIND_RATIO or len(long) < MIN_LONG_MULTIPLES:
        return known
    counts = sorted(int(row[0]) for row in long)
    period = math.gcd(*(b - a for a, b in pairwise(counts)))
    if period < 2 * interval or any(_is_due(row[0], counts[0], period, interval) for row in short):
        return known
    is_multiple = any(_is_due(0, counts[0] + first, period, interval) for first in (0, 1))
    if len(long) < MIN_LONG_PAUSES and not is_multiple:
        return known
    return long if _is_due(n, counts[0], period, interval) else short


def _is_due(n: float, at: int, period: int, interval: int) -> bool:
    """Whether a pause that comes every ``period`` counts, once at ``at``, comes after ``n``."""
    return abs((n - at + period / 2) % period - period / 2) < interval
