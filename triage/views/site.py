"""Health, metrics, and the pages that say what went wrong."""

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
from ingest.refusals import Refused, database_refusal
from triage.glossary import terms
from triage.selectors.health import broker_answers, metrics_lines


@require_GET
@never_cache
@login_not_required
def healthz(request: HttpRequest) -> JsonResponse:
    """Whether this process can serve: 200 with the database, 503 without. A broker that is down only delays."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return JsonResponse({"status": "no database"}, status=503)
    return JsonResponse({"status": "ok", "broker": "ok" if broker_answers() else "down"})


@require_GET
@never_cache
@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """Counts in Prometheus' text format. Numbers only, no names: it is open like /healthz."""
    return HttpResponse("\n".join(metrics_lines()) + "\n", content_type="text/plain; version=0.0.4; charset=utf-8")


#: the documentation page brings its own style element; nothing else on the site does
_DOCS_POLICY: dict[str, Any] = {**settings.SECURE_CSP, "style-src": [CSP.SELF, CSP.UNSAFE_INLINE]}
_docs = SpectacularSwaggerSplitView.as_view(url_name="api-schema", template_name="triage/api_docs.html")
api_docs = login_required(csp_override(_DOCS_POLICY)(_docs))


@login_required
@require_GET
def glossary(request: HttpRequest) -> HttpResponse:
    """The words of the pages with their meanings; tooltips link here."""
    return render(request, "triage/glossary.html", {"terms": terms().values()})


def _said(exception: Any, default: str) -> str:
    """The sentence that a view gave with its exception, if it gave one."""
    message = exception.args[0] if getattr(exception, "args", None) else ""
    is_ours = isinstance(message, str) and message.endswith((".", "?", ")"))
    return message if is_ours and " matches the given query" not in message else default


_TOO_MUCH = (
    "The form holds more than is taken in one request. Choose fewer rows or files, pack the files into an archive, "
    "or upload with JavaScript switched on, which sends them one after the other."
)


def _answer(request: HttpRequest, status: int, title: str, said: str) -> HttpResponse:
    """A page for people; for programs a problem, as every other refusal of the API is."""
    if request.path.startswith("/api/v1/"):
        problem = problem_of(status, title.lower().replace(" ", "_"), said)
        return JsonResponse(problem, status=status, content_type="application/problem+json")
    return render(request, "triage/error.html", {"code": status, "title": title, "said": said}, status=status)


def bad_request(request: HttpRequest, exception: Any = None) -> HttpResponse:
    if isinstance(exception, (RequestDataTooBig, TooManyFilesSent, TooManyFieldsSent)):
        return _answer(request, 413, "Too much at once", _TOO_MUCH)
    said = _said(exception, "The request cannot be understood.")
    return _answer(request, 400, "That does not work", said)


def unusable(request: HttpRequest) -> HttpResponse:
    """For :class:`triage.middleware.UsableText`."""
    said = "What was sent holds characters or numbers that do not fit: take control characters out, or shorten it."
    return _answer(request, 400, "That does not work", said)


def forbidden(request: HttpRequest, exception: Any = None) -> HttpResponse:
    said = _said(exception, "Your role does not allow this. Ask an administrator.")
    return _answer(request, 403, "Not for this role", said)


def not_found(request: HttpRequest, exception: Any = None) -> HttpResponse:
    said = _said(exception, "There is nothing at this address.")
    return _answer(request, 404, "Not found", said)


def gone(request: HttpRequest, said: str, *, link: str, label: str) -> HttpResponse:
    """What was there once is lost: 410, as a page or, where a page asked for a piece of itself, as a piece."""
    if request.headers.get("HX-Request"):
        return HttpResponse(
            format_html('<p class="problem small">{} <a href="{}">{}</a></p>', said, link, label), status=410
        )
    context = {"code": 410, "title": "No longer there", "said": said, "link": link, "label": label}
    return render(request, "triage/error.html", context, status=410)


def server_error(request: HttpRequest) -> HttpResponse:
    """Rendered without context processors: the database may be what failed. Django calls it while it handles the error.

    A database that is locked, away or full is told as that (come back): nothing is broken.
    """
    refused = database_refusal(sys.exc_info()[1]) or _BROKEN
    status, title, said = refused.status, _TITLES[refused.code], refused.detail
    if request.path.startswith("/api/v1/"):
        problem = problem_of(status, refused.code, said)
        response: HttpResponse = JsonResponse(problem, status=status, content_type="application/problem+json")
    else:
        response = HttpResponse(format_html(_SERVER_ERROR, status=status, title=title, said=said), status=status)
    if status == 503:
        response["Retry-After"] = "5"
    return response


_BROKEN = Refused(
    "It was written to the server's log. What you sent before is kept; nothing was half done. Try again; if it stays, "
    "tell an administrator when it happened.",
    code="error",
    status=500,
)
_TITLES = {
    "busy": "The database is busy",
    "database_away": "The database does not answer",
    "disk_full": "The disk is full",
    "error": "Something broke on our side",
}
_SERVER_ERROR = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} · Faultline</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/static/css/tokens.css"><link rel="stylesheet" href="/static/css/base.css">
<link rel="stylesheet" href="/static/css/components.css"><link rel="stylesheet" href="/static/css/pages.css"></head>
<body><main><section class="panel empty error-page"><p class="muted">{status}</p><h1>{title}</h1><p>{said}</p>
<p><a class="button primary" href="">Try again</a> <a class="button" href="/">Go to the queue</a></p>
</section></main></body></html>"""


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    said = "The form was too old, or cookies are blocked. Go back, reload the page, and send it again."
    return render(request, "triage/error.html", {"code": 403, "title": "Send it again", "said": said}, status=403)
