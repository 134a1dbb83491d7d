"""Makes the events of routes from the activity log, from read evidence and from failed work."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from ingest.models import Artifact, Job, Run, Upload
from ingest.refusals import Refused
from triage.domain.report_facts import incident_of
from triage.models import Activity, Delivery, Diagnosis, Incident, Route
from triage.services.routes import announce, job_payload, link, ticket_request

#: the event of each kind of act of a person
EVENT_OF = {
    "decided": "incident.decided",
    "undone": "incident.undone",
    "assigned": "incident.assigned",
    **dict.fromkeys(
        ("acknowledged", "actioned", "resolved", "resolved_elsewhere", "reopened", "snoozed", "woken"), "incident.moved"
    ),
}
#: maximum number of problems in one message, which also has their total
_MAX_PROBLEMS = 50
#: maximum number of machines in an advice
_MAX_TARGETS = 20
#: the fields of an activity that a message contains; not comments, which may be private
_ACTIVITY_FIELDS = ("claim", "subject", "word", "before", "after", "reason")


def activity_announce(activity: Activity) -> None:
    """Announce one row of the activity log. One query if no route is active; none for kinds without an event."""
    if activity.incident_id is None and activity.kind != "diagnosed":
        return
    if activity.kind not in (*EVENT_OF, "diagnosed", "regressed") or not Route.objects.filter(is_active=True).exists():
        return
    if activity.kind == "diagnosed":
        _diagnosed(activity)
    elif activity.kind == "regressed":
        _announce_for(activity, "incident.regressed", {"regressed_from": activity.data.get("before")})
    else:
        act = {key: activity.data[key] for key in _ACTIVITY_FIELDS if key in activity.data}
        by = activity.actor.get_username() if activity.actor else activity.data.get("who")
        _announce_for(activity, EVENT_OF[activity.kind], {"act": {"kind": activity.kind, "by": by, **act}})


def activities_announce(activities: Iterable[Activity]) -> None:
    """Announce rows that were created in bulk, for which no signal is sent. One query if no route is active."""
    if Route.objects.filter(is_active=True).exists():
        for activity in activities:
            activity_announce(activity)


def evidence_announce(*, job_id: int, revision: int) -> None:
    """All evidence of a revision is read: announce what could not be read, each set of problems once."""
    if not Route.objects.filter(is_active=True).exists():
        return
    states = (Artifact.State.SKIPPED, Artifact.State.FAILED)
    rows = Artifact.objects.filter(attempt__job=job_id, state__in=states, is_superseded=False).order_by("pk")
    problems = [{"path": path, "problem": said} for _, path, said in rows.values_list("pk", "path", "problem")]
    refused = Upload.objects.filter(job=job_id, state=Upload.State.REFUSED).order_by("created_at")
    problems += [{"path": path, "problem": said} for path, said in refused.values_list("path", "problem")]
    if problems:
        _unreadable(Job.objects.select_related("cluster").get(pk=job_id), problems, revision)


def failure_announce(run_id: int) -> None:
    """Announce failed work. Unreadable files are announced by :func:`evidence_announce` when the rest is read."""
    run = Run.objects.select_related("job__cluster", "upload").filter(pk=run_id).first()
    if run is None:
        return
    if run.kind == Run.Kind.DIAGNOSE:
        data = {"job": job_payload(run.job), "problem": run.error, "revision": run.parameters.get("revision", 0)}
        announce(
            event="job.failed_to_diagnose",
            subject=f"{run.pk} {run.created_at.timestamp()}",
            job=run.job,
            data=data,
        )
    elif run.upload is not None:
        _unreadable(run.job, [{"path": run.upload.path, "problem": run.error}], run.job.revision)


def ticket_ask(*, route_id: int, incident: Incident, by: Any) -> Delivery:
    """Ask for a ticket about the incident by a route, on a person's wish.

    Raises:
        Refused: no such route, one that makes no tickets for it, or it has one there.
    """
    route = Route.objects.filter(pk=route_id).select_related("owner", "team").first()
    if route is None:
        raise Refused("Choose where to make the ticket.", code="invalid", fields={"route": "There is no such route."})
    data = {"incident": incident_payload(incident), "job": job_payload(incident.job)}
    data["act"] = {"kind": "ticketed", "by": by.get_username()}
    return ticket_request(route=route, incident=incident, by=by, data=data)


def incident_payload(incident: Incident) -> dict[str, Any]:
    """The incident in a message: enough to route it and to act, without the evidence."""
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
        "accused": incident.accused,
        "node_count": incident.node_count,
        "gpu_hours": incident.gpu_hours,
        "lost_s": incident.lost_s,
        "happened_at": incident.happened_at.isoformat(),
        "opened_at": incident.opened_at.isoformat(),
        "fingerprint": incident.fingerprint,
        "advice": _advice_payload(incident),
    }


def _advice_payload(incident: Incident) -> dict[str, Any]:
    """What to do, for readers of the message. One query that loads only the advice of the report."""
    found = Diagnosis.objects.filter(pk=incident.diagnosis_id).values_list("report__advice", flat=True).first() or {}
    targets = found.get("targets") or []
    return {"action": found.get("action"), "title": found.get("action_title"), "targets": targets[:_MAX_TARGETS]}


def _diagnosed(activity: Activity) -> None:
    incident, job = activity.incident, activity.job
    if job is None:
        return
    found = incident is not None and not incident.is_withdrawn
    told = incident_payload(incident) if incident else None
    data = {
        "job": job_payload(job),
        "revision": activity.data.get("revision"),
        "is_failure": found,
        "incident": told if found else None,
    }
    announce(event="job.diagnosed", subject=str(activity.pk), job=job, data=data)
    if incident is None:
        return
    if incident.is_withdrawn:
        _announce_for(activity, "incident.withdrawn", {}, told)
    elif not incident.activities.filter(kind="diagnosed").exclude(pk=activity.pk).exists():
        _announce_for(activity, "incident.opened", {}, told)
    elif _says_more(incident):
        _announce_for(activity, "incident.updated", {}, told)


def _says_more(incident: Incident) -> bool:
    """Whether the latest diagnosis tells people something else than the one before. Two queries."""
    told = [_told(report) for report in incident.attempt.diagnoses.values_list("report", flat=True)[:2]]
    return len(told) < 2 or told[0] != told[1]


def _told(report: dict[str, Any]) -> tuple[Any, ...] | None:
    facts = incident_of(report)
    if facts is None:
        return None
    advice = report.get("advice") or {}
    said = (advice.get("action"), tuple(advice.get("targets") or []))
    return facts.headline, facts.category, round(facts.confidence, 1), facts.condition, facts.accused, said


def _announce_for(activity: Activity, event: str, more: dict[str, Any], told: dict[str, Any] | None = None) -> None:
    """``told``: the incident's payload, if there is one already."""
    incident = activity.incident
    if incident is None:
        return
    data = {"incident": told or incident_payload(incident), "job": job_payload(incident.job), **more}
    source = activity.data.get("heard_from")
    announce(event=event, subject=str(activity.pk), job=incident.job, data=data, incident=incident, source=source)


def _unreadable(job: Job, problems: list[dict[str, str]], revision: int) -> None:
    digest = hashlib.sha256(repr(problems).encode()).hexdigest()[:32]
    data = {
        "job": job_payload(job),
        "revision": revision,
        "problem_count": len(problems),
        "problems": problems[:_MAX_PROBLEMS],
    }
    announce(event="job.failed_to_parse", subject=f"{job.pk} {digest}", job=job, data=data)
