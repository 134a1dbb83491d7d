"""A flow capture without a job: find the job it belongs to, attach it, and detach it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Max, Min, Q
from django.db.models.functions import Coalesce

from ingest import storage
from ingest.models import Artifact, Job
from ingest.services import artifact_delete, artifact_receive, diagnosis_request
from triage.domain.flow_links import KnownJob, Match, match_jobs
from triage.models import Activity, Diagnosis
from triage.selectors.access import visible_cluster_ids

#: how many other jobs that the user may see are compared
MAX_CANDIDATES = 60


@dataclass(frozen=True, slots=True)
class Proposal:
    """A job that the capture may belong to, and why: ``match`` has the common machines and the common time."""

    job: Job
    match: Match


def capture_proposals(*, user: Any, diagnosis: Diagnosis) -> list[Proposal]:
    """Jobs that the capture of ``diagnosis`` may belong to, best first. Empty if the job has logs.

    Compares the ``MAX_CANDIDATES`` jobs that began last before the capture ended. Two queries; linear in the nodes of
    the candidates.
    """
    report = diagnosis.report
    flows = report.get("flows") or {}
    if report.get("logs") or not flows.get("jobs"):
        return []
    jobs = (
        Job.objects.filter(cluster__in=visible_cluster_ids(user))
        .exclude(pk=diagnosis.job_id)
        .annotate(
            begun=Coalesce("started_at", Min("attempts__started_at")),
            over=Coalesce("ended_at", Max("attempts__ended_at")),
        )
    )
    if (until := _span(flows)[1]) is not None:
        jobs = jobs.filter(Q(begun=None) | Q(begun__lte=datetime.fromtimestamp(until, UTC)))
    candidates = {job.slug: job for job in jobs.order_by(F("begun").desc(nulls_last=True), "-pk")[:MAX_CANDIDATES]}
    machines = {slug: set(job.nodes_text.replace(",", " ").split()) for slug, job in candidates.items()}
    over: dict[str, float | None] = {slug: _seconds(job.over) for slug, job in candidates.items()}
    diagnoses = Diagnosis.objects.filter(job__in=candidates.values()).order_by("created_at")
    for slug, lanes, end in diagnoses.values_list("job__slug", "timeline__lanes", "timeline__t1"):
        machines[slug] |= {str(row["node"]) for row in lanes or [] if row.get("node")}
        if over[slug] is not None and end is not None and candidates[slug].ended_at is None:
            over[slug] = max(float(end), over[slug] or 0.0)  # the attempt continued after its first diagnosis
    known = {
        slug: KnownJob(sorted(names), _seconds(candidates[slug].begun), over[slug])
        for slug, names in machines.items()
        if names
    }
    return [Proposal(candidates[match.job], match) for match in match_jobs(flows, known)]


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _span(flows: dict[str, Any]) -> tuple[float | None, float | None]:
    """From the first record of all captures to the last, epoch seconds."""
    rows = [row for row in flows.get("captures") or [] if row.get("t0") is not None and row.get("t1") is not None]
    return min((row["t0"] for row in rows), default=None), max((row["t1"] for row in rows), default=None)


def capture_attach(*, source: Job, target: Job, user: Any) -> int:
    """Copy the flow artifacts of ``source`` to ``target``, as if they had been uploaded there, to the attempt that ran
    at that time, and diagnose it again.

    The bytes are stored once; ``source`` keeps its artifacts. Returns how many artifacts were new to ``target``; the
    act records which, so that ``capture_detach`` can remove them.
    """
    attempt = _attempt_during(source, target)
    brought: list[int] = []
    captures = Artifact.objects.filter(attempt__job=source, is_superseded=False, kind="flow").order_by("path")
    others = dict(
        Artifact.objects.filter(attempt__job=target, attempt__number=attempt, is_superseded=False).values_list(
            "path", "blob_id"
        )
    )
    for artifact in captures:
        is_taken = others.get(artifact.path, artifact.blob_id) != artifact.blob_id
        path = f"{source.slug}/{artifact.path}" if is_taken else artifact.path
        receipt = artifact_receive(job=target, path=path, chunks=_chunks(artifact.blob_id), attempt=attempt, user=user)
        if receipt.is_new and receipt.artifact is not None:
            brought.append(receipt.artifact.pk)
    if brought:
        data = {"subject": source.slug, "after": len(brought), "artifacts": brought}
        Activity.objects.create(job=target, kind="capture_attached", actor=user, data=data)
        diagnosis_request(job=target, user=user)
    return len(brought)


def _attempt_during(source: Job, target: Job) -> int:
    """The number of the attempt of ``target`` that ran longest during the capture of ``source``; else the first."""
    latest = (
        Diagnosis.objects.filter(job=source).order_by("-created_at").values_list("report__flows", flat=True).first()
    )
    begin, end = _span(latest or {})
    if begin is None or end is None:
        return 0
    common = {
        number: min(end, stopped.timestamp() if stopped else end) - max(begin, started.timestamp())
        for number, started, stopped in target.attempts.values_list("number", "started_at", "ended_at")
        if started is not None
    }
    best = max(common, key=lambda number: (common[number], -number), default=0)
    return best if common and common[best] > 0 else 0


@transaction.atomic
def capture_detach(*, act: Activity, user: Any) -> int:
    """Remove the artifacts that one attaching added, and diagnose the job again; returns how many."""
    assert act.job is not None
    files = Artifact.objects.filter(attempt__job=act.job, pk__in=act.data.get("artifacts") or [])
    count = 0
    for artifact in files:
        artifact_delete(artifact=artifact, user=user)
        count += 1
    if count:
        data = {"subject": act.data["subject"], "before": count}
        Activity.objects.create(job=act.job, kind="capture_detached", actor=user, data=data)
        diagnosis_request(job=act.job, user=user)
    return count


def _chunks(sha256: str) -> Iterator[bytes]:
    with storage.blob_open(sha256) as file:
        while chunk := file.read(storage.BLOCK_BYTES):
            yield chunk
