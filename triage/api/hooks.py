"""``/api/v1/routes/<id>/pagerduty/``: what PagerDuty's webhooks say. The signature is the sign-in."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request
from rest_framework.response import Response

from ingest.api.base import ApiView
from ingest.api.serializers import PROBLEM
from ingest.refusals import Refused
from triage.services.inbound_webhooks import NotSigned, webhook_apply


class PagerDutyView(ApiView):
    authentication_classes: Any = ()
    permission_classes: Any = ()
    serializer_class: Any = None

    def get_authenticate_header(self, request: Request) -> str:
        """Without this an answer 401 would be 403: no class signs senders in, their signatures do."""
        return "PagerDuty-Signature"

    @extend_schema(
        operation_id="routes_pagerduty",
        tags=["routes"],
        summary="A webhook (v3) of PagerDuty: somebody acknowledged, resolved or reopened an incident there",
        request={"application/json": OpenApiTypes.OBJECT},
        parameters=[
            OpenApiParameter("X-PagerDuty-Signature", str, OpenApiParameter.HEADER, description="v1=HMAC-SHA256"),
        ],
        responses={200: OpenApiResponse(OpenApiTypes.OBJECT, "What followed"), **dict.fromkeys((401, 422), PROBLEM)},
        auth=[],
    )
    def post(self, request: Request, pk: int) -> Response:
        signatures = request.headers.get("X-PagerDuty-Signature", "")
        try:
            sentence = webhook_apply(route_id=pk, signatures=signatures, body=request._request.body)
        except NotSigned:
            sentence = "There is no PagerDuty route with this address and this signature: check the secret of both."
            raise AuthenticationFailed(sentence, code="not_signed") from None
        except (ValueError, RecursionError):
            raise Refused("This is no event of a webhook v3 of PagerDuty.", code="invalid") from None
        return Response({"said": sentence})
