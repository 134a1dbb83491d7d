"""Jobs, incidents and nodes as they are in messages: enough to route them and to act."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from django.conf import settings

from ingest.models import Job, Node
from triage.domain.standing import accused_of
from triage.models import Incident
from triage.selectors.advice import standing_advice

#: maximum number of machines in an advice
_MAX_TARGETS = 20


def link(path: str) -> str:
    return settings.SITE_URL.rstrip("/") + path


def job_payload(job: Job) -> dict[str, Any]:
    """The job in a message."""
    return {"slug": job.slug, "name": job.name, "cluster": job.cluster.slug, "url": link(f"/jobs/{job.slug}/")}


def incident_payload(incident: Incident) -> dict[str, Any]:
    """The incident in a message: accused and advice follow people. At most four queries."""
    decisions = list(incident.decisions.all())
    return {
        "number": incident.pk,
        "url": link(f"/incidents/{incident.pk}/"),
        "headline": incident.headline,
        "state": incident.state,
        "category": incident.category,
        "confidence": incident.confidence,
        "standing_category": incident.standing_category,
        "condition": incident.condition,
        "symptom": incident.symptom,
        "stage": incident.stage,
        "iteration": incident.iteration,
        "accused": accused_of(incident.accused, decisions),
        "node_count": incident.node_count,
        "gpu_hours": incident.gpu_hours,
        "lost_s": incident.lost_s,
        "happened_at": incident.happened_at.isoformat(),
        "opened_at": incident.opened_at.isoformat(),
        "fingerprint": incident.fingerprint,
        "advice": advice_payload(standing_advice(incident, decisions)),
    }


def advice_payload(advice: dict[str, Any]) -> dict[str, Any]:
    """What to do, for readers of the message, of the advice in a report."""
    targets = advice.get("targets") or []
    return {"action": advice.get("action"), "title": advice.get("action_title"), "targets": targets[:_MAX_TARGETS]}


def node_payload(node: Node) -> dict[str, Any]:
    """The node in a message."""
    query = urlencode({"cluster": node.cluster.slug})
    return {"name": node.name, "cluster": node.cluster.slug, "url": f"{link(f'/nodes/{quote(node.name)}/')}?{query}"}
