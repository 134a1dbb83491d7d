"""The running jobs, as their growing files show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db.models import Count, Max, Q

from ingest.models import Attempt, Job, Outcome, Upload, Watch
from triage.models import Incident
from triage.selectors.access import visible_cluster_ids

#: Attempts on one page.
SHOWN = 200
#: Files and former alarms in the state of one attempt.
SILENT_SHOWN = 5
FORMER_SHOWN = 3
#: Steps in a sparkline, and its size.
_POINTS, _WIDTH, _HEIGHT = 48, 120.0, 24.0


class Running(NamedTuple):
    """One attempt that is followed. ``watch`` is None until its first lines are read."""

    job: Job
    attempt: Attempt
    watch: Watch | None
    files: int
    heard_at: datetime | None
    incident: Incident | None
    beat: str

    @property
    def alarm(self) -> str:
        return self.watch.alarm if self.watch is not None else ""


def attempt_for(user: Any, slug: str, number: int) -> Attempt | None:
    """One attempt with its watch, if the user may see its job. One lean query: hundreds of viewers ask each second."""
    visible = Attempt.objects.filter(job__cluster__in=visible_cluster_ids(user), job__slug=slug, number=number)
    return visible.select_related("watch").defer("watch__state").first()


def unfollowed_count(user: Any) -> int:
    """How many jobs run of which no file grows here: they were uploaded while they ran. For a page without others."""
    return Job.objects.filter(cluster__in=visible_cluster_ids(user), outcome=Outcome.RUNNING).count()


class Source(NamedTuple):
    """A growing file, with the moment of its last bytes."""

    path: str
    size_bytes: int
    heard_at: datetime


class Followed(NamedTuple):
    """The state of one attempt while it runs. ``alarms`` and ``former``: rows of ``kind``, ``text``, ``since``,
    ``until``; ``silent``: the files that have been silent for longest.
    """

    attempt: Attempt
    watch: Watch | None
    beat: str
    alarms: list[dict[str, Any]]
    former: list[dict[str, Any]]
    files: int
    silent: list[Source]


def followed(attempt: Attempt) -> Followed:
    """What is known of a running attempt. Three queries for any number of files."""
    growing = Upload.objects.filter(attempt=attempt, state=Upload.State.RECEIVING, size_bytes=None)
    watch = Watch.objects.filter(attempt=attempt).first()
    state = watch.state if watch is not None else {}
    rows = [{**row, "since": _moment(row["since"]), "until": _moment(row["until"])} for row in state.get("alarms", ())]
    oldest = growing.order_by("updated_at", "path").values_list("path", "offset_bytes", "updated_at")[:SILENT_SHOWN]
    return Followed(
        attempt,
        watch,
        sparkline(state.get("steps") or []),
        [row for row in rows if row["until"] is None],
        [row for row in rows if row["until"] is not None][:FORMER_SHOWN],
        growing.count(),
        [Source(*row) for row in oldest],
    )


def _moment(seconds: Any) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def running_jobs(user: Any) -> list[Running]:
    """Attempts with growing files, of the clusters that the user may see. Three queries.

    Alarms come first, then the longest time without progress.
    """
    is_live = Q(uploads__state=Upload.State.RECEIVING, uploads__size_bytes=None)
    attempts = (
        Attempt.objects.filter(is_live, job__cluster__in=visible_cluster_ids(user))
        .annotate(files=Count("uploads"), heard_at=Max("uploads__updated_at"))
        .select_related("job__cluster", "watch")
        .order_by("-job__created_at", "number")[:SHOWN]
    )
    rows = list(attempts)
    found = Incident.objects.filter(attempt__in=[row.pk for row in rows], is_withdrawn=False, ordinal=0)
    incidents = {incident.attempt_id: incident for incident in found}
    out = []
    for row in rows:
        watch = getattr(row, "watch", None)
        beat = sparkline(watch.state.get("steps") or []) if watch is not None else ""
        out.append(Running(row.job, row, watch, row.files, row.heard_at, incidents.get(row.pk), beat))
    return sorted(out, key=_order)


def _order(row: Running) -> tuple[Any, ...]:
    since = row.watch.advanced_at if row.watch is not None else None
    return not row.alarm, since.timestamp() if since is not None else 0.0, row.job.slug


def sparkline(steps: list[float]) -> str:
    """The points of an SVG polyline of 120 by 24: seconds of the last steps, from zero. Empty below two steps."""
    last = [float(value) for value in steps[-_POINTS:]]
    if len(last) < 2:
        return ""
    top = max(last) or 1.0
    apart = _WIDTH / (len(last) - 1)
    return " ".join(
        f"{n * apart:.1f},{_HEIGHT - 1 - (value / top) * (_HEIGHT - 2):.1f}" for n, value in enumerate(last)
    )
