"""The pool of healthy jobs of each cluster. Every job that succeeded joins it automatically."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from django.core.files.storage import storages
from django.db import transaction
from django.db.models import Q, QuerySet

from diagnosis import Parsed
from diagnosis.history import MIN_POOL_JOBS, History, JobEvents
from diagnosis.kinds.logs.text.mask import VERSION
from ingest import storage
from ingest.isolation import ReaderLost
from ingest.models import HistoryEntry, Job, Outcome, RunLog
from ingest.selectors import has_whole_evidence
from ingest.services.engine_calls import engine_call, input_bytes_of
from ingest.services.work import Work

#: a job is compared with the newest healthy jobs of its family; more of them cost time and change nothing
MAX_POOL = 100


def history_for(job: Job) -> History:
    """The healthy jobs that this one is compared with: of its family; if there are too few, of its stated
    framework; then all. What an earlier diagnosis found does not matter: the same evidence gets the same answer.

    Of its own cluster; of other clusters only if an administrator lets both share.
    """
    comparable = Q(job__cluster=job.cluster_id)
    if job.cluster.shares_history:
        comparable |= Q(job__cluster__shares_history=True)
    everything = HistoryEntry.objects.filter(comparable, is_excluded=False, mask_version=str(VERSION)).exclude(job=job)
    for field, value in (("family", job.pool), ("framework", job.declared_framework)):
        entries = everything.filter(**{field: value})
        if value and entries.count() >= MIN_POOL_JOBS:
            return _load(entries)
    return _load(everything)


def history_learn(work: Work, job: Job, parsed: list[Parsed], *, is_steady: bool = True) -> HistoryEntry | None:
    """Store what a healthy job printed. A job that is no longer healthy leaves the pool.

    ``is_steady`` False: the diagnosis found the job slow or restarted, so it is no example of normal behaviour. What it
    printed is read in a separate process, as all evidence is; if that fails, the job is not stored either.
    """
    learned = None
    if is_steady and may_be_healthy(job):
        key = f"history/{job.pk}.json"
        with tempfile.TemporaryDirectory(prefix="faultline-history-") as folder:
            file = Path(folder) / "history.json"
            arguments = {"job_id": job.slug, "family": job.pool, "framework": job.framework, "file": str(file)}
            try:
                learned = engine_call(
                    work,
                    "learn_job",
                    input_bytes=input_bytes_of(parsed),
                    parsed=parsed,
                    is_certain=job.found_outcome == Outcome.SUCCEEDED,
                    **arguments,
                )
            except ReaderLost as lost:
                work.log(f"Other jobs are not compared with this one. {lost}", level=RunLog.Level.WARNING)
            if learned is not None:
                storage.put(storages["parsed"], key, file)
    with transaction.atomic():
        work.write()  # raises if another worker holds the run now
        if learned is None:
            HistoryEntry.objects.filter(job=job).delete()
            return None
        values = {"family": job.pool, "framework": job.framework, "mask_version": str(VERSION), "key": key, **learned}
        return HistoryEntry.objects.update_or_create(job=job, defaults=values)[0]


def may_be_healthy(job: Job) -> bool:
    """Whether other jobs may be compared with this one: its evidence is whole and shows success,
    and no person contradicts.

    If the evidence does not show how the job ended, the uploader's statement counts, but only if the logs have no error
    except known harmless ones, which is found out while learning. Else any upload could make failures of others look
    normal.
    """
    declared, shown = job.declared_outcome, job.found_outcome
    if declared not in (Outcome.UNKNOWN, Outcome.SUCCEEDED) or shown in (Outcome.FAILED, Outcome.CANCELLED):
        return False
    return Outcome.SUCCEEDED in (declared, shown) and has_whole_evidence(job)


def _load(entries: QuerySet[HistoryEntry]) -> History:
    jobs: list[JobEvents] = []
    for key in entries.order_by("-learned_at").values_list("key", flat=True)[:MAX_POOL]:
        try:
            with storages["parsed"].open(key, "rb") as file:
                jobs.extend(History.from_json(json.load(file)).jobs)
        except (OSError, ValueError):  # deleted by hand: the pool has one job less
            continue
    return History(tuple(jobs))
