"""The health of the installation."""

from __future__ import annotations

import itertools
import shutil
from datetime import datetime, timedelta
from typing import Any

import redis
from django.conf import settings
from django.db.models import Count, Min, Q, QuerySet, Sum
from django.utils import timezone

from ingest.models import DEMONSTRATION, Artifact, Blob, Job, Run
from triage.models import Delivery, Incident
from triage.selectors.process_figures import process_lines

#: the queue of each kind of run
_QUEUES = {Run.Kind.UNPACK: "parse", Run.Kind.PARSE: "parse"} | dict.fromkeys(
    (Run.Kind.DIAGNOSE, Run.Kind.CONDENSE, Run.Kind.PART), "diagnose"
)

#: by whether a run has shown that it is long (`ingest.slots`)
_LANES = {False: "short", True: "long"}

#: a run that takes longer than this is named to operators
LONG_S = 600


def broker_answers() -> bool:
    """Whether the broker answers within a second."""
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1) as client:
            return bool(client.ping())
    except (redis.RedisError, OSError):
        return False


def old_runs() -> tuple[int, float]:
    """How many runs have been running for longer than :data:`LONG_S`, and the age of the oldest one in seconds. The
    age is that of the present try. One query.
    """
    since = timezone.now() - timedelta(seconds=LONG_S)
    running = Run.objects.filter(state=Run.State.RUNNING)
    row = running.aggregate(oldest=Min("started_at"), n=Count("pk", filter=Q(started_at__lt=since)))
    return row["n"], _age_s(row["oldest"])


def metrics_lines() -> list[str]:
    """Figures in Prometheus' text format, without the demonstration. Nine queries."""
    now = timezone.now()
    may_send = Q(route__resume_at=None) | Q(route__resume_at__lte=now)  # not while a route is quiet
    waits = Delivery.objects.filter(may_send, state=Delivery.State.WAITING, due_at__lte=now)
    notify = waits.aggregate(n=Count("pk"), oldest=Min("due_at"))
    runs = Run.objects.order_by().values_list("kind", "is_long", "state")
    counts = dict.fromkeys(itertools.product(("diagnose", "parse"), Run.State.values), 0)
    lanes = dict.fromkeys(itertools.product(_LANES.values(), (Run.State.QUEUED, Run.State.RUNNING)), 0)
    oldest = {"diagnose": None, "notify": notify["oldest"], "parse": None}
    waits_since: dict[str, datetime | None] = dict.fromkeys(_LANES.values())
    for kind, is_long, state, count, since in runs.annotate(n=Count("pk"), oldest=Min("created_at")):
        queue, lane = _QUEUES[kind], _LANES[is_long]
        counts[queue, state] += count
        if (lane, state) in lanes:
            lanes[lane, state] += count
        if state == Run.State.QUEUED:
            oldest[queue] = min(filter(None, (oldest[queue], since)))
            waits_since[lane] = min(filter(None, (waits_since[lane], since)))
    is_queue_there = broker_answers()
    incidents = Incident.objects.exclude(cluster__slug=DEMONSTRATION)
    gauges: tuple[tuple[str, str, dict[str, object]], ...] = (
        ("incidents", "Incidents by state", _by_state(incidents)),
        ("runs", "Background work by queue and state", {f'queue="{q}",state="{s}"': n for (q, s), n in counts.items()}),
        ("deliveries_due", "Messages to routes that wait to be sent now", {"": notify["n"]}),
        ("deliveries", "Messages to routes of the last 30 days by state", _deliveries()),
        (
            "deliveries_repeated",
            "Messages of the last 30 days that may have arrived more than once",
            {"": Delivery.objects.filter(is_repeated=True).count()},
        ),
        (
            "oldest_queued_run_seconds",
            "Age of the oldest work that waits, by queue",
            {f'queue="{queue}"': _age_s(since) for queue, since in oldest.items()},
        ),
        (
            "lane_runs",
            "Work that waits or runs, by lane: long work leaves one process of each worker free",
            {f'lane="{lane}",state="{state}"': n for (lane, state), n in lanes.items()},
        ),
        (
            "lane_oldest_queued_run_seconds",
            "Age of the oldest work that waits, by lane",
            {f'lane="{lane}"': _age_s(since) for lane, since in waits_since.items()},
        ),
        ("oldest_running_run_seconds", "Age of the oldest work that is being done", {"": old_runs()[1]}),
        ("artifacts", "Files by state", _by_state(Artifact.objects.all())),
        ("jobs", "Jobs", {"": Job.objects.exclude(cluster__slug=DEMONSTRATION).count()}),
        (
            "evidence_bytes",
            "Bytes of evidence taken in so far, each once",
            {"": Blob.objects.aggregate(n=Sum("size_bytes", default=0))["n"]},
        ),
        ("data_free_bytes", "Free space below the data directory", {"": shutil.disk_usage(settings.DATA_DIR).free}),
        ("broker_up", "Whether the queue answers", {"": int(is_queue_there)}),
    )
    lines = []
    for name, help_text, values in gauges:
        lines += [f"# HELP faultline_{name} {help_text}", f"# TYPE faultline_{name} gauge"]
        lines += [f"faultline_{name}{f'{{{labels}}}' if labels else ''} {value}" for labels, value in values.items()]
    return lines + process_lines(is_queue_there=is_queue_there)


def _deliveries() -> dict[str, object]:
    """By state, with those that have none: an alert needs the figure before the first failure."""
    return {f'state="{state}"': 0 for state in Delivery.State.values} | _by_state(Delivery.objects.all())


def _by_state(rows: QuerySet[Any]) -> dict[str, object]:
    counts = rows.order_by().values_list("state").annotate(n=Count("pk"))
    return {f'state="{state}"': n for state, n in sorted(counts)}


def _age_s(since: datetime | None) -> float:
    return round((timezone.now() - since).total_seconds(), 1) if since else 0.0
