"""What was found out about a job, in short: for programs that upload evidence and want the answer."""

from __future__ import annotations

from typing import Any

from django.db.models import F

from ingest.models import Job
from triage.models import Diagnosis, Incident, Suspect

#: suspects in one answer; the incident has all
MAX_SUSPECTS = 5


def verdict_of(job: Job) -> dict[str, Any]:
    """``verdict`` and ``incident`` of the job's last diagnosed attempt; None where there is none. At most three
    queries, which read no whole report.
    """
    newest = Diagnosis.objects.filter(job=job).order_by("-attempt__number", "-revision")
    names = {"condition": "condition", "category": "id", "confidence": "confidence"}
    parts = {f"its_{name}": F(f"report__conclusion__{key}") for name, key in names.items()}
    row: dict[str, Any] | None = newest.values(  # type: ignore[assignment]
        "attempt", "attempt__number", "revision", sentence=F("report__headline"), **parts
    ).first()
    if row is None:
        return {"verdict": None, "incident": None}
    incident = Incident.objects.filter(attempt=row["attempt"], is_withdrawn=False).order_by("ordinal").first()
    suspects = Suspect.objects.filter(incident=incident, is_accused=True)[:MAX_SUSPECTS] if incident else ()
    verdict = {
        "attempt": row["attempt__number"],
        "revision": row["revision"],
        "condition": row["its_condition"] or "",
        "category": incident.category if incident else row["its_category"] or "",
        "confidence": incident.confidence if incident else row["its_confidence"],
        "sentence": incident.headline if incident else row["sentence"] or "",
        "suspects": [{"name": one.entity, "kind": one.kind, "probability": one.score} for one in suspects],
    }
    return {"verdict": verdict, "incident": _incident_row(incident) if incident else None}


def _incident_row(incident: Incident) -> dict[str, Any]:
    state = {"state": incident.state, "standing_category": incident.standing_category}
    return {"number": incident.pk, "url": f"/incidents/{incident.pk}/", **state}
