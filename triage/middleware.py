"""What no page can use is refused before it or after it, with a sentence instead of an error of the database."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import DataError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

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
