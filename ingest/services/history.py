"""The pool of healthy jobs: grows by itself with every job that succeeded."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from django.core.files.storage import storages
from django.db.models import QuerySet

from ingest import storage
from ingest.models import HistoryEntry, Job, Outcome

if TYPE_CHECKING:  # the engine is heavy: imported where workers use it, not when the site starts
    from diagnosis import Parsed
    from diagnosis.history import History, JobEvents

#: the newest healthy jobs of a family are compared with; more cost time and change nothing
POOL_MAX = 100


def history_for(job: Job) -> History:
    """The healthy jobs this one is compared with: of its family, or if there are too few its framework, or all."""
    from diagnosis.history import POOL_MIN  # noqa: PLC0415
    from diagnosis.logs.mask import VERSION  # noqa: PLC0415

    everything = HistoryEntry.objects.filter(is_excluded=False, mask_version=str(VERSION)).exclude(job=job)
    for field, value in (("family", job.pool), ("framework", job.framework)):
        found = everything.filter(**{field: value})
        if value and found.count() >= POOL_MIN:
            return _load(found)
    return _load(everything)


def history_learn(job: Job, parsed: list[Parsed]) -> HistoryEntry | None:
    """Keep what a successful job printed; a job that turns out not to have succeeded leaves the pool."""
    from diagnosis.history import History, learn  # noqa: PLC0415
    from diagnosis.logs.mask import VERSION  # noqa: PLC0415

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
    from diagnosis.history import History  # noqa: PLC0415

    jobs: list[JobEvents] = []
    for key in entries.order_by("-learned_at").values_list("key", flat=True)[:POOL_MAX]:
        try:
            with storages["parsed"].open(key, "rb") as file:
                jobs.extend(History.from_json(json.load(file)).jobs)
        except (OSError, ValueError):  # removed by hand: the pool is smaller by one
            continue
    return History(tuple(jobs))
