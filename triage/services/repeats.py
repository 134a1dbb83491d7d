"""The same act of the same person again within seconds is one act: a double click, or a sender that tries again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from triage.models import Incident

#: longer than a slow answer makes a person press again, shorter than anybody means an act twice
WITHIN = timedelta(seconds=10)


def act_repeated(incident: Incident, kind: str, by: Any, **said: str) -> UUID | None:
    """The id of the incident's latest act if it was this one, by the same person, a moment ago. The row of the incident
    must be locked. One query.
    """
    latest = incident.activities.order_by("-at", "-pk").first()
    if latest is None or by is None or latest.kind != kind or latest.actor_id != by.pk:
        return None
    is_same = all(latest.data.get(name, "") == value for name, value in said.items())
    return latest.request_id if is_same and timezone.now() - latest.at < WITHIN else None


def is_same_time(one: datetime | None, other: datetime | None) -> bool:
    """Whether two ends of a wait are the same, each counted from its own click."""
    if one is None or other is None:
        return one == other
    return abs(one - other) < WITHIN
