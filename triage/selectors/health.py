"""The health of the installation."""

from __future__ import annotations

import shutil
from datetime import datetime

import redis
from django.conf import settings
from django.db.models import Count, Min, Sum
from django.utils import timezone

from ingest.models import DEMONSTRATION, Artifact, Blob, Job, Run
from triage.models import Incident


def broker_answers() -> bool:
    """Whether the broker answers within a second."""
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1) as client:
            return bool(client.ping())
    except (redis.RedisError, OSError):
        return False


def metrics_lines() -> list[str]:
    """Gauges in Prometheus' text format, without the demonstration. Six queries."""
    lines = []
    for name, help_text, rows in (
        ("incidents", "Incidents by state", Incident.objects.exclude(cluster__slug=DEMONSTRATION)),
        ("runs", "Background work by state", Run.objects.all()),
        ("artifacts", "Files by state", Artifact.objects.all()),
    ):
        lines += [f"# HELP faultline_{name} {help_text}", f"# TYPE faultline_{name} gauge"]
        counts = rows.order_by().values_list("state").annotate(n=Count("pk"))
        lines += [f'faultline_{name}{{state="{state}"}} {n}' for state, n in sorted(counts)]
    waiting = Run.objects.filter(state=Run.State.QUEUED).aggregate(at=Min("created_at"))["at"]
    taken = Blob.objects.aggregate(n=Sum("size_bytes", default=0))["n"]
    for name, help_text, value in (
        ("jobs", "Jobs", Job.objects.exclude(cluster__slug=DEMONSTRATION).count()),
        ("oldest_queued_run_seconds", "Age of the oldest work that waits", _age_s(waiting)),
        ("evidence_bytes", "Bytes of evidence taken in so far, each once", taken),
        ("data_free_bytes", "Free space below the data directory", shutil.disk_usage(settings.DATA_DIR).free),
        ("broker_up", "Whether the queue answers", int(broker_answers())),
    ):
        lines += [f"# HELP faultline_{name} {help_text}", f"# TYPE faultline_{name} gauge", f"faultline_{name} {value}"]
    return lines


def _age_s(since: datetime | None) -> float:
    return round((timezone.now() - since).total_seconds(), 1) if since else 0.0
