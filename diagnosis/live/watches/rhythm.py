"""How long the next pause may take, from those before: a save that an evaluation follows at every
fifth count is long there, and at no other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from diagnosis import thresholds
from diagnosis.live.watches.pause_history import PauseRow

THRESHOLDS: Final = thresholds.of("rhythm")

type Pauses = Sequence[PauseRow]


def limit_s(known: Pauses, iteration: int | None, interval: int) -> float:
    """How long the pause after the count ``iteration`` may take."""
    return max_pause_s([pause.seconds for pause in _same_kind(known, iteration, interval)])


def max_pause_s(likely: Sequence[float]) -> float:
    """How long a pause may take, of which some are known: in logarithms, their mean and so many
    spreads of a next one. A few pauses show little of their spread, so it begins as that of
    ``THRESHOLDS.prior_pauses``.
    """
    logs = [math.log(max(seconds, 1.0)) for seconds in likely]
    count = len(logs)
    mean = sum(logs) / count
    squares = sum((one - mean) ** 2 for one in logs)
    prior_squares = THRESHOLDS.prior_pauses * THRESHOLDS.prior_spread**2
    variance = (prior_squares + squares) / (THRESHOLDS.prior_pauses + count - 1)
    most = math.exp(mean + THRESHOLDS.spreads * math.sqrt(variance * (1 + 1 / count)))
    return float(max(most, THRESHOLDS.longest * max(likely)) + THRESHOLDS.transport_s)


def _same_kind(known: Pauses, iteration: int | None, interval: int) -> Pauses:
    """The pauses of the kind due after ``iteration``; all, if counts do not tell kinds."""
    short, long = _short_and_long(known)
    if iteration is None or len(long) < THRESHOLDS.multiples:
        return known
    counts = sorted(pause.after for pause in long)
    first = counts[0]
    period = math.gcd(*(later - one for one, later in pairwise(counts)))
    if period < 2 * interval:
        return known
    if any(_is_due(pause.after, first, period, interval) for pause in short):
        return known
    is_multiple = any(_is_due(0, first + offset, period, interval) for offset in (0, 1))
    if len(long) < THRESHOLDS.long_pauses and not is_multiple:
        return known
    return long if _is_due(iteration, first, period, interval) else short


def _short_and_long(known: Pauses) -> tuple[Pauses, Pauses]:
    """The pauses on both sides of the largest ratio of neighbours; no long ones if it is small."""
    ordered = sorted(known, key=lambda pause: pause.seconds)
    largest, place = 0.0, 0
    for number, (one, longer) in enumerate(pairwise(ordered), 1):
        ratio = longer.seconds / max(one.seconds, THRESHOLDS.shortest_s)
        if ratio >= largest:
            largest, place = ratio, number
    if largest < THRESHOLDS.ratio:
        return ordered, []
    return ordered[:place], ordered[place:]


def _is_due(iteration: int, first: int, period: int, interval: int) -> bool:
    """Whether a pause every ``period`` counts, once at ``first``, follows ``iteration``."""
    half = period / 2
    distance = abs((iteration - first + half) % period - half)
    return distance < interval
