"""The pool of healthy jobs: grows by itself with every job that succeeded. Each cluster has its own."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from django.core.files.storage import storages
from django.db.models import Q, QuerySet

from ingest import storage
from ingest.models import HistoryEntry, Job, Outcome

if TYPE_CHECKING:  # the engine is heavy: imported where workers use it, not when the site starts
    from diagnosis import Parsed
    from diagnosis.history import History, JobEvents

#: the newest healthy jobs of a family are compared with; more cost time and change nothing
POOL_MAX = 100


def history_for(job: Job) -> History:
    """The healthy jobs this one is compared with: of its family, or if there are too few its framework, or all; of its
    own cluster, and of others only where an administrator lets both share.
    """
    from diagnosis.history import POOL_MIN  # noqa: PLC0415
    from diagnosis.logs.mask import VERSION  # noqa: PLC0415

    near = Q(job__cluster=job.cluster_id)
    if job.cluster.shares_history:
        near |= Q(job__cluster__shares_history=True)
    everything = HistoryEntry.objects.filter(near, is_excluded=False, mask_version=str(VERSION)).exclude(job=job)
    for field, value in (("family", job.pool), ("framework", job.framework)):
        found = everything.filter(**{field: value})
        if value and found.count() >= POOL_MIN:
            return _load(found)
    return _load(everything)


def history_learn(job: Job, parsed: list[Parsed], *, is_steady: bool = True) -> HistoryEntry | None:
    """Keep what a healthy job printed; a job that turns out not to be one leaves the pool.

    ``is_steady`` False: the diagnosis found it slow or restarted, so it is no example of what is normal.
    """
    from diagnosis.history import History, learn  # noqa: PLC0415
    from diagnosis.logs.mask import VERSION  # noqa: PLC0415

    if not is_steady or not is_healthy(job, parsed):
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


def is_healthy(job: Job, parsed: list[Parsed]) -> bool:
    """Whether others may be compared with this job: its evidence says that it succeeded and nobody says otherwise.

    Where the evidence does not say how it ended, the uploader's word counts, but only beside logs without an error that
    no rule calls harmless: else whoever uploads anything could make the failures of others look ordinary.
    """
    from diagnosis.history import unexplained_errors  # noqa: PLC0415

    said, seen = job.declared_outcome, job.outcome
    if said not in (Outcome.UNKNOWN, Outcome.SUCCEEDED) or seen in (Outcome.FAILED, Outcome.CANCELLED):
        return False
    if seen == Outcome.SUCCEEDED:
        return True
    return said == Outcome.SUCCEEDED and not unexplained_errors(parsed)


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
