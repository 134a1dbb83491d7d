"""Which jobs are examples of a healthy run."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, QuerySet

from ingest.models import Job, Outcome
from ingest.selectors import lost_evidence
from triage.models import Incident


def healthy_of(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Those that ended well without an incident that stands, by evidence of which nothing was
    lost.
    """
    incidents = Incident.objects.filter(job=OuterRef("pk"), is_withdrawn=False)
    standing = incidents.exclude(state=Incident.State.REJECTED)
    succeeded = jobs.filter(outcome=Outcome.SUCCEEDED)
    return succeeded.filter(~Exists(standing), ~Exists(lost_evidence()))
