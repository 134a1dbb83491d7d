"""The running jobs, as their growing files show them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Count, Exists, Max, OuterRef, Q

from diagnosis.live import AlarmRow, decode_alarms, decode_losses, decode_steps
from ingest.models import Attempt, Job, Outcome, Upload, Watch
from triage.models import Incident
from triage.selectors.access import visible_cluster_ids

#: Attempts on one page.
MAX_RUNNING = 200
#: Files and former alarms in the state of one attempt.
MAX_SILENT = 5
MAX_FORMER = 3
#: Attempts that ended, and for how many days the page of running jobs shows them.
MAX_ENDED = 10
ENDED_DAYS = 7
#: Steps in a sparkline, and its size.
_POINTS, _WIDTH, _HEIGHT = 48, 120.0, 24.0


class Curve(NamedTuple):
    """The last values of a running job as a line of 120 by 24, the range that it spans, and the
    latest of them.
    """

    points: str
    low: float
    high: float
    last: float


class RunningAttempt(NamedTuple):
    """One attempt that is followed. ``watch`` is None until its first lines are read."""

    job: Job
    attempt: Attempt
    watch: Watch | None
    files: int
    last_bytes_at: datetime | None
    incident: Incident | None
    steps: Curve | None
    losses: Curve | None

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


class EndedAttempt(NamedTuple):
    """An attempt that was followed and ended: the latest alarm that it had, and its incident."""

    attempt: Attempt
    watch: Watch
    alarm: ShownAlarm | None
    incident: Incident | None


def ended_attempts(user: Any, now: datetime) -> list[EndedAttempt]:
    """The latest followed attempts of :data:`ENDED_DAYS` of which no file grows any more. Two
    queries.
    """
    growing = Upload.objects.filter(state=Upload.State.RECEIVING, size_bytes=None)
    watches = Watch.objects.filter(
        ~Exists(growing.filter(attempt=OuterRef("attempt"))),
        attempt__job__cluster__in=visible_cluster_ids(user),
        observed_at__gte=now - timedelta(days=ENDED_DAYS),
    )
    latest = list(watches.select_related("attempt__job").order_by("-observed_at")[:MAX_ENDED])
    incidents = _incidents_of([watch.attempt for watch in latest])
    ended = []
    for watch in latest:
        alarm = next(iter(alarms_of(watch.attempt)), None)
        ended.append(EndedAttempt(watch.attempt, watch, alarm, incidents.get(watch.attempt_id)))
    return ended


def _incidents_of(attempts: Sequence[Attempt]) -> dict[int, Incident]:
    """The first incident of each of these attempts. One query."""
    ids = [row.pk for row in attempts]
    firsts = Incident.objects.filter(attempt__in=ids, is_withdrawn=False, ordinal=0)
    return {incident.attempt_id: incident for incident in firsts}


class GrowingFile(NamedTuple):
    """A growing file, with the moment of its last bytes."""

    path: str
    size_bytes: int
    last_bytes_at: datetime


class ShownAlarm(NamedTuple):
    """An alarm that holds, or held until ``until``."""

    kind: str
    text: str
    since: datetime
    until: datetime | None


class AttemptState(NamedTuple):
    """The state of one attempt while it runs. ``silent_files``: the files that have been silent for longest."""

    attempt: Attempt
    watch: Watch | None
    steps: Curve | None
    losses: Curve | None
    alarms: list[ShownAlarm]
    former_alarms: list[ShownAlarm]
    files: int
    silent_files: list[GrowingFile]


def attempt_state(attempt: Attempt) -> AttemptState:
    """What is known of a running attempt. Three queries for any number of files."""
    growing = Upload.objects.filter(attempt=attempt, state=Upload.State.RECEIVING, size_bytes=None)
    watch = Watch.objects.filter(attempt=attempt).first()
    state = watch.state if watch is not None else {}
    alarms = [_shown(row) for row in decode_alarms(state)]
    oldest = growing.order_by("updated_at", "path").values_list("path", "offset_bytes", "updated_at")[:MAX_SILENT]
    return AttemptState(
        attempt,
        watch,
        curve(decode_steps(state), is_from_zero=True),
        curve(decode_losses(state)),
        [alarm for alarm in alarms if alarm.until is None],
        [alarm for alarm in alarms if alarm.until is not None][:MAX_FORMER],
        growing.count(),
        [GrowingFile(*row) for row in oldest],
    )


def _shown(row: AlarmRow) -> ShownAlarm:
    until = None if row.until is None else datetime.fromtimestamp(row.until, UTC)
    return ShownAlarm(row.kind, row.text, datetime.fromtimestamp(row.since, UTC), until)


def alarms_of(attempt: Attempt | None) -> list[ShownAlarm]:
    """The alarms that a job had while it ran, latest first. One query, none for an attempt that nobody followed."""
    watch = getattr(attempt, "watch", None)
    rows = [_shown(row) for row in decode_alarms(watch.state)] if watch is not None else []
    return sorted(rows, key=lambda row: row.since, reverse=True)


def running_jobs(user: Any) -> list[RunningAttempt]:
    """Attempts with growing files, of the clusters that the user may see. Three queries.

    Alarms come first, then the longest time without progress.
    """
    is_live = Q(uploads__state=Upload.State.RECEIVING, uploads__size_bytes=None)
    attempts = (
        Attempt.objects.filter(is_live, job__cluster__in=visible_cluster_ids(user))
        .annotate(files=Count("uploads"), last_bytes_at=Max("uploads__updated_at"))
        .select_related("job__cluster", "watch")
        .order_by("-job__created_at", "number")[:MAX_RUNNING]
    )
    rows = list(attempts)
    incidents = _incidents_of(rows)
    out = []
    for row in rows:
        watch = getattr(row, "watch", None)
        state = watch.state if watch is not None else {}
        out.append(
            RunningAttempt(
                job=row.job,
                attempt=row,
                watch=watch,
                files=row.files,
                last_bytes_at=row.last_bytes_at,
                incident=incidents.get(row.pk),
                steps=curve(decode_steps(state), is_from_zero=True),
                losses=curve(decode_losses(state)),
            )
        )
    return sorted(out, key=_sort_key)


def _sort_key(row: RunningAttempt) -> tuple[Any, ...]:
    since = row.watch.advanced_at if row.watch is not None else None
    return not row.alarm, since.timestamp() if since is not None else 0.0, row.job.slug


def curve(values: list[float], *, is_from_zero: bool = False) -> Curve | None:
    """The last values from the lowest (or from zero) to the highest; None below two."""
    last = [float(value) for value in values[-_POINTS:]]
    if len(last) < 2:
        return None
    low, high = 0.0 if is_from_zero else min(last), max(last)
    span = (high - low) or 1.0
    distance = _WIDTH / (len(last) - 1)
    places = [_HEIGHT - 1 - (value - low) / span * (_HEIGHT - 2) for value in last]
    points = " ".join(f"{n * distance:.1f},{y:.1f}" for n, y in enumerate(places))
    return Curve(points, low, high, last[-1])
