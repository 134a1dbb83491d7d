"""Refuses unusable input, makes control characters visible, and keeps pages out of caches."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ClassVar, NamedTuple

from django.conf import settings
from django.contrib import messages
from django.db import DataError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import Resolver404, resolve, reverse

from diagnosis.values.plain import visible, visible_json
from ingest.spans import span
from ingest.tracing import current_trace, of_request, tracing
from triage.account_adapters import has_initial_password, lacks_second_step
from triage.security_log import note_refusal
from triage.selectors.moves import slug_after_move
from triage.services.sessions import session_renew
from triage.views.site import healthz, metrics, unusable

log = logging.getLogger(__name__)


class Probes:
    """Answers `/healthz` and `/metrics` before anything looks at host name or scheme: orchestrators and Prometheus call
    the address of a machine, by plain http.
    """

    _VIEWS: ClassVar[dict[str, Callable[[HttpRequest], HttpResponse]]] = {"/healthz": healthz, "/metrics": metrics}

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self._VIEWS.get(request.path_info, self.get_response)(request)


class Traced:
    """Gives each request a trace id, from its `traceparent` header if a proxy sent one, and answers it as
    `X-Request-Id`.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        attributes = {"http.request.method": request.method or ""}
        with (
            tracing(*of_request(request.headers.get("traceparent", ""))),
            span(request.method or "", "SERVER", attributes) as request_span,
        ):
            response = self.get_response(request)
            response["X-Request-Id"] = current_trace()
            if request_span is not None:
                route = request.resolver_match.route if request.resolver_match else ""
                request_span.update_name(f"{request.method} /{route}")
                request_span.set_attributes(
                    {"http.route": f"/{route}", "http.response.status_code": response.status_code}
                )
        return response


class UsableText:
    """Refuses NUL characters in addresses and values that the database cannot store (400).

    PostgreSQL stores no NUL in text, SQLite does: without this the same address would fail on only one of them.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "\0" in request.path_info or "%00" in request.META.get("QUERY_STRING", ""):
            return unusable(request)
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """A value is too long, too large or not text: the sender can correct it, and the log has the details."""
        if not isinstance(exception, DataError):
            return None
        log.warning("%s %s: the database refused a value: %s", request.method, request.path, exception)
        return unusable(request)


class VisibleText:
    """Shows characters that are hidden, act or change the direction of text as visible signs, on every page and
    export, and in the JSON that scripts of pages show.

    Text of logs, file names and user input reaches pages in many places; this covers all of them. The API's JSON, which
    is for programs, is not changed. Streamed answers do it themselves (``triage.export``).
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        kind = response.get("Content-Type", "")
        if not isinstance(response, HttpResponse):
            return response
        if kind.startswith("text/"):
            text = response.content.decode(errors="replace")
            shown = visible(text)
            if shown != text:
                response.content = shown.encode()
        elif kind == "application/json" and not request.path_info.startswith("/api/"):
            response.content = visible_json(response.content.decode()).encode()
        return response


class Guarded:
    """Keeps other sites from embedding answers, notes refusals in the log, keeps sessions that are used, and leads
    people who must do something first (:data:`_DUTIES`) to its page. Programs with tokens need nothing.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        duty = None
        if settings.SESSION_COOKIE_NAME in request.COOKIES:
            session_renew(request)
            duty = next((duty for duty in _DUTIES if duty.holds_for(request)), None)
        is_open = duty is None or request.path_info.startswith((*_ALWAYS_OPEN, duty.opens))
        response = self.get_response(request) if duty is None or is_open else _to_duty(request, duty)
        if response.status_code == 404 and (address := _address_after_move(request)):
            return redirect(address)
        if response.status_code == 405 and (address := _page_of_act(request)):
            return redirect(address)
        if response.status_code in (401, 403):
            note_refusal(request, response.status_code)
        response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        return response


def _address_after_move(request: HttpRequest) -> str:
    """The same page of a job that was moved since the link was made; empty if there is none."""
    match = request.resolver_match
    slug = match.kwargs.get("slug", "") if match else ""
    before, found, after = request.get_full_path().partition(f"/jobs/{slug}/")
    if not slug or not found or request.method not in ("GET", "HEAD") or not request.user.is_authenticated:
        return ""
    now = slug_after_move(request.user, slug)
    return f"{before}/jobs/{now}/{after}" if now else ""


def _page_of_act(request: HttpRequest) -> str:
    """The page above the address of an act, for whoever opens that address in a browser; empty for programs."""
    if request.method not in ("GET", "HEAD") or request.path_info.startswith("/api/"):
        return ""
    path = request.path_info.rstrip("/")
    while path:
        path = path.rpartition("/")[0]
        if _is_page(f"{path}/"):
            return f"{path}/"
    return ""


def _is_page(path: str) -> bool:
    try:
        resolve(path)
    except Resolver404:
        return False
    return True


class Duty(NamedTuple):
    """What a person must do before anything else: who has it, where, which pages stay open, and in words."""

    code: str
    holds_for: Callable[[HttpRequest], bool]
    page: str
    opens: str
    sentence: str


#: what everybody may open: to prove who they are, to sign out
_ALWAYS_OPEN = ("/account/confirm/", "/sign-out/", "/sign-in/")
_DUTIES = (
    Duty(
        "initial_password",
        has_initial_password,
        "account_change_password",
        "/account/password/",
        "Your password was made for you: choose your own to continue.",
    ),
    Duty(
        "second_step",
        lacks_second_step,
        "mfa_activate_totp",
        "/account/second-step/",
        "Your account needs a second step at sign-in: switch it on to continue.",
    ),
)


def _to_duty(request: HttpRequest, duty: Duty) -> HttpResponse:
    place = reverse(duty.page)
    if request.path_info.startswith("/api/"):
        problem = {
            "type": "about:blank",
            "title": "Forbidden",
            "status": 403,
            "code": duty.code,
            "detail": f"{duty.sentence} The page for it is {place}.",
        }
        return JsonResponse(problem, status=403, content_type="application/problem+json")
    if "HX-Request" in request.headers:
        return HttpResponse(headers={"HX-Redirect": place})
    messages.info(request, duty.sentence)
    return redirect(place)


class NotStored:
    """``Cache-Control: no-store`` on every answer to a signed-in person, so that a shared machine stores no page.

    Answers with their own caching rule (``/faultline.pyz``) are not changed.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        is_known = settings.SESSION_COOKIE_NAME in request.COOKIES or "Authorization" in request.headers
        if is_known and "Cache-Control" not in response and "ETag" not in response:
            response["Cache-Control"] = "no-store"
        return response
