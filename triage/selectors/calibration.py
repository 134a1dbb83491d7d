"""Whether stated confidences are true: the machine's claims against people's confirmations, in bins of confidence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from triage.selectors.sums import CONFIDENCE_EDGES, Sums

#: With fewer judged verdicts, a bin says nothing.
MIN_JUDGED = 5
COLUMNS = ("low", "high", "claimed", "judged", "right", "share", "least", "most")
#: Normal distribution: 95 % lie within this many standard deviations.
_Z = 1.96


def calibration_of(sums: Mapping[str, Sums]) -> list[tuple[Any, ...]]:
    """One row per bin (:data:`COLUMNS`): its edges, the mean stated confidence, how many verdicts people judged, how
    many they confirmed, that share with its 95 % interval (Wilson); the last three None below :data:`MIN_JUDGED`.

    ``sums``: the judged verdicts by the number of their bin.
    """
    rows = []
    for n, (low, high) in enumerate(bins()):
        found = sums.get(str(n), Sums())
        judged, right = int(found.judged), int(found.right)
        claimed = found.claimed / judged if judged else None
        share: tuple[float | None, ...] = (None, None, None)
        if judged >= MIN_JUDGED:
            share = (right / judged, *interval(right, judged))
        rows.append((low, high, claimed, judged, right, *share))
    return rows


def bins() -> list[tuple[float, float]]:
    """Lower and upper edge of each bin."""
    return list(zip(CONFIDENCE_EDGES, (*CONFIDENCE_EDGES[1:], 1.0), strict=True))


def interval(right: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson, 1927): good for few counts too.

    >>> tuple(round(x, 2) for x in interval(8, 10))
    (0.49, 0.94)
    """
    p, z2 = right / total, _Z * _Z
    middle = (p + z2 / (2 * total)) / (1 + z2 / total)
    half = _Z * math.sqrt(p * (1 - p) / total + z2 / (4 * total * total)) / (1 + z2 / total)
    return max(0.0, middle - half), min(1.0, middle + half)
