"""An incident belongs to its job's team, also after the job's team changes."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q

from ingest.locks import lock_rows
from ingest.models import Job
from triage.models import Activity, Incident


@transaction.atomic
def team_follow(*, job: Job) -> int:
    """Set the job's team on its incidents; returns how many changed."""
    has_other_team = Q(team__isnull=False) if job.team_id is None else ~Q(team=job.team_id) | Q(team=None)
    others = list(lock_rows(Incident.objects.filter(has_other_team, job=job)).values_list("pk", flat=True))
    changed = Incident.objects.filter(pk__in=others).update(team=job.team_id)
    if changed:
        Activity.objects.create(job=job, kind="team_changed", data={"after": str(job.team or "")})
    return changed
