"""The log of a running job that follows: the newest lines of all its growing files."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from ingest.models import Attempt
from ingest.parameters import whole
from triage.selectors.running import attempt_for
from triage.selectors.tail import LineFilter, tail, tail_json
from triage.views.jobs import job_or_404
from triage.views.logs import LEVELS_SHOWN

_WORDS = 200


def attempt_or_404(request: HttpRequest, slug: str, number: int) -> Attempt:
    """The attempt with its watch; else 404, which says what is missing."""
    attempt = attempt_for(request.user, slug, number)
    if attempt is None:
        job_or_404(request, slug)
        raise Http404(f"The job {slug} has no attempt {number}.")
    return attempt


def _line_filter(request: HttpRequest) -> LineFilter:
    return LineFilter(
        whole(request.GET.get("level"), 0),
        request.GET.get("who", "").strip()[:_WORDS],
        request.GET.get("words", "").strip()[:_WORDS],
    )


@require_GET
def live_log(request: HttpRequest, slug: str, attempt: int) -> HttpResponse:
    """The page; its script asks :func:`live_lines`. ``level``, ``who`` and ``words`` filter."""
    job, found = job_or_404(request, slug), attempt_or_404(request, slug, attempt)
    line_filter = _line_filter(request)
    first = tail(found, cursor="", line_filter=line_filter)
    context = {
        "nav": "running",
        "job": job,
        "attempt": found,
        "watch": getattr(found, "watch", None) if first.growing else None,
        "line_filter": line_filter,
        "levels": LEVELS_SHOWN,
        "first": tail_json(first),
        "growing": first.growing,
    }
    return render(request, "triage/live_log.html", context)


@require_GET
def live_lines(request: HttpRequest, slug: str, attempt: int) -> JsonResponse:
    """Lines after ``cursor``, with the same filters, and the state of the job."""
    found = attempt_or_404(request, slug, attempt)
    answer = dict(tail_json(tail(found, cursor=request.GET.get("cursor", ""), line_filter=_line_filter(request))))
    watch = getattr(found, "watch", None) if answer["growing"] else None
    answer["alarm"] = watch.alarm_text if watch is not None else ""
    answer["iteration"] = watch.iteration if watch is not None else None
    return JsonResponse(answer)
