"""From a run to a stored diagnosis: fetch the parsed evidence, call the engine, store its report."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from ingest import selectors as evidence
from ingest import temp_files
from ingest.isolation import ReaderLost
from ingest.locks import lock_rows
from ingest.models import Attempt, Job, RunLog
from ingest.services import Work, parts
from ingest.services.engine_calls import engine_call, input_bytes_of
from ingest.services.history import history_for, history_learn
from ingest.services.rereading import artifacts_reread
from triage.diagnosis_tables import tables_store
from triage.domain.report_facts import is_steady
from triage.lanes import fold
from triage.models import Activity, Diagnosis, Suspect
from triage.services.deriving import rows_derive
from triage.services.learning import classifier_in_force
from triage.services.rules import rule_texts_in_force

#: stages that one diagnosis may lose, one try each
MAX_LEFT_OUT: Final = 3


def job_diagnose(work: Work) -> None:
    """Diagnose every attempt of the run's job at the run's revision: the work of the ``diagnose`` task.

    The pure engine reads column files and byte ranges, in a separate process; only its reports reach the database.
    """
    job = Job.objects.select_related("cluster").get(pk=work.run.job_id)
    revision = int(work.run.parameters.get("revision", 0))
    as_of = (job.evidence_changed_at or job.created_at).timestamp()
    rule_texts, model = rule_texts_in_force(), classifier_in_force()
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
            report = _report_of(
                work,
                {"read": evidence.reader_of_several(attempt), **offered},
                input_bytes=input_bytes_of(parsed),
                parsed=parsed,
                job=evidence.hints_for(job, attempt),
                history=history_for(job),
                as_of=as_of,
                rule_texts=rule_texts,
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


def _report_of(work: Work, handlers: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """The engine's report. A stage that ends its process (a crash, too much memory, no end) is left out of the next
    try, so that the job gets what the others find. Raises :class:`~ingest.isolation.ReaderLost` if that does not help.
    """
    left_out: list[str] = []
    running = [""]

    def step(stage: str) -> None:
        running[0] = stage

    while True:
        running[0] = ""
        try:
            report: dict[str, Any] = engine_call(
                work, "diagnose_job", {**handlers, "step": step}, left_out=tuple(left_out), **arguments
            )
        except ReaderLost as lost:
            stage = running[0]
            if lost.end is not None or not stage or stage in left_out or len(left_out) == MAX_LEFT_OUT:
                raise
            left_out.append(stage)
            work.log(f"The diagnosis began again without one stage ({stage}). {lost}", level=RunLog.Level.WARNING)
        else:
            return report


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
    accused_before = _accused_nodes(job)
    incident, more_weeks = rows_derive(diagnosis=diagnosis, job=job, report=report, now=now)
    former_nodes = accused_before and accused_before - _accused_nodes(job)
    Activity.objects.create(
        incident=incident,
        job=job,
        kind="diagnosed",
        data={
            "engine": diagnosis.engine,
            "revision": revision,
            "after": incident.category if incident and not incident.is_withdrawn else "no failure found",
            # other weeks whose sums change, too
            **({"weeks": sorted(map(str, more_weeks))} if more_weeks else {}),
            # machines that it accuses no more, whose tallies change, too
            **({"former_nodes": sorted(former_nodes)} if former_nodes else {}),
        },
    )
    return diagnosis


def _accused_nodes(job: Job) -> set[int]:
    """The machines that incidents of the job accuse. One query."""
    accused = Suspect.objects.filter(incident__job=job, is_accused=True, node__isnull=False)
    return set(accused.order_by().values_list("node", flat=True))
