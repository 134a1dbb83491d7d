"""To whom an incident may be handed over."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from ingest.roles import ABILITIES
from ingest.selectors import people_who_see
from triage.models import Incident

#: a longer list is no choice: the field takes a name then
MAX_PEOPLE = 300
_REVIEWERS = [role for role, abilities in ABILITIES.items() if "review" in abilities]


def assignees_of(incident: Incident) -> list[Any]:
    """Everybody who may see the incident and review it, by name. Two queries."""
    can_review = Q(groups__name__in=_REVIEWERS) | Q(is_superuser=True)
    return list(people_who_see([incident.cluster_id]).filter(can_review)[: MAX_PEOPLE + 1])
