"""The page of running jobs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from triage.selectors.running import SHOWN, running_jobs


@require_GET
def running(request: HttpRequest) -> HttpResponse:
    """What runs, how fast, how long without progress, and its alarms."""
    rows = running_jobs(request.user)
    alarmed = sum(1 for row in rows if row.alarm)
    context = {"nav": "running", "rows": rows, "alarmed": alarmed, "shown": SHOWN}
    return render(request, "triage/running.html", context)
