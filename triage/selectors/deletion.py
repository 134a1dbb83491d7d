"""What goes with a job that is deleted, who may let it go, and what is told of one that is gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Q, Sum

from ingest.models import Artifact, Blob, Job
from ingest.roles import can
from triage.models import Activity, Decision, Incident
from triage.selectors.access import visible_cluster_ids

#: the kind of the row that stays
DELETED = "job_deleted"


@dataclass(frozen=True, slots=True)
class Losses:
    """What is gone when a job is deleted."""

    incidents: int
    #: of them, those that somebody judged, commented or took on
    touched: int
    #: words of people on what the machine claims, and their comments
    decisions: int
    comments: int
    files: int
    size_bytes: int

    @property
    def told(self) -> str:
        """What a form holds, so that nothing goes that its reader did not see."""
        return f"{self.incidents} {self.touched} {self.decisions} {self.comments} {self.files}"


def losses_of(job: Job) -> Losses:
    """Six queries, whatever the size."""
    acts = Activity.objects.filter(incident__job=job, actor__isnull=False).order_by()
    files = Artifact.objects.filter(attempt__job=job).exclude(state=Artifact.State.REMOVED).order_by()
    held = Blob.objects.filter(pk__in=files.values("blob")).aggregate(size=Sum("size_bytes"))
    return Losses(
        incidents=Incident.objects.filter(job=job).count(),
        touched=acts.values("incident").distinct().count(),
        decisions=Decision.objects.filter(incident__job=job).count(),
        comments=acts.filter(kind="commented").count(),
        files=files.count(),
        size_bytes=held["size"] or 0,
    )


def deletion_refusal(user: Any, job: Job) -> str:
    """Why this person may not delete the job, and who may; empty where they may.

    An administrator may delete any. An engineer may delete what they made themselves, or no person made, as long as no
    colleague's word hangs on it.
    """
    if can(user, "administer"):
        return ""
    if not can(user, "upload"):
        return "Deleting a job needs the role engineer: ask an administrator."
    if job.created_by is not None and job.created_by != user:
        return f"{job.created_by.get_username()} made this job: only they or an administrator can delete it."
    others = Q(actor__isnull=False) & ~Q(actor=user)
    if Activity.objects.filter(others, Q(incident__job=job) | Q(job=job)).exists():
        return "Others have worked on this job: only an administrator can delete it with what they said."
    return ""


def deleted_job_words(user: Any, slug: str) -> str:
    """Who deleted the job of that id, when and why, for whoever could see it; empty where nobody did."""
    row = _deletions(user).filter(data__slug=slug).last()
    return _words(row, f"The job “{slug}”") if row else ""


def deleted_incident_words(user: Any, pk: int) -> str:
    """The same of the job that an incident was part of. Reads every deletion: asked only where nothing was found."""
    rows = [row for row in _deletions(user) if pk in row.data["numbers"]]
    return _words(rows[-1], f"Incident #{pk} and its job “{rows[-1].data['name']}”") if rows else ""


def _deletions(user: Any) -> Any:
    rows = Activity.objects.filter(kind=DELETED, data__cluster__in=visible_cluster_ids(user))
    return rows.select_related("actor").order_by("pk")


def _words(row: Activity, what: str) -> str:
    by = row.actor.get_username() if row.actor else "the system"
    why = f" (“{row.data['reason']}”)" if row.data.get("reason") else ""
    return f"{what} was deleted by {by} on {row.at:%Y-%m-%d at %H:%M} UTC{why}."
