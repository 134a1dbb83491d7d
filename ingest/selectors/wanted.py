"""Evidence of a running job that would decide what is wrong now, and that a follower can take."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from ingest.models import Job, Upload, Watch

#: the alarm that asks for each kind. A hung job prints nothing: the stacks of its ranks show who is waited for
_ALARMS = {"stacks": "hang"}


def wanted_evidence(job: Job) -> list[dict[str, Any]]:
    """Rows of ``kind``, ``attempt``, ``since`` and ``reason``, while the alarm that asks holds. One query."""
    growing = Upload.objects.filter(job=job, state=Upload.State.RECEIVING, size_bytes=None)
    watches = Watch.objects.filter(attempt__in=growing.values("attempt")).select_related("attempt")
    rows = []
    for watch in watches.only("attempt__number", "alarm", "alarm_since", "alarm_text"):
        for kind in settings.FOLLOWERS_TAKE:
            if watch.alarm and watch.alarm == _ALARMS.get(kind):
                row = {"kind": kind, "attempt": watch.attempt.number}
                rows.append({**row, "since": watch.alarm_since, "reason": watch.alarm_text})
    return rows
