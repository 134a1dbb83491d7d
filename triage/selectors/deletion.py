"""What is deleted with a job, who may delete it, and the sentence about a deleted one."""

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
    """What is lost when a job is deleted."""

    incidents: int
    #: those that somebody judged, commented on or was assigned to
    touched: int
    #: decisions of people on the machine's claims, and their comments
    decisions: int
    comments: int
    files: int
    size_bytes: int

    @property
    def form_value(self) -> str:
        """A text for the form: the deletion is refused if the losses changed after the page was shown."""
        return f"{self.incidents} {self.touched} {self.decisions} {self.comments} {self.files}"


def losses_of(job: Job) -> Losses:
    """Six queries for any size."""
    acts = Activity.objects.filter(incident__job=job, actor__isnull=False).order_by()
    files = Artifact.objects.filter(attempt__job=job).exclude(state=Artifact.State.REMOVED).order_by()
    stored = Blob.objects.filter(pk__in=files.values("blob")).aggregate(size=Sum("size_bytes"))
    return Losses(
        incidents=Incident.objects.filter(job=job).count(),
        touched=acts.values("incident").distinct().count(),
        decisions=Decision.objects.filter(incident__job=job).count(),
        comments=acts.filter(kind="commented").count(),
        files=files.count(),
        size_bytes=stored["size"] or 0,
    )


def deletion_refusal(user: Any, job: Job) -> str:
    """Why this person may not delete the job, and who may; empty if they may.

    An administrator may delete any job. An engineer may delete jobs that they created, or that no person created, if no
    colleague worked on them.
    """
    if can(user, "administer"):
        return ""
    if not can(user, "upload"):
        return "Deleting a job needs the role engineer: ask an administrator."
    if job.created_by is not None and job.created_by != user:
        return f"{job.created_by.get_username()} made this job: only they or an administrator can delete it."
    by_others = Q(actor__isnull=False) & ~Q(actor=user)
    if Activity.objects.filter(by_others, Q(incident__job=job) | Q(job=job)).exists():
        return "Others have worked on this job: only an administrator can delete it with what they said."
    return ""


def deleted_job_words(user: Any, slug: str) -> str:
    """Who deleted the job with that id, when and why, for people who could see it; empty if nobody did."""
    row = _deletions(user).filter(data__slug=slug).last()
    return _words(row, f"The job “{slug}”") if row else ""


def deleted_incident_words(user: Any, pk: int) -> str:
    """The same for the job of an incident. Reads every deletion, so it is called only if no incident was found."""
    rows = [row for row in _deletions(user) if pk in row.data["numbers"]]
    return _words(rows[-1], f"Incident #{pk} and its job “{rows[-1].data['name']}”") if rows else ""


def _deletions(user: Any) -> Any:
    rows = Activity.objects.filter(kind=DELETED, data__cluster__in=visible_cluster_ids(user))
    return rows.select_related("actor").order_by("pk")


def _words(row: Activity, what: str) -> str:
    by = row.actor.get_username() if row.actor else "the system"
    why = f" (“{row.data['reason']}”)" if row.data.get("reason") else ""
    return f"{what} was deleted by {by} on {row.at:%Y-%m-%d at %H:%M} UTC{why}."
