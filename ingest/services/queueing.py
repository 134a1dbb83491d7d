"""Decides which queued run is next. The rows decide; a message only says that a worker may take a run.

Teams take turns: first the one with the fewest running runs, then the one that waited longest. So do the uploaders of
one team; whoever uploads for no team takes turns with the teams. Among the jobs of one uploader, the one with the least
work in the last hour is next, so that a small job does not wait for earlier large ones. Within a job, files that were
sent by themselves are before archives and their members. One turn in eight takes the oldest run of all, so that nothing
waits without end.

Long work (a large archive, file or diagnosis) needs a slot (:mod:`ingest.slots`): at least one process of each worker
is kept free for short work. A run that turns out to be long after its start takes a slot then, or goes back to the
queue.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from django.db.models import Count, F, Max, Min, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from ingest import slots
from ingest.models import Run
from ingest.services.runs import run_do
from ingest.services.sending import run_send
from ingest.services.work import Work

_RECENT_FOR = timedelta(hours=1)
_OLDEST_EVERY = 8
_turns = itertools.count(1)

type Act = Callable[[Work], None]
type _Count = tuple[int, float]
_NOTHING: Final[_Count] = (0, 0.0)


def work_next(acts: Mapping[str, Act], *, requested: int) -> None:
    """Do the next run of the kinds in ``acts``. If nothing is queued, do ``requested``: the run of a dead worker is
    still marked as running, and only a claim shows that.

    Two workers may choose one run. The one that does not get it chooses again: its message stands for a run that is
    still queued, and no other message would come for it.
    """
    is_oldest = next(_turns) % _OLDEST_EVERY == 0
    while (run_id := next_run(acts, oldest=is_oldest)) is not None:
        slot = None
        if Run.objects.filter(pk=run_id, is_long=True).exists():
            slot = slots.take()
            if slot is None:
                run_id = next_run(acts, is_short=True)
                if run_id is None:
                    return
        if _run_do(run_id, acts, slot):
            return
    _run_do(requested, acts, None)


def _run_do(run_id: int, acts: Mapping[str, Act], slot: slots.Slot | None) -> bool:
    """Whether it was claimed, and done."""
    kind = Run.objects.filter(pk=run_id).values_list("kind", flat=True).first()
    if kind is None or kind not in acts:
        return False
    work = run_do(run_id, acts[kind], slot)
    if work is not None and work.slot is not None:
        _wake_another(acts)
    return work is not None


def next_run(kinds: Mapping[str, Any], *, oldest: bool = False, is_short: bool = False) -> int | None:
    """The id of the next run; None if none waits. Three queries for any number of runs."""
    waiting = Run.objects.filter(state=Run.State.QUEUED, kind__in=list(kinds))
    if is_short:
        waiting = waiting.filter(is_long=False)
    if oldest:
        return waiting.order_by("pk").values_list("pk", flat=True).first()
    owner_fields = {"team": F("job__team"), "uploader": F("job__created_by")}
    first = Coalesce(Min("pk", filter=Q(upload=None)), Min("pk"))
    rows = waiting.order_by().values("job_id", **owner_fields).annotate(first=first)
    jobs = list(rows)
    if len(jobs) < 2:
        return jobs[0]["first"] if jobs else None
    recent = Run.objects.filter(started_at__gt=timezone.now() - _RECENT_FOR).order_by()
    under_way = Count("pk", filter=Q(state=Run.State.RUNNING))
    counts = recent.values(**owner_fields).annotate(under_way=under_way, last=Max("started_at"))
    uploaders, teams = _counted(counts)
    served = dict(recent.values_list("job_id").annotate(count=Count("pk")))

    def turn(row: Any) -> tuple[Any, ...]:
        uploader_counts = uploaders.get((row["team"], row["uploader"]), _NOTHING)
        side = uploader_counts if row["team"] is None else teams.get(row["team"], _NOTHING)
        return (*side, *uploader_counts, served.get(row["job_id"], 0), row["first"])

    return int(min(jobs, key=turn)["first"])


def _counted(rows: Iterable[Any]) -> tuple[dict[tuple[Any, Any], _Count], dict[Any, _Count]]:
    """Of each uploader in each team, and of each team: the runs under way, and when the last one began."""
    uploaders: dict[tuple[Any, Any], _Count] = {}
    teams: dict[Any, _Count] = {}
    for row in rows:
        counts = row["under_way"], row["last"].timestamp()
        before = teams.get(row["team"], _NOTHING)
        uploaders[row["team"], row["uploader"]] = counts
        teams[row["team"]] = before[0] + counts[0], max(before[1], counts[1])
    return uploaders, teams


def _wake_another(kinds: Mapping[str, Any]) -> None:
    """A slot is free: runs that waited for one have no message any more."""
    run = Run.objects.filter(state=Run.State.QUEUED, kind__in=list(kinds), is_long=True).order_by("pk").first()
    if run is not None:
        run_send(run)
