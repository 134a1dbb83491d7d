"""What all endpoints share: permissions, rate limits, idempotency and pagination."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.generics import GenericAPIView
from rest_framework.pagination import CursorPagination
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle

from diagnosis.values import numbers
from ingest.api.schema import for_programmers
from ingest.api.strict import NoFields
from ingest.bodies import RECEIVED
from ingest.models import Token
from ingest.refusals import Refused
from ingest.roles import ABILITY_OF_SCOPE, can
from ingest.services.idempotency import Answer, answer_once
from ingest.services.rates import rate_use

IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="A repeated request with the same key gets the same answer",
)
_SAFE = ("GET", "HEAD", "OPTIONS")


def asks(*parameters: OpenApiParameter) -> Callable[[Any], Any]:
    """Decorator: the query parameters of a method. The schema lists them, and others are refused."""

    def mark(method: Any) -> Any:
        method.asks = tuple(parameter.name for parameter in parameters)
        return extend_schema(parameters=list(parameters))(method)

    return mark


class HasScope(BasePermission):
    """Checks that the token has the endpoint's scope, and that its user's role allows the endpoint."""

    message = "Your role or this token does not allow that: ask an administrator, or make a token with the right scope."

    def has_permission(self, request: Request, view: Any) -> bool:
        scope = view.read_scope if request.method in _SAFE else view.write_scope
        if scope is not None and isinstance(request.auth, Token) and scope not in request.auth.scopes:
            return False
        ability = view.ability or ABILITY_OF_SCOPE.get(scope or "")
        return ability is None or can(request.user, ability)


class Throttle(BaseThrottle):
    """Limits requests per minute of each token or person, in fixed windows. Headers show the remaining number.

    Without a cache it limits nobody: uploads matter more than limits.
    """

    def allow_request(self, request: Request, view: Any) -> bool:
        there = request.META.get(RECEIVED)
        if there is not None and there.rate_headers:  # the admission of this body was counted
            view.rate_headers = there.rate_headers
            return True
        who = request.auth.pk if isinstance(request.auth, Token) else request.user.pk or self.get_ident(request)
        rate = rate_use(view.rate, f"{type(request.auth).__name__}:{who}")
        self.reset_s = rate.reset_s
        view.rate_headers = {
            "RateLimit-Limit": str(rate.limit),
            "RateLimit-Remaining": str(max(0, rate.limit - rate.used)),
            "RateLimit-Reset": str(rate.reset_s),
        }
        return rate.is_within

    def wait(self) -> float:
        return float(self.reset_s)


@for_programmers
class ApiView(GenericAPIView[Any]):
    """Base of all endpoints. Requests that change something need ``write_scope``, others ``read_scope``; None: any
    token. ``ability`` is what the caller's role must allow for both.
    """

    permission_classes = (IsAuthenticated, HasScope)
    throttle_classes = (Throttle,)
    read_scope: str | None = Token.Scope.READ.value
    write_scope: str | None = Token.Scope.UPLOAD.value
    ability = ""
    #: name of the setting with the limit of requests per minute
    rate = "API_PER_MINUTE"
    metadata_class = None  # OPTIONS only lists the methods; docs/openapi.yaml describes them
    rate_headers: dict[str, str] = {}  # noqa: RUF012  # the throttle replaces it on the instance and never changes it

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self._refuse_unknown(request)

    def _refuse_unknown(self, request: Request) -> None:
        """Otherwise a misspelt or doubled parameter would be ignored, and an unfiltered answer would look filtered."""
        method = getattr(self, (request.method or "").lower(), None)
        known = getattr(method, "asks", ())
        if request.method in ("GET", "HEAD") and isinstance(self.paginator, Cursor):
            known = (*known, self.paginator.cursor_query_param, self.paginator.page_size_query_param)
        for name, values in request.query_params.lists():
            if name not in known:
                there = f"there are {', '.join(known)}" if known else "it takes none"
                raise Refused(f"No parameter is called “{name[:40]}” here: {there}.", code="unknown")
            if len(values) > 1:
                raise Refused(f"{name} is there {len(values)} times: send it once.", code="doubled")

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return Response(status=204, headers={"Allow": ", ".join(self.allowed_methods)})

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        for name, value in self.rate_headers.items():
            response[name] = value
        return response

    def fields_of(self, request: Request, serializer: type[Any] = NoFields, **options: Any) -> dict[str, Any]:
        """The checked fields of the body. Raises a refusal (422) that names each wrong, unknown or read-only field."""
        form = serializer(data=request.data, **options)
        form.is_valid(raise_exception=True)
        fields: dict[str, Any] = form.validated_data
        return fields

    def once(self, request: Request, fields: Any, answer: Callable[[], Answer]) -> Response:
        """The answer to a request that changes something; the same ``Idempotency-Key`` gets the same answer again."""
        said = repr(sorted(fields.items()) if isinstance(fields, dict) else fields)
        (status, body), is_repeated = answer_once(
            user=request.user,
            key=request.headers.get("Idempotency-Key", ""),
            request=f"{request.method} {request.path} {said}".encode(),
            answer=answer,
        )
        return Response(body, status=status, headers={"Idempotency-Replayed": "true"} if is_repeated else {})

    def page_of(self, rows: Any) -> Response:
        """One page of a queryset through this view's serializer."""
        return self.get_paginated_response(self.get_serializer(self.paginate_queryset(rows), many=True).data)


class Cursor(CursorPagination):
    """Newest first by (time, id), stable while rows are added. ``?page_size=`` up to 200."""

    invalid_cursor_message = "This cursor is not valid: begin again without it."
    ordering = ("-created_at", "-id")
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200

    def get_page_size(self, request: Request) -> int | None:
        """The requested size, 1 to 200. Refuses anything else, so that no caller mistakes one page for the whole
        list.
        """
        asked = request.query_params.get(self.page_size_query_param)
        if asked is None:
            return self.page_size
        number = numbers.whole(asked, digits=9)
        if number is None or not 1 <= number <= self.max_page_size:
            sentence = f"page_size is a whole number from 1 to {self.max_page_size}: send one, or leave it out."
            raise Refused(sentence, code="bad_number")
        return number

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = super().get_schema_operation_parameters(view)
        for parameter in found:
            if parameter["name"] == self.page_size_query_param:
                parameter["schema"] = {"type": "integer", "minimum": 1, "maximum": self.max_page_size}
        return found

    def decode_cursor(self, request: Request) -> Any:
        """Checks the time in the cursor: an invalid one would break the query."""
        cursor = super().decode_cursor(request)
        if cursor is not None and cursor.position is not None:
            try:
                moment = datetime.fromisoformat(str(cursor.position))
                moment.astimezone(UTC)
                if moment.tzinfo is None:
                    raise ValueError("no zone")
            except (ValueError, OverflowError) as error:
                raise NotFound(self.invalid_cursor_message) from error
        return cursor
