"""From a run to a stored diagnosis: fetch the parsed evidence, call the engine, store its report."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from ingest import selectors as evidence
from ingest import temp_files
from ingest.locks import lock_rows
from ingest.models import DEMONSTRATION, Attempt, Job, Node
from ingest.services import Work, parts
from ingest.services.engine_calls import engine_call
from ingest.services.history import history_for, history_learn
from ingest.services.rereading import artifacts_reread
from triage.domain import standing
from triage.domain.report_facts import (
    IncidentFacts,
    incident_of,
    is_steady,
    node_count_of,
    node_names_of,
    outcome_of,
    utc_time,
    week_of,
)
from triage.flow_tables import tables_store
from triage.lanes import fold
from triage.models import Activity, Diagnosis, Finding, GroupRule, Incident, Suspect
from triage.services.indexing import search_entry_write
from triage.services.learning import classifier_in_force
from triage.services.rules import rules_in_force


def job_diagnose(work: Work) -> None:
    """Diagnose every attempt of the run's job at the run's revision: the work of the ``diagnose`` task.

    The pure engine reads column files and byte ranges, in a separate process; only its reports reach the database.
    """
    job = Job.objects.select_related("cluster").get(pk=work.run.job_id)
    revision = int(work.run.parameters.get("revision", 0))
    as_of = (job.evidence_changed_at or job.created_at).timestamp()
    rules, model = rules_in_force(), classifier_in_force()
    offered = parts.handlers(work)
    with temp_files.temp_dir() as folder:
        for attempt in job.attempts.order_by("number"):
            if evidence.is_removed(attempt):
                work.log("Evidence was removed to free space, so the earlier diagnosis stays. Send all files again.")
                continue
            try:
                parsed = evidence.parsed_for(attempt, folder)
            except (FileNotFoundError, ValueError):
                count = artifacts_reread(job=job)
                work.log(f"What was read from {count:,} files is lost or of another version: it is read again first.")
                return
            if not parsed:
                continue
            report = engine_call(
                work,
                "diagnose_job",
                {"read": evidence.reader_for(attempt), **offered},
                parsed=parsed,
                job=evidence.hints_for(job, attempt),
                history=history_for(job),
                as_of=as_of,
                rules=rules,
                model=model,
                min_gpu_s=settings.SLOW_LEAST_GPU_S,
                tables=str(tables := folder / f"tables-{attempt.number}"),
                are_far=parts.are_far(),
                dask=settings.DASK,
            )
            with transaction.atomic():
                lock_rows(Job.objects).get(pk=job.pk)
                work.write(stage="storing")  # raises if another worker holds the run now, and nobody takes it meanwhile
                stored = diagnosis_store(attempt=attempt, revision=revision, report=report)
            tables_store(stored, tables)
            job.refresh_from_db()
            history_learn(work, job, parsed, is_steady=is_steady(report))


@transaction.atomic
def diagnosis_store(
    *, attempt: Attempt, revision: int, report: dict[str, Any], now: datetime | None = None
) -> Diagnosis:
    """Store one report: the immutable diagnosis, its incident (attempt, ordinal), findings, suspects, activity.

    Storing the same revision again changes nothing (a task may run twice). Decisions belong to the incident and stay.
    """
    now = now or timezone.now()
    job = lock_rows(Job.objects.select_related("cluster")).get(pk=attempt.job_id)
    existing = Diagnosis.objects.filter(attempt=attempt, revision=revision).first()
    if existing:
        return existing
    logs = report.get("logs")
    timeline = fold((logs or {}).get("timeline") or {})
    lean = {**report, "logs": {k: v for k, v in logs.items() if k != "timeline"}} if logs is not None else report
    if report.get("flows"):  # a table stores the steps of every rank
        jobs = [{k: v for k, v in row.items() if k != "rank_steps"} for row in report["flows"].get("jobs") or []]
        lean = {**lean, "flows": {**report["flows"], "jobs": jobs}}
    digests = {row.get("path", ""): row.get("sha256", "") for row in report.get("inputs") or []}
    diagnosis = Diagnosis.objects.create(
        job=job,
        attempt=attempt,
        revision=revision,
        engine=str(report.get("engine", ""))[:40],
        history_digest=str((report.get("history") or {}).get("digest") or "")[:64],
        input_digests=digests,
        report=lean,
        timeline=timeline,
        created_at=now,
    )
    names = node_names_of(report)
    Node.objects.bulk_create([Node(cluster=job.cluster, name=name) for name in names], ignore_conflicts=True)
    is_last = not job.attempts.filter(number__gt=attempt.number).exists()
    facts = incident_of(report, job.declared_outcome if is_last else "")  # what people say is of how the job ended
    incident = Incident.objects.filter(attempt=attempt, ordinal=0).first()
    week = incident.week if incident else None
    if facts:
        incident = _incident_write(job=job, incident=incident, diagnosis=diagnosis, facts=facts, now=now)
    elif incident:
        incident.is_withdrawn = True
        incident.diagnosis = diagnosis
        incident.save(update_fields=["is_withdrawn", "diagnosis"])
    _attempt_conclude(job=job, attempt=attempt, report=report, is_last=is_last)
    Activity.objects.create(
        incident=incident,
        job=job,
        kind="diagnosed",
        data={
            "engine": diagnosis.engine,
            "revision": revision,
            "after": facts.category if facts else "no failure found",
            # the former week, whose sums change, too
            **({"week": str(week)} if incident and week and incident.week != week else {}),
        },
    )
    return diagnosis


def _detected_s(job: Job, incident: Incident, facts: IncidentFacts) -> float | None:
    """Seconds from the failure to its incident; None if unknown, and for a recording, whose age is no detection."""
    if facts.happened_at is None or job.cluster.slug == DEMONSTRATION:
        return None
    return max(0.0, (incident.opened_at - facts.happened_at).total_seconds())


def _incident_write(
    *, job: Job, incident: Incident | None, diagnosis: Diagnosis, facts: IncidentFacts, now: datetime
) -> Incident:
    is_new = incident is None
    incident = incident or Incident(attempt=diagnosis.attempt, ordinal=0, opened_at=now)
    decisions = [] if is_new else list(incident.decisions.all())
    happened_at = facts.happened_at or (now if is_new else incident.happened_at)
    node_hours = facts.lost_s / 3600 * facts.node_count if facts.lost_s is not None and facts.node_count else None
    gpu_hours = facts.gpu_hours
    if gpu_hours is None and node_hours is not None:
        gpu_hours = node_hours * job.cluster.gpus_per_node
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
        "node_hours": node_hours,
        "gpu_hours": gpu_hours,
        "detected_s": _detected_s(job, incident, facts),
        "is_withdrawn": False,
    }
    for name, value in values.items():
        setattr(incident, name, value)
    if is_new:
        incident.regressed_from = _last_resolved(job=job, fingerprint=facts.fingerprint)
        rules = GroupRule.objects.filter(cluster=job.cluster, fingerprint=facts.fingerprint)
        rule = rules.last() if facts.fingerprint else None
        incident.group = rule.group if rule else None
    incident.save()
    incident.findings.all().delete()
    incident.suspects.all().delete()
    Finding.objects.bulk_create(
        Finding(incident=incident, position=n, **{name: getattr(row, name) for name in row.__slots__})
        for n, row in enumerate(facts.findings)
    )
    known = {
        node.name: node
        for node in Node.objects.filter(cluster=job.cluster, name__in=[row.entity for row in facts.suspects])
    }
    words = standing.suspect_words(decisions)
    Suspect.objects.bulk_create(
        Suspect(
            incident=incident,
            position=n,
            word=words.get(row.entity, ""),
            node=known.get(row.entity) if row.kind == "node" else None,
            **{name: getattr(row, name) for name in row.__slots__},
        )
        for n, row in enumerate(facts.suspects)
    )
    search_entry_write(incident=incident, job=job, facts=facts)
    if incident.regressed_from_id and is_new:
        Activity.objects.create(
            incident=incident,
            job=job,
            kind="regressed",
            data={"before": incident.regressed_from_id, "subject": facts.fingerprint},
        )
    return incident


def _last_resolved(*, job: Job, fingerprint: str) -> Incident | None:
    """The latest resolved incident with the same fingerprint on the same cluster: the new one is its regression."""
    if not fingerprint:
        return None
    return (
        Incident.objects.filter(fingerprint=fingerprint, cluster=job.cluster, state=Incident.State.RESOLVED)
        .order_by("-resolved_at")
        .first()
    )


def _attempt_conclude(*, job: Job, attempt: Attempt, report: dict[str, Any], is_last: bool) -> None:
    """Write what the evidence shows of the attempt and the job, unless a person stated otherwise."""
    logs = report.get("logs") or {}
    timeline = logs.get("timeline") or {}
    outcome = outcome_of(report)
    attempt.outcome = outcome
    attempt.node_count = node_count_of(report) or attempt.node_count
    attempt.started_at = attempt.started_at or utc_time(timeline.get("t0"))
    attempt.ended_at = attempt.ended_at or utc_time(timeline.get("t1"))
    if attempt.started_at and attempt.ended_at:
        attempt.ran_s = max(0.0, (attempt.ended_at - attempt.started_at).total_seconds())
    attempt.save(update_fields=["outcome", "node_count", "started_at", "ended_at", "ran_s"])
    if is_last:
        job.outcome = outcome
    framework = str((report.get("job") or {}).get("framework") or "")
    if not job.framework and framework != "unknown":
        job.framework = framework[:40]
    job.save(update_fields=["outcome", "framework"])
