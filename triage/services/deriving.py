"""From the newest diagnosis of an attempt to the rows that pages show. All that follows from a report is written again
with each report: rows never keep what an earlier report of less evidence said.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from ingest.models import DEMONSTRATION, Attempt, Job, Node
from ingest.models.outcome import standing_outcome
from triage.domain import standing
from triage.domain.finding_facts import FindingFacts
from triage.domain.report_facts import (
    IncidentFacts,
    evidence_digest_of,
    incident_of,
    node_count_of,
    node_names_of,
    outcome_of,
    utc_time,
    week_of,
)
from triage.models import Activity, Diagnosis, Finding, GroupRule, Incident, Suspect
from triage.services.costing import TRAINING_FIELDS, costs_write, training_set
from triage.services.indexing import search_entry_write

#: what the report shows of an attempt
ATTEMPT_FIELDS = (
    *("outcome", "node_count", "started_at", "ended_at", "ran_s", "evidence_digest", "duplicate_of"),
    *TRAINING_FIELDS,
)
#: evidence that came later than this after the end of its attempt was uploaded late: that is no
#: time to detection
LATE_S = 24 * 3600

#: what a row keeps of an event; pages read the order of its writers from the report
_FINDING_COLUMNS = tuple(name for name in FindingFacts.__slots__ if name != "writers")


def rows_derive(
    *, diagnosis: Diagnosis, job: Job, report: dict[str, Any], now: datetime
) -> tuple[Incident | None, set[date]]:
    """Write the incident, the attempt and the job as the report has them. Decisions and their states stay.

    Returns the incident of the attempt, and the other weeks whose sums changed: its former one, and
    those of earlier attempts, whose wait for this one is part of their cost. ``job`` is locked by
    the caller.
    """
    attempt = diagnosis.attempt
    names = node_names_of(report)
    Node.objects.bulk_create([Node(cluster=job.cluster, name=name) for name in names], ignore_conflicts=True)
    last = job.attempts.order_by("-number").first() or attempt
    is_last = last.pk == attempt.pk
    facts = incident_of(report, job.declared_outcome if is_last else "")  # what people say is of how the job ended
    incident = Incident.objects.filter(attempt=attempt, ordinal=0).first()
    former_weeks = {incident.week} if incident else set()
    _attempt_write(attempt=attempt, report=report)
    if facts:
        incident = _incident_write(job=job, incident=incident, diagnosis=diagnosis, facts=facts, now=now)
    elif incident:
        incident.is_withdrawn = True
        incident.diagnosis = diagnosis
        incident.save(update_fields=["is_withdrawn", "diagnosis"])
    former_weeks |= costs_write(job)
    job.found_outcome = attempt.outcome if is_last else last.outcome
    job.outcome = standing_outcome(job.declared_outcome, job.found_outcome)
    _framework_set(job, attempt, report)
    job.save(update_fields=["outcome", "found_outcome", "framework"])
    return incident, former_weeks - {incident.week if incident else None}


def _detected_s(job: Job, incident: Incident, facts: IncidentFacts) -> float | None:
    """Seconds from the failure to its incident; None if unknown, and for a recording and evidence
    that was uploaded late, whose age is no detection.
    """
    if facts.happened_at is None or job.cluster.slug == DEMONSTRATION:
        return None
    ended_at = incident.attempt.ended_at or facts.happened_at
    is_late = (incident.opened_at - ended_at).total_seconds() > LATE_S
    return None if is_late else max(0.0, (incident.opened_at - facts.happened_at).total_seconds())


def _original_of(attempt: Attempt) -> Incident | None:
    """The incident that the first attempt with the same evidence made."""
    first = attempt.duplicate_of
    return first.incidents.filter(is_withdrawn=False).first() if first else None


def _incident_write(
    *, job: Job, incident: Incident | None, diagnosis: Diagnosis, facts: IncidentFacts, now: datetime
) -> Incident:
    is_new = incident is None
    incident = incident or Incident(attempt=diagnosis.attempt, ordinal=0, opened_at=now)
    decisions = [] if is_new else list(incident.decisions.all())
    happened_at = facts.happened_at or incident.opened_at
    is_new_fingerprint = is_new or incident.fingerprint != facts.fingerprint
    values: dict[str, Any] = {
        "job": job,
        "cluster": job.cluster,
        "team_id": job.team_id,
        "diagnosis": diagnosis,
        "headline": facts.headline,
        "category": facts.category,
        "confidence": facts.confidence,
        "runner_up": facts.runner_up,
        "runner_up_confidence": facts.runner_up_confidence,
        "standing_category": standing.category_of(facts.category, decisions),
        "condition": facts.condition,
        "symptom": facts.symptom,
        "stage": facts.stage,
        "iteration": facts.iteration,
        "fingerprint": facts.fingerprint,
        "node_count": facts.node_count,
        "accused": facts.accused,
        "happened_at": happened_at,
        "is_time_known": facts.happened_at is not None,
        "week": week_of(happened_at),
        "lost_s": facts.lost_s,
        "detected_s": _detected_s(job, incident, facts),
        "duplicate_of": _original_of(diagnosis.attempt),
        "is_withdrawn": False,
    }
    for name, value in values.items():
        setattr(incident, name, value)
    incident.set_resolved(incident.resolved_at)  # the time to repair begins when it happened
    if is_new_fingerprint:
        _fingerprint_follow(incident, is_new=is_new)
    incident.save()
    incident.findings.all().delete()
    incident.suspects.all().delete()
    Finding.objects.bulk_create(_finding(incident, n, row) for n, row in enumerate(facts.findings))
    names = [row.entity for row in facts.suspects]
    nodes = {node.name: node for node in Node.objects.filter(cluster=job.cluster, name__in=names)}
    words = standing.suspect_words(decisions)
    suspects = []
    for n, row in enumerate(facts.suspects):
        node = nodes.get(row.entity) if row.kind == "node" else None
        columns = {name: getattr(row, name) for name in row.__slots__}
        word = words.get(row.entity, "")
        suspects.append(Suspect(incident=incident, position=n, word=word, node=node, **columns))
    Suspect.objects.bulk_create(suspects)
    search_entry_write(incident=incident, job=job, facts=facts)
    if incident.regressed_from_id and is_new_fingerprint:
        Activity.objects.create(
            incident=incident,
            job=job,
            kind="regressed",
            data={"before": incident.regressed_from_id, "subject": facts.fingerprint},
        )
    return incident


def _finding(incident: Incident, position: int, row: Any) -> Finding:
    columns = {name: getattr(row, name) for name in _FINDING_COLUMNS}
    return Finding(incident=incident, position=position, **columns)


def _fingerprint_follow(incident: Incident, *, is_new: bool) -> None:
    """Set what depends on the fingerprint: of which incident this is a regression, and the group of its rule, unless a
    person grouped it.
    """
    incident.regressed_from = _last_resolved(incident)
    is_grouped_by_person = not is_new and incident.activities.filter(kind__in=("merged", "split")).exists()
    if not is_grouped_by_person:
        rules = GroupRule.objects.filter(cluster=incident.cluster_id, fingerprint=incident.fingerprint)
        rule = rules.last() if incident.fingerprint else None
        incident.group = rule.group if rule else None


def _last_resolved(incident: Incident) -> Incident | None:
    """The incident with the same fingerprint on the same cluster that was resolved last before this one was opened:
    this one is its regression.
    """
    if not incident.fingerprint:
        return None
    alike = Incident.objects.filter(fingerprint=incident.fingerprint, cluster=incident.cluster_id)
    resolved = alike.filter(state=Incident.State.RESOLVED, resolved_at__lte=incident.opened_at).exclude(pk=incident.pk)
    return resolved.order_by("-resolved_at").first()


def _attempt_write(*, attempt: Attempt, report: dict[str, Any]) -> None:
    """Write what the report shows of the attempt. Nobody states these columns."""
    timeline = (report.get("logs") or {}).get("timeline") or {}
    attempt.outcome = outcome_of(report)
    attempt.node_count = node_count_of(report)
    attempt.started_at, attempt.ended_at = utc_time(timeline.get("t0")), utc_time(timeline.get("t1"))
    attempt.ran_s = None
    if attempt.started_at and attempt.ended_at:
        attempt.ran_s = max(0.0, (attempt.ended_at - attempt.started_at).total_seconds())
    attempt.evidence_digest = evidence_digest_of(report)
    attempt.duplicate_of = _first_alike(attempt)
    training_set(attempt, timeline, report.get("job") or {})
    attempt.save(update_fields=ATTEMPT_FIELDS)


def _first_alike(attempt: Attempt) -> Attempt | None:
    """The earliest attempt of other jobs of the cluster with the same evidence, if this is a later
    one.
    """
    if not attempt.evidence_digest:
        return None
    alike = Attempt.objects.filter(
        evidence_digest=attempt.evidence_digest, job__cluster=attempt.job.cluster_id, pk__lt=attempt.pk
    )
    return alike.exclude(job=attempt.job_id).order_by("pk").first()


def _framework_set(job: Job, attempt: Attempt, report: dict[str, Any]) -> None:
    """The stated framework, else that of the last attempt that shows one. Attempts are diagnosed in order."""
    found = str((report.get("job") or {}).get("framework") or "").replace("unknown", "")[:40]
    is_first = not job.attempts.filter(number__lt=attempt.number).exists()
    if job.declared_framework or found or is_first:
        job.framework = job.declared_framework or found
