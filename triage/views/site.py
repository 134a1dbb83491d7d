"""Health, metrics, the glossary, and error pages."""

from __future__ import annotations

import sys
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required, login_required
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.csp import CSP
from django.utils.html import format_html
from django.views.decorators.cache import never_cache
from django.views.decorators.csp import csp_override
from django.views.decorators.http import require_GET
from drf_spectacular.views import SpectacularSwaggerSplitView

from ingest.problems import problem_of
from ingest.refusals import Refused, outage_refusal
from triage.glossary import terms
from triage.selectors.health import broker_answers, metrics_lines, old_runs


@require_GET
@never_cache
@login_not_required
def healthz(request: HttpRequest) -> JsonResponse:
    """Whether this process can serve: 200 with the database, 503 without. An unreachable broker only delays work.

    A run that takes longer than ten minutes makes it say "degraded", with 200: pages and uploads work.

    It says whether to send requests here, not whether to restart the process: `/livez` of `triage.server.front` does.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        count, age_s = old_runs()
    except DatabaseError:
        return JsonResponse({"status": "no database"}, status=503)
    broker = "ok" if broker_answers() else "down"
    if not count:
        return JsonResponse({"status": "ok", "broker": broker})
    old = {"long_runs": count, "oldest_run_s": round(age_s)}
    return JsonResponse({"status": "degraded", "broker": broker, **old})


@require_GET
@never_cache
@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """Counts in Prometheus' text format. Open like /healthz, so only numbers, no names."""
    return HttpResponse("\n".join(metrics_lines()) + "\n", content_type="text/plain; version=0.0.4; charset=utf-8")


#: only the documentation page has its own style element
_DOCS_POLICY: dict[str, Any] = {**settings.SECURE_CSP, "style-src": [CSP.SELF, CSP.UNSAFE_INLINE]}
_docs = SpectacularSwaggerSplitView.as_view(url_name="api-schema", template_name="triage/api_docs.html")
api_docs = login_required(csp_override(_DOCS_POLICY)(_docs))


@login_required
@require_GET
def glossary(request: HttpRequest) -> HttpResponse:
    """The words of the pages with their meanings; tooltips link here."""
    return render(request, "triage/glossary.html", {"terms": terms().values()})


def _exception_sentence(exception: Any, default: str) -> str:
    """The sentence of the exception, if a view gave one."""
    message = exception.args[0] if getattr(exception, "args", None) else ""
    is_ours = isinstance(message, str) and message.endswith((".", "?", ")"))
    return message if is_ours and " matches the given query" not in message else default


_TOO_MUCH = (
    "The form holds more than is taken in one request. Choose fewer rows or files, or pack the "
    "files into an archive. With JavaScript switched on they are sent one after the other."
)


def _error_page(request: HttpRequest, status: int, title: str, sentence: str) -> HttpResponse:
    """A page for people; for programs a problem, like all refusals of the API."""
    if request.path.startswith("/api/v1/"):
        problem = problem_of(status, title.lower().replace(" ", "_"), sentence)
        return JsonResponse(problem, status=status, content_type="application/problem+json")
    return render(request, "triage/error.html", {"code": status, "title": title, "sentence": sentence}, status=status)


def bad_request(request: HttpRequest, exception: Any = None) -> HttpResponse:
    if isinstance(exception, (RequestDataTooBig, TooManyFilesSent, TooManyFieldsSent)):
        return _error_page(request, 413, "Too much at once", _TOO_MUCH)
    sentence = _exception_sentence(exception, "The request cannot be understood.")
    return _error_page(request, 400, "That does not work", sentence)


def unusable(request: HttpRequest) -> HttpResponse:
    """For :class:`triage.middleware.UsableText`."""
    sentence = "What was sent holds characters or numbers that do not fit: take control characters out, or shorten it."
    return _error_page(request, 400, "That does not work", sentence)


def forbidden(request: HttpRequest, exception: Any = None) -> HttpResponse:
    sentence = _exception_sentence(exception, "Your role does not allow this. Ask an administrator.")
    return _error_page(request, 403, "Not for this role", sentence)


def not_found(request: HttpRequest, exception: Any = None) -> HttpResponse:
    sentence = _exception_sentence(exception, "There is nothing at this address.")
    return _error_page(request, 404, "Not found", sentence)


def gone(request: HttpRequest, sentence: str, *, link: str, label: str) -> HttpResponse:
    """410 for lost data: as a page or, if a page requested a fragment, as a fragment."""
    if request.headers.get("HX-Request"):
        return HttpResponse(
            format_html('<p class="problem small">{} <a href="{}">{}</a></p>', sentence, link, label), status=410
        )
    context = {"code": 410, "title": "No longer there", "sentence": sentence, "link": link, "label": label}
    return render(request, "triage/error.html", context, status=410)


def server_error(request: HttpRequest) -> HttpResponse:
    """Rendered without context processors, because the database may have failed. Django calls it during error handling.

    A locked, unreachable or full database, or an unreachable store, gets its own message (try again): nothing is
    broken.
    """
    refused = outage_refusal(sys.exc_info()[1]) or _BROKEN
    status, title, sentence = refused.status, _TITLES[refused.code], refused.detail
    if request.path.startswith("/api/v1/"):
        problem = problem_of(status, refused.code, sentence)
        response: HttpResponse = JsonResponse(problem, status=status, content_type="application/problem+json")
    else:
        response = HttpResponse(
            format_html(_SERVER_ERROR, status=status, title=title, sentence=sentence), status=status
        )
    if status == 503:
        response["Retry-After"] = "5"
    return response


_BROKEN = Refused(
    "The server's log has the details. Earlier data is stored; nothing was half done. Try again; if it persists, "
    "tell an administrator when it happened.",
    code="error",
    status=500,
)
_TITLES = {
    "busy": "The database is busy",
    "database_away": "The database does not answer",
    "store_away": "The store of evidence does not answer",
    "disk_full": "The disk is full",
    "error": "Internal server error",
}
_SERVER_ERROR = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} · Faultline</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/static/css/tokens.css"><link rel="stylesheet" href="/static/css/base.css">
<link rel="stylesheet" href="/static/css/components.css"><link rel="stylesheet" href="/static/css/pages.css"></head>
<body><main><section class="panel empty error-page"><p class="muted">{status}</p><h1>{title}</h1><p>{sentence}</p>
<p><a class="button primary" href="">Try again</a> <a class="button" href="/">Go to the queue</a></p>
</section></main></body></html>"""


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    sentence = "The form was too old, or cookies are blocked. Go back, reload the page, and send it again."
    return render(
        request, "triage/error.html", {"code": 403, "title": "Send it again", "sentence": sentence}, status=403
    )
