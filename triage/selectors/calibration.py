"""Whether stated confidences are true: the machine's claims against people's confirmations, in bins of confidence."""

from __future__ import annotations

import math
from typing import Any

from django.db.models import Avg, Count, F, Q, QuerySet

from triage.models import Incident
from triage.selectors.sums import is_judged

#: Lower edges of the bins; the last one holds 1.
EDGES = (0.0, 0.5, 0.7, 0.8, 0.9)
#: With fewer judged verdicts, a bin says nothing.
MIN_JUDGED = 5
COLUMNS = ("low", "high", "claimed", "judged", "right", "share", "least", "most")
#: Normal distribution: 95 % lie within this many standard deviations.
_Z = 1.96


def calibration_of(incidents: QuerySet[Incident]) -> list[tuple[Any, ...]]:
    """One row per bin (:data:`COLUMNS`): its edges, the mean stated confidence, how many verdicts people judged, how
    many they confirmed, that share with its 95 % interval (Wilson); the last three None below :data:`MIN_JUDGED`.

    One query, one pass over the judged incidents.
    """
    right = Q(state__in=Incident.STOOD) & Q(category=F("standing_category"))
    aggregates: dict[str, Any] = {}
    for n, (low, high) in enumerate(bins()):
        in_bin = Q(confidence__gte=low) & (Q(confidence__lt=high) if high < 1 else Q())
        aggregates[f"claimed_{n}"] = Avg("confidence", filter=in_bin)
        aggregates[f"judged_{n}"] = Count("pk", filter=in_bin)
        aggregates[f"right_{n}"] = Count("pk", filter=in_bin & right)
    counts = incidents.filter(is_judged()).order_by().aggregate(**aggregates)
    rows = []
    for n, (low, high) in enumerate(bins()):
        judged, right_count = counts[f"judged_{n}"], counts[f"right_{n}"]
        share: tuple[float | None, ...] = (None, None, None)
        if judged >= MIN_JUDGED:
            share = (right_count / judged, *interval(right_count, judged))
        rows.append((low, high, counts[f"claimed_{n}"], judged, right_count, *share))
    return rows


def bins() -> list[tuple[float, float]]:
    """Lower and upper edge of each bin."""
    return list(zip(EDGES, (*EDGES[1:], 1.0), strict=True))


def interval(right: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson, 1927): good for few counts too.

    >>> tuple(round(x, 2) for x in interval(8, 10))
    (0.49, 0.94)
    """
    p, z2 = right / total, _Z * _Z
    middle = (p + z2 / (2 * total)) / (1 + z2 / total)
    half = _Z * math.sqrt(p * (1 - p) / total + z2 / (4 * total * total)) / (1 + z2 / total)
    return max(0.0, middle - half), min(1.0, middle + half)
