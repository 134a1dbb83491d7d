"""What no page can use is refused, and no page acts on its reader or stays in a browser after signing out."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from django.conf import settings
from django.db import DataError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from diagnosis.plain import visible
from triage.views.site import unusable

log = logging.getLogger(__name__)


class UsableText:
    """Refuses NUL characters in addresses and values that the database cannot keep (400).

    PostgreSQL keeps no NUL in text and SQLite does: without this the same address would break on one of them.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "\0" in request.path_info or "%00" in request.META.get("QUERY_STRING", ""):
            return unusable(request)
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """A value is too long, too large or of no text: whoever sent it can mend that, and the log tells us."""
        if not isinstance(exception, DataError):
            return None
        log.warning("%s %s: the database refused a value: %s", request.method, request.path, exception)
        return unusable(request)


class VisibleText:
    """Shows control characters and those that turn the direction of text as signs, on every page and in every export.

    Text of logs, names of files and what people write reach pages in many places; here none is forgotten. JSON for
    programs stays as it is. Streamed answers do it themselves (``triage.export``).
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if isinstance(response, HttpResponse) and response.get("Content-Type", "").startswith("text/"):
            body = response.content
            if _ACTS.search(body):
                response.content = visible(body.decode(errors="replace")).encode()
        return response


#: the same characters in UTF-8: a page without them is left alone at the cost of a scan
_ACTS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2(?:\x80[\xaa-\xae]|\x81[\xa6-\xa9])")


class NotStored:
    """``Cache-Control: no-store`` on every answer to somebody who signed in, so that a shared machine keeps no page.

    An answer that says how it may be kept (``/faultline.pyz``) is left as it is.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        is_known = settings.SESSION_COOKIE_NAME in request.COOKIES or "Authorization" in request.headers
        if is_known and "Cache-Control" not in response and "ETag" not in response:
            response["Cache-Control"] = "no-store"
        return response
