"""The page of running jobs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from triage.selectors.running import (
    ENDED_DAYS,
    MAX_RUNNING,
    attempt_state,
    ended_attempts,
    running_jobs,
    unfollowed_count,
)
from triage.views.live_log import attempt_or_404


@require_GET
def running(request: HttpRequest) -> HttpResponse:
    """What runs, how fast, how long without progress, and its alarms."""
    rows = running_jobs(request.user)
    alarmed = sum(1 for row in rows if row.alarm)
    context = {
        "nav": "running",
        "rows": rows,
        "alarmed": alarmed,
        "shown": MAX_RUNNING,
        "unfollowed": 0 if rows else unfollowed_count(request.user),
        "ended": ended_attempts(request.user, timezone.now()),
        "ended_days": ENDED_DAYS,
    }
    return render(request, "triage/running.html", context)


@require_GET
def running_state(request: HttpRequest, slug: str, attempt: int) -> HttpResponse:
    """The state of one running attempt, which its job's page asks for again and again."""
    found = attempt_or_404(request, slug, attempt)
    return render(request, "triage/_running_state.html", {"slug": slug, "running": attempt_state(found)})
