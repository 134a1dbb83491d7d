"""Whose an incident is: its job's team, whenever that is said or changed."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q

from ingest.models import Job
from triage.models import Activity, Incident


@transaction.atomic
def team_follow(*, job: Job) -> int:
    """Give the job's incidents the job's team; returns how many had another."""
    other = Q(team__isnull=False) if job.team_id is None else ~Q(team=job.team_id) | Q(team=None)
    changed = Incident.objects.filter(other, job=job).update(team=job.team_id)
    if changed:
        Activity.objects.create(job=job, kind="team_changed", data={"after": str(job.team or "")})
    return changed
