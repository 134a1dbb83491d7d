"""Search over all logs of an attempt: first the distinct messages, then the bytes, step by step."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from diagnosis.model import LOG_KINDS
from ingest import selectors as evidence
from ingest.models import Artifact
from triage.selectors.logsearch import TextSearch, UnreadablePattern, find_in_all, templates_of
from triage.views.jobs import job_or_404

#: maximum number of logs of one attempt that are searched
MAX_LOGS = 2048
MAX_WORDS = 500


def text_search_of(request: HttpRequest, name: str = "find") -> tuple[TextSearch | None, str]:
    """The search in the address, or None; and an error sentence."""
    text_search = TextSearch(request.GET.get(name, "").strip()[:MAX_WORDS], bool(request.GET.get("regex")))
    if not text_search.words:
        return None, ""
    try:
        return text_search.check(), ""
    except UnreadablePattern as error:
        return None, str(error)


def _logs(request: HttpRequest, slug: str, attempt: int) -> tuple[Any, Any, list[Artifact]]:
    job = job_or_404(request, slug)
    found = job.attempts.filter(number=attempt).first()
    if found is None:
        raise Http404(f"{slug} has no attempt {attempt}.")
    logs = evidence.artifacts_of(job).filter(attempt=found, kind__in=LOG_KINDS).order_by("path", "pk")
    return job, found, list(logs[:MAX_LOGS])


@require_GET
def search(request: HttpRequest, slug: str, attempt: int) -> HttpResponse:
    """The messages of all logs that match ``find`` (``regex``: a pattern); with ``cursor`` also one step of lines."""
    job, found, logs = _logs(request, slug, attempt)
    text_search, problem = text_search_of(request)
    step = None
    if text_search and "cursor" in request.GET:
        step = find_in_all(logs, text_search, cursor=request.GET["cursor"][:40])
    context = {
        "nav": "jobs",
        "job": job,
        "attempt": found,
        "count": len(logs),
        "is_cut": len(logs) == MAX_LOGS,
        "words": request.GET.get("find", "").strip()[:MAX_WORDS],
        "is_pattern": bool(request.GET.get("regex")),
        "problem": problem,
        "found": templates_of(logs, text_search) if text_search else None,
        "step": step,
    }
    return render(request, "triage/log_search.html", context, status=422 if problem else 200)


@require_GET
def step(request: HttpRequest, slug: str, attempt: int) -> JsonResponse:
    """One step of the search through the bytes of all logs: matches, and where to continue."""
    _, _, logs = _logs(request, slug, attempt)
    text_search, problem = text_search_of(request, "words")
    if text_search is None:
        return JsonResponse({"problem": problem or "Say what to look for."}, status=422)
    return JsonResponse(find_in_all(logs, text_search, cursor=request.GET.get("cursor", "")[:40]))
