"""Jobs for their list and their own page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery

from diagnosis.model import LOG_KINDS
from ingest.models import Artifact, Attempt, Job, Run, RunLog, Upload
from ingest.models.outcome import ENDS, Outcome
from triage.models import Diagnosis, Incident
from triage.selectors.access import visible_cluster_ids

PAGE_SIZE = 50
_OPEN_STATES = (Run.State.QUEUED, Run.State.RUNNING)


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page of the list."""

    jobs: list[Job]
    total: int
    page: int

    @property
    def has_next(self) -> bool:
        return self.page * PAGE_SIZE < self.total


@dataclass(frozen=True, slots=True)
class JobView:
    """A job's page: its attempts, incidents, work and the latest diagnosis of the selected attempt."""

    job: Job
    attempts: list[Attempt]
    attempt: Attempt | None
    incidents: list[Incident]
    diagnosis: Diagnosis | None

    @property
    def report(self) -> dict[str, Any]:
        return self.diagnosis.report if self.diagnosis else {}

    @property
    def file_count(self) -> int:
        """How many files the diagnosis was given."""
        return len(self.report.get("inputs", ()))

    @property
    def unused_count(self) -> int:
        """From how many of them nothing was concluded."""
        return sum(bool(row.get("unread") or row["skipped"]) for row in self.report.get("inputs", ()))

    @property
    def has_logs(self) -> bool:
        """Whether logs were read; else there is no timeline of stages, and the finding is from flows or stacks."""
        return any(row["kind"] in LOG_KINDS and not row["skipped"] for row in self.report.get("inputs", ()))


def jobs_visible_to(user: Any) -> QuerySet[Job]:
    """Jobs of the clusters that the user may see."""
    return Job.objects.filter(cluster__in=visible_cluster_ids(user))


def job_for(user: Any, slug: str) -> Job | None:
    """One job, annotated with ``is_working`` and ``is_troubled``, whether its page shows the progress, and with
    ``is_growing``: whether its log can be followed.
    """
    runs = Run.objects.filter(job=OuterRef("pk"))
    uploads = Upload.objects.filter(job=OuterRef("pk"))
    files = Artifact.objects.filter(attempt__job=OuterRef("pk"), is_superseded=False)
    logged = RunLog.objects.filter(run__job=OuterRef("pk"), run__kind=Run.Kind.UNPACK).exclude(level=RunLog.Level.INFO)
    return (
        jobs_visible_to(user)
        .select_related("cluster", "team", "created_by")
        .annotate(
            is_working=Exists(runs.filter(state__in=_OPEN_STATES))
            | Exists(uploads.filter(state__in=(Upload.State.RECEIVING, Upload.State.RECEIVED)))
            | (Q(revision__gt=F("diagnosing_revision")) & Exists(files)),
            is_growing=Exists(uploads.filter(state=Upload.State.RECEIVING, size_bytes=None)),
            is_troubled=Exists(runs.filter(state=Run.State.FAILED))
            | Exists(uploads.filter(state=Upload.State.REFUSED))
            | Exists(files.exclude(problem=""))
            | Exists(logged),
        )
        .filter(slug=slug)
        .first()
    )


def job_runs(job: Job) -> list[Run]:
    """The latest work on the job."""
    return list(job.runs.order_by("-created_at", "-id")[:50])


#: the evidence shows another end than the stated outcome
DISPUTED = "disputed"


def job_page(user: Any, *, words: str = "", outcome: str = "", page: int = 1) -> JobPage:
    """Newest first, each with its number of incidents and whether work on it is running. Two queries."""
    jobs = jobs_visible_to(user)
    if words:
        jobs = jobs.filter(Q(name__icontains=words) | Q(slug__icontains=words) | Q(family__icontains=words))
    if outcome == DISPUTED:
        jobs = jobs.filter(found_outcome__in=ENDS).exclude(declared_outcome__in=(Outcome.UNKNOWN, F("found_outcome")))
    elif outcome:
        jobs = jobs.filter(outcome=outcome)
    total = jobs.count()
    page = max(1, min(page, -(-total // PAGE_SIZE) or 1))
    incidents = Incident.objects.filter(job=OuterRef("pk"), is_withdrawn=False).order_by()
    working = Run.objects.filter(job=OuterRef("pk"), state__in=_OPEN_STATES).order_by().values("job")
    rows = (
        jobs.select_related("cluster")
        .annotate(
            incident_count=Subquery(incidents.values("job").annotate(n=Count("pk")).values("n")),
            last_incident=Subquery(incidents.order_by("-opened_at").values("pk")[:1]),
            last_headline=Subquery(incidents.order_by("-opened_at").values("headline")[:1]),
            working=Subquery(working.annotate(n=Count("pk")).values("n")),
            nodes=Subquery(Attempt.objects.filter(job=OuterRef("pk")).order_by("-number").values("node_count")[:1]),
        )
        .order_by("-created_at", "-id")[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    )
    return JobPage(list(rows), total, page)


def job_view(job: Job, *, attempt: int | None = None, with_timeline: bool = False) -> JobView:
    """Three queries for any size."""
    attempts = list(job.attempts.select_related("duplicate_of__job", "watch").defer("watch__state").order_by("number"))
    chosen = next((row for row in attempts if row.number == attempt), attempts[-1] if attempts else None)
    diagnoses = Diagnosis.objects.filter(attempt=chosen) if chosen else Diagnosis.objects.none()
    return JobView(
        job=job,
        attempts=attempts,
        attempt=chosen,
        incidents=list(job.incidents.filter(is_withdrawn=False).select_related("attempt")),
        diagnosis=(diagnoses if with_timeline else diagnoses.defer("timeline")).first(),
    )


def artifact_for(job: Job, attempt: int, path: str) -> Artifact | None:
    """The artifact that a log URL names."""
    return (
        Artifact.objects.filter(attempt__job=job, attempt__number=attempt, path=path)
        .select_related("attempt", "blob")
        .order_by("is_superseded", "-id")
        .first()
    )
