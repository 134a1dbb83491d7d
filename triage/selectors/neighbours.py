"""The next and the previous incident in the queue or a list, by position in the order.

A person who judges incidents one by one removes each from the list. Its position in the order is still known, and leads
to the next one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import F, Q

from triage.models import Incident
from triage.search import Query
from triage.selectors.incidents import SORTS, alarm_holds, incidents_visible_to, queue_key, queue_sections

#: sort name → (column, largest first?, latest of equals first?); rows without a value are last
_COLUMNS = {
    "newest": ("opened_at", True, True),
    "oldest": ("opened_at", False, False),
    "happened": ("happened_at", True, True),
    "cost": ("gpu_hours", True, True),
    "doubtful": ("confidence", False, True),
}


def neighbour_in_queue(user: Any, incident: Incident, *, is_next: bool, now: datetime) -> int | None:
    """The number of the next (else: the previous) incident of the queue; None at its end. Two
    queries.
    """
    own = Incident.objects.annotate(is_alarmed=alarm_holds()).get(pk=incident.pk)
    own_key = queue_key(own, now)
    rows = [row for _, section in queue_sections(user, now) for row in section if row.pk != incident.pk]
    candidates = [row for row in rows if (queue_key(row, now) > own_key) == is_next]
    return (candidates[0] if is_next else candidates[-1]).pk if candidates else None


def neighbour_in_list(user: Any, incident: Incident, query: Query, *, sort: str, is_next: bool) -> int | None:
    """The number of the next (else: the previous) incident of the query; None at its end. One query."""
    column, is_falling, is_latest_first = _COLUMNS[sort if sort in SORTS else "newest"]
    value = getattr(incident, column)
    comparison = {True: "lt", False: "gt"}
    equal = Q(**{column: value, f"pk__{comparison[is_latest_first == is_next]}": incident.pk})
    beyond = equal
    if value is not None:
        beyond |= Q(**{f"{column}__{comparison[is_falling == is_next]}": value})
        beyond |= Q(**{column: None}) if is_next else Q()
    elif not is_next:
        beyond |= Q(**{f"{column}__isnull": False})
    order = F(column).desc if is_falling == is_next else F(column).asc
    ranked = order(nulls_last=True) if is_next else order(nulls_first=True)
    tie = "-pk" if is_latest_first == is_next else "pk"
    candidates = query.apply(incidents_visible_to(user), user=user).filter(beyond).exclude(pk=incident.pk)
    return candidates.order_by(ranked, tie).values_list("pk", flat=True).first()
