"""Makes the events of routes from the activity log, from read evidence and from failed work."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from ingest.models import Artifact, Job, Run, Upload
from triage.domain.report_facts import incident_of
from triage.models import Activity, Incident, Route
from triage.selectors.payloads import incident_payload, job_payload
from triage.services.outbox import announce
from triage.services.tickets import accusations_announce

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
#: the fields of an activity that a message contains; not comments, which may be private
_ACTIVITY_FIELDS = ("claim", "subject", "word", "before", "after", "reason")


def activity_announce(activity: Activity) -> None:
    """Announce one row of the activity log. One query if no route is active; none for kinds without an event."""
    if activity.incident_id is None and activity.kind != "diagnosed":
        return
    if activity.kind not in (*EVENT_OF, "diagnosed", "regressed") or not Route.objects.filter(is_active=True).exists():
        return
    if activity.kind == "diagnosed":
        _announce_diagnosis(activity)
    elif activity.kind == "regressed":
        _announce_incident(activity, "incident.regressed", {"regressed_from": activity.data.get("before")})
    else:
        act = {key: activity.data[key] for key in _ACTIVITY_FIELDS if key in activity.data}
        by = activity.actor.get_username() if activity.actor else activity.data.get("who")
        _announce_incident(activity, EVENT_OF[activity.kind], {"act": {"kind": activity.kind, "by": by, **act}})


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
    problems = [{"path": path, "problem": problem} for _, path, problem in rows.values_list("pk", "path", "problem")]
    refused = Upload.objects.filter(job=job_id, state=Upload.State.REFUSED).order_by("created_at")
    problems += [{"path": path, "problem": problem} for path, problem in refused.values_list("path", "problem")]
    if problems:
        _announce_unreadable(Job.objects.select_related("cluster").get(pk=job_id), problems, revision)


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
        _announce_unreadable(run.job, [{"path": run.upload.path, "problem": run.error}], run.job.revision)


def _announce_diagnosis(activity: Activity) -> None:
    incident, job = activity.incident, activity.job
    if job is None:
        return
    is_failure = incident is not None and not incident.is_withdrawn
    payload = incident_payload(incident) if incident else None
    data = {
        "job": job_payload(job),
        "revision": activity.data.get("revision"),
        "is_failure": is_failure,
        "incident": payload if is_failure else None,
    }
    announce(event="job.diagnosed", subject=str(activity.pk), job=job, data=data)
    if incident is None:
        return
    if incident.is_withdrawn:
        _announce_incident(activity, "incident.withdrawn", {}, payload)
        return
    if not incident.activities.filter(kind="diagnosed").exclude(pk=activity.pk).exists():
        _announce_incident(activity, "incident.opened", {}, payload)
        former = None
    else:
        former, current = _last_summaries(incident)
        if former != current:
            _announce_incident(activity, "incident.updated", {}, payload)
    former_accused = former.accused if former else []
    accusations_announce(incident, {"incident": payload, "job": data["job"]}, former_accused=former_accused)


class _DiagnosisSummary(NamedTuple):
    """What people read of a diagnosis."""

    headline: str
    category: str
    confidence: float
    condition: str
    accused: list[str]
    advice: tuple[Any, ...]


def _last_summaries(incident: Incident) -> tuple[_DiagnosisSummary | None, _DiagnosisSummary | None]:
    """What messages say after the diagnosis before the latest, and after the latest. Two queries."""
    summaries = [_summary_of(report) for report in incident.attempt.diagnoses.values_list("report", flat=True)[:2]]
    return (summaries[1] if len(summaries) > 1 else None), (summaries[0] if summaries else None)


def _summary_of(report: dict[str, Any]) -> _DiagnosisSummary | None:
    facts = incident_of(report)
    if facts is None:
        return None
    advice = report.get("advice") or {}
    advised = (advice.get("action"), tuple(advice.get("targets") or []))
    return _DiagnosisSummary(
        facts.headline, facts.category, round(facts.confidence, 1), facts.condition, facts.accused, advised
    )


def _announce_incident(
    activity: Activity, event: str, more: dict[str, Any], payload: dict[str, Any] | None = None
) -> None:
    """``payload``: the incident's payload, if there is one already."""
    incident = activity.incident
    if incident is None:
        return
    data = {"incident": payload or incident_payload(incident), "job": job_payload(incident.job), **more}
    source = activity.data.get("heard_from")
    announce(event=event, subject=str(activity.pk), job=incident.job, data=data, incident=incident, source=source)


def _announce_unreadable(job: Job, problems: list[dict[str, str]], revision: int) -> None:
    digest = hashlib.sha256(repr(problems).encode()).hexdigest()[:32]
    data = {
        "job": job_payload(job),
        "revision": revision,
        "problem_count": len(problems),
        "problems": problems[:_MAX_PROBLEMS],
    }
    announce(event="job.failed_to_parse", subject=f"{job.pk} {digest}", job=job, data=data)
