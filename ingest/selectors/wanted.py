"""Evidence of a running job that would decide what is wrong now, and that a follower can take."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from ingest.models import Job, Upload, Watch
from ingest.selectors.short_memory import cached

#: the alarm that asks for each kind. A hung job prints nothing: the stacks of its ranks show who is waited for
_ALARMS = {"stacks": "hang"}
#: so often all followers of a job together may ask, in questions a second
_QUESTIONS_PER_S = 40
#: A hang should have a name within a minute of its alarm: two dumps and the diagnosis take time, too.
_SOONEST_S, _LATEST_S = 5, 60
_COUNTED_FOR_S = 30


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


def ask_again_s(job: Job) -> int:
    """Seconds until a follower should ask again, longer for more of them. A query in half a minute."""
    return seconds_between_questions(cached(f"followers:{job.pk}", lambda: _followers(job), _COUNTED_FOR_S))


def seconds_between_questions(followers: int) -> int:
    """How long each of so many followers waits."""
    return int(min(max(_SOONEST_S, followers / _QUESTIONS_PER_S), _LATEST_S))


def _followers(job: Job) -> int:
    """How many follow the job: each names its files by a folder of its own."""
    growing = Upload.objects.filter(job=job, state=Upload.State.RECEIVING, size_bytes=None)
    return len({path.partition("/")[0] for path in growing.values_list("path", flat=True)})
