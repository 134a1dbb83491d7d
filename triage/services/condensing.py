"""Condenses an old job: the lines of its logs that are worth their space are kept, the other bytes are deleted."""

from __future__ import annotations

import tempfile
from pathlib import Path

from django.conf import settings
from django.db import transaction

from diagnosis.model import LOG_KINDS
from ingest import selectors as evidence
from ingest.isolation import ReaderLost
from ingest.locks import lock_rows
from ingest.models import Artifact, Attempt, Job, RunLog
from ingest.services import Work
from ingest.services.engine_calls import engine_call, input_bytes_of
from ingest.services.evidence_removal import condensed_mark, removal_finish
from ingest.services.history import history_for
from ingest.services.kept_lines import kept_lines_put
from ingest.services.parse_results import parse_hints
from triage.models import Activity
from triage.services.learning import classifier_in_force
from triage.services.rules import rule_texts_in_force


def job_condense(work: Work) -> None:
    """The work of a condense run, attempt by attempt. An attempt whose verdict needs all lines stays as it is."""
    job = Job.objects.select_related("cluster").get(pk=work.run.job_id)
    for attempt in job.attempts.order_by("number"):
        if evidence.is_removed(attempt):
            continue
        with tempfile.TemporaryDirectory(prefix="faultline-condense-") as folder:
            _attempt_condense(work, job, attempt, Path(folder))


def _attempt_condense(work: Work, job: Job, attempt: Attempt, folder: Path) -> None:
    rows = Artifact.objects.filter(attempt=attempt, is_superseded=False, kind__in=LOG_KINDS)
    logs = {row.path: row for row in rows.select_related("blob", "attempt")}
    try:
        parsed = evidence.parsed_for(attempt, folder / "parsed")
    except (FileNotFoundError, ValueError):
        work.log("What was read from the logs is lost or of another version: the job keeps all its evidence.")
        return
    try:
        counts = engine_call(
            work,
            "condense_job",
            {"read": evidence.reader_of_several(attempt)},
            input_bytes=input_bytes_of(parsed),
            parsed=parsed,
            hints={path: parse_hints(row, job) for path, row in logs.items()},
            out=str(table := folder / "kept.parquet"),
            job=evidence.hints_for(job, attempt),
            history=history_for(job),
            as_of=(job.evidence_changed_at or job.created_at).timestamp(),
            rule_texts=rule_texts_in_force(),
            model=classifier_in_force(),
            min_gpu_s=settings.SLOW_LEAST_GPU_S,
        )
    except ReaderLost as error:
        work.log(f"The job keeps all its evidence. {error}", level=RunLog.Level.WARNING)
        return
    if counts is None:
        work.log("Fewer lines would change the verdict, or save too little: the job keeps all its evidence.")
        return
    blob = kept_lines_put(table)
    line_counts = {path: logs[path].lines for path in counts if path in logs}
    with transaction.atomic():
        revision = lock_rows(Job.objects).get(pk=job.pk).revision
        work.write()  # raises if another worker holds the run now
        if revision != job.revision:
            return
        kept = {logs[path].pk: (blob.pk, counts[path]) for path in line_counts}
        condensed_mark(kept=kept)
        data = {"lines": sum(counts.values()), "of": sum(line_counts.values()), "files": len(line_counts)}
        Activity.objects.create(job=job, kind="evidence_condensed", data=data)
    files, size = removal_finish(job=job)
    work.log(f"{data['lines']:,} of {data['of']:,} lines in {files:,} files were kept, {size:,} bytes were freed.")
