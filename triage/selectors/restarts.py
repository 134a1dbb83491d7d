"""What a restart controller is told about one attempt of a job, and whether the work on it is finished."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.models import Artifact, Attempt, Run, Upload
from triage.domain.restart import Recommendation, recommendation
from triage.models import Activity, Incident
from triage.selectors.advice import TRIED_KINDS, advice_now, tried_acts

_OPEN_STATES = (Run.State.QUEUED, Run.State.RUNNING)


@dataclass(frozen=True, slots=True)
class RestartView:
    """``status`` is pending (no evidence came), in_flight or completed; until then the recommendation is UNKNOWN."""

    status: str
    recommendation: Recommendation
    incident: Incident | None = None


def restart_view(attempt: Attempt | None) -> RestartView:
    """The recommendation for an attempt, None: there is none yet. At most eight queries."""
    if attempt is None:
        return RestartView("pending", Recommendation("UNKNOWN", "No evidence of this attempt has come yet."))
    job = attempt.job
    receiving = (Upload.State.RECEIVING, Upload.State.RECEIVED)
    unread = (Artifact.State.RECEIVED, Artifact.State.PARSING)
    is_coming = (
        Upload.objects.filter(attempt=attempt, state__in=receiving).exists()
        or Artifact.objects.filter(attempt=attempt, state__in=unread).exists()
    )
    if is_coming:
        return RestartView("in_flight", Recommendation("UNKNOWN", "The evidence of this attempt is being read."))
    diagnosis = attempt.diagnoses.order_by("-revision").first()
    if job.diagnosed_revision < job.revision:
        if job.diagnosing_revision < job.revision or job.runs.filter(state__in=_OPEN_STATES).exists():
            return RestartView("in_flight", Recommendation("UNKNOWN", "The diagnosis is being made."))
        return RestartView("completed", Recommendation("UNKNOWN", "The diagnosis failed: see the job's page."))
    if diagnosis is None:
        return RestartView("completed", Recommendation("UNKNOWN", "No evidence of this attempt could be read."))
    incident = attempt.incidents.filter(is_withdrawn=False).first()
    if incident is None:
        return RestartView("completed", recommendation({}, confidence=0.0))
    activities = Activity.objects.filter(incident__job=job, kind__in=TRIED_KINDS, incident__category=incident.category)
    earlier = Incident.objects.filter(job=job, attempt__number=attempt.number - 1, is_withdrawn=False)
    advised = recommendation(
        advice_now(diagnosis.report, tried_acts(incident, activities), incident.decisions.all()),
        confidence=incident.confidence,
        is_judged_otherwise=incident.standing_category != incident.category
        or incident.state in (Incident.State.REJECTED, Incident.State.INCONCLUSIVE),
        is_repeated=earlier.filter(category=incident.category).exists(),
    )
    return RestartView("completed", advised, incident)
