"""The pool of healthy jobs: grows by itself with every job that succeeded."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from django.core.files.storage import storages
from django.db.models import Q, QuerySet

from diagnosis import Parsed
from diagnosis.history import POOL_MIN, History, JobEvents, learn
from diagnosis.logs.mask import VERSION
from ingest import storage
from ingest.models import HistoryEntry, Job, Outcome

#: the newest healthy jobs of a family are compared with; more cost time and change nothing
POOL_MAX = 100


def history_for(job: Job) -> History:
    """The healthy jobs this one is compared with: of its family, or if there are too few its framework, or all."""
    everything = HistoryEntry.objects.filter(is_excluded=False, mask_version=str(VERSION)).exclude(job=job)
    for narrow in (Q(family=job.pool), Q(framework=job.framework)):
        if not all(value for _, value in narrow.children):  # type: ignore[misc]
            continue
        found = everything.filter(narrow)
        if found.count() >= POOL_MIN:
            return _load(found)
    return _load(everything)


def history_learn(job: Job, parsed: list[Parsed]) -> HistoryEntry | None:
    """Keep what a successful job printed; a job that turns out not to have succeeded leaves the pool."""
    if outcome_of(job) != Outcome.SUCCEEDED:
        HistoryEntry.objects.filter(job=job).delete()
        return None
    events = learn(parsed, job_id=job.slug, family=job.pool, framework=job.framework)
    if not events.counts:
        return None
    history = History((events,))
    key = f"history/{job.pk}.json"
    with tempfile.TemporaryDirectory(prefix="faultline-history-") as folder:
        file = Path(folder) / "history.json"
        history.save(file)
        storage.put(storages["parsed"], key, file)
    values = {
        "family": job.pool,
        "framework": job.framework,
        "mask_version": str(VERSION),
        "digest": history.digest,
        "key": key,
        "node_hours": events.node_hours,
    }
    return HistoryEntry.objects.update_or_create(job=job, defaults=values)[0]


def outcome_of(job: Job) -> str:
    """What people said of the outcome, else what the evidence says."""
    return job.declared_outcome if job.declared_outcome != Outcome.UNKNOWN else job.outcome


def _load(entries: QuerySet[HistoryEntry]) -> History:
    jobs: list[JobEvents] = []
    for key in entries.order_by("-learned_at").values_list("key", flat=True)[:POOL_MAX]:
        try:
            with storages["parsed"].open(key, "rb") as file:
                jobs.extend(History.from_json(json.load(file)).jobs)
        except (OSError, ValueError):  # removed by hand: the pool is smaller by one
            continue
    return History(tuple(jobs))
