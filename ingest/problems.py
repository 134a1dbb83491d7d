"""API errors in the format of RFC 9457, problem details."""

from __future__ import annotations

import logging
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import exception_handler

from ingest.refusals import Refused, outage_refusal

log = logging.getLogger(__name__)

#: the status of everything that can be read and is wrong; 400 is left to bodies that cannot be read at all
INVALID = 422

_NOT_FOUND = "There is nothing at this address, or you have no access to it: check the id and your clusters."
#: instructions for errors whose own text gives none; {} is that text
_ADVICE = {
    "not_authenticated": "This needs a token: send “Authorization: Bearer fl_…”, create one on the page API tokens.",
    "unsupported_media_type": "{} Send JSON, with Content-Type: application/json.",
    "parse_error": "The body is not valid JSON: {}. Send it again, complete.",
    "throttled": "{} Wait as long as Retry-After says.",
}


def problem_json(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler: ``application/problem+json`` for every error of the API."""
    if refused := outage_refusal(error):
        log.warning("database or store: %s", error)
        error = refused
    if isinstance(error, Refused):
        headers = {"Retry-After": "5"} if error.status == 503 else {}
        problem = problem_of(error.status, error.code, error.detail)
        if error.fields:
            problem["errors"] = [{"field": name, "detail": text} for name, text in error.fields.items()]
        if error.job:
            problem["job"] = error.job
        return Response(problem, status=error.status, headers=headers, content_type="application/problem+json")
    if isinstance(error, Http404):
        text = str(error.args[0]) if error.args else ""
        error = exceptions.NotFound(text if text.endswith(".") and " matches " not in text else _NOT_FOUND)
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied(*error.args)
    response = exception_handler(error, context)
    if response is None:
        return None
    assert isinstance(error, exceptions.APIException)
    if isinstance(error, exceptions.ValidationError):
        response.status_code = INVALID
        problem = problem_of(INVALID, "invalid", "Some fields are wrong; see errors.")
        problem["errors"] = _flat(error.detail)
    else:
        code = error.get_codes()
        kind = code if isinstance(code, str) else "error"
        problem = problem_of(response.status_code, kind, _ADVICE.get(kind, "{}").format(error.detail))
    response.data = problem
    response.content_type = "application/problem+json"
    return response


def problem_of(status: int, code: str, detail: str) -> dict[str, Any]:
    """RFC 9457 problem details."""
    return {
        "type": f"urn:faultline:problem:{code}",
        "title": code.replace("_", " "),
        "status": status,
        "detail": detail,
    }


def _flat(detail: Any, field: str = "") -> list[dict[str, str]]:
    """DRF's nested errors as rows of field and sentence."""
    if isinstance(detail, dict):
        return [row for key, value in detail.items() for row in _flat(value, f"{field}.{key}" if field else str(key))]
    if isinstance(detail, list):
        return [row for value in detail for row in _flat(value, field)]
    return [{"field": field, "detail": str(detail)}]
