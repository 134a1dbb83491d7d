"""Checks the sender of a large body, if the view does not check it itself."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import Resolver404, path, re_path, resolve
from django.views.decorators.csrf import csrf_exempt
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from ingest.authentication import TokenAuthentication
from ingest.bodies import admission_answer
from ingest.problems import problem_of

_SIGN_IN = "Sign in, or send a token, before you send this much: nothing was read."


@csrf_exempt
@login_not_required
def signed_in(request: HttpRequest, **_: Any) -> HttpResponse:
    """Allows a form or JSON document from everybody who is signed in or has a token."""
    if not request.user.is_authenticated:
        try:
            found = TokenAuthentication().authenticate(Request(request))
        except AuthenticationFailed:
            found = None
        if found is None:
            problem = problem_of(401, "not_authenticated", _SIGN_IN)
            return JsonResponse(problem, status=401, content_type="application/problem+json")
        request.user = found[0]
    return admission_answer(request, limit_bytes=settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0)


#: every address leads to this view; Django gets these as the URLs of one request
urlpatterns = [path("", signed_in), re_path("", signed_in)]


def takes_chunks(method: str, path_info: str) -> bool:
    """Whether the view takes bodies without a length: it checks the sender and limits the bytes itself."""
    return takes_bytes(method, path_info) and getattr(_view(path_info), "takes_chunks", False)


def takes_bytes(method: str, path_info: str) -> bool:
    """Whether the view takes bodies of any size, and checks their senders itself."""
    return method in getattr(_view(path_info), "takes_bytes", ())


def admission_of(method: str, path_info: str) -> str:
    """The URL configuration of the check; empty if the view checks this method itself."""
    return "" if takes_bytes(method, path_info) else __name__


def _view(path_info: str) -> Any:
    """The view, or its class; None for an unknown address: its caller is checked first, and gets 404 later."""
    try:
        view: Any = resolve(path_info).func
    except Resolver404:
        return None
    return getattr(view, "cls", view)
