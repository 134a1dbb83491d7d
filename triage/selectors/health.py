"""How the installation is."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Count

from ingest.models import Artifact, Job, Run
from triage.models import Incident


def broker_answers() -> bool:
    """Whether the broker answers within a second."""
    import redis  # noqa: PLC0415  # not every process asks

    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1) as client:
            return bool(client.ping())
    except (redis.RedisError, OSError):
        return False


def metrics_lines() -> list[str]:
    """Gauges by state, in Prometheus' text format. Four grouped counts."""
    lines = []
    for name, help_text, model in (
        ("incidents", "Incidents by state", Incident),
        ("runs", "Background work by state", Run),
        ("artifacts", "Files by state", Artifact),
    ):
        lines += [f"# HELP faultline_{name} {help_text}", f"# TYPE faultline_{name} gauge"]
        counts = model.objects.order_by().values_list("state").annotate(n=Count("pk"))
        lines += [f'faultline_{name}{{state="{state}"}} {n}' for state, n in sorted(counts)]
    lines += ["# HELP faultline_jobs Jobs", "# TYPE faultline_jobs gauge", f"faultline_jobs {Job.objects.count()}"]
    return lines
