"""A capture that came alone: which job it belongs to, and bringing it there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from diagnosis.flows.link import match_jobs
from ingest import storage
from ingest.models import Artifact, Job
from ingest.services import artifact_receive, diagnosis_request
from triage.models import Activity, Diagnosis
from triage.selectors.access import visible_cluster_ids

#: how many of the latest other jobs of the cluster are asked
CANDIDATES = 60


@dataclass(frozen=True, slots=True)
class Proposal:
    """A job whose nodes the capture shows, with the share of nodes in common."""

    job: Job
    flow_job: str
    score: float
    common: int


def capture_proposals(*, user: Any, diagnosis: Diagnosis) -> list[Proposal]:
    """Jobs that the capture of ``diagnosis`` may belong to, best first. Nothing for a job with logs of its own.

    Two queries; linear in the nodes of the candidates.
    """
    report = diagnosis.report
    if report.get("logs") or not (report.get("flows") or {}).get("jobs"):
        return []
    jobs = Job.objects.filter(cluster__in=visible_cluster_ids(user)).exclude(pk=diagnosis.job_id)
    candidates = {job.slug: job for job in jobs.order_by("-created_at")[:CANDIDATES]}
    nodes: dict[str, set[str]] = {
        slug: set(job.nodes_text.replace(",", " ").split()) for slug, job in candidates.items()
    }
    lanes = Diagnosis.objects.filter(job__in=candidates.values()).values_list("job__slug", "timeline__lanes")
    for slug, rows in lanes.order_by("created_at"):
        nodes[slug] |= {str(row["node"]) for row in rows or [] if row.get("node")}
    found = match_jobs(report["flows"], {slug: sorted(names) for slug, names in nodes.items() if names})
    return [Proposal(candidates[row["job"]], row["flow_job"], row["score"], len(row["common"])) for row in found]


def capture_attach(*, source: Job, target: Job, user: Any) -> int:
    """Bring the flow artifacts of ``source`` to ``target`` as if they had been uploaded there, and diagnose it again.

    The bytes are stored once; ``source`` keeps its own. Returns how many artifacts were new to ``target``.
    """
    new = 0
    captures = Artifact.objects.filter(attempt__job=source, is_superseded=False, kind="flow").order_by("path")
    for artifact in captures:
        receipt = artifact_receive(job=target, path=artifact.path, chunks=_chunks(artifact.blob_id), user=user)
        new += receipt.is_new
    Activity.objects.create(
        job=target, kind="capture_attached", actor=user, data={"subject": source.slug, "after": new}
    )
    if new:
        diagnosis_request(job=target, user=user)
    return new


def _chunks(sha256: str) -> Iterator[bytes]:
    with storage.blob_open(sha256) as file:
        while chunk := file.read(storage.BLOCK_BYTES):
            yield chunk
