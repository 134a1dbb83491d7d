"""``/api/v1/routes/…``: routes, their messages, and sending a message again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ingest.api.base import IDEMPOTENCY_KEY, ApiView, Cursor
from ingest.api.serializers import PROBLEM
from ingest.api.strict import StrictSerializer
from ingest.models import Token
from ingest.refusals import Refused
from ingest.selectors import teams_of
from triage.destinations import ALL
from triage.models import Delivery, Route
from triage.selectors.routes import EVENTS, deliveries_of, routes_of
from triage.services import outbox
from triage.services import routes as services

TAGS = ["routes"]
_EVENTS = [(event, event) for event in EVENTS]
KINDS = [(kind.id, kind.title) for kind in ALL.values()]


class RouteSerializer(serializers.ModelSerializer[Route]):
    """A destination outside, and which events go to it (/help/integrations/). Secrets are never in it."""

    kind = serializers.ChoiceField(KINDS)
    events = serializers.MultipleChoiceField(choices=_EVENTS, allow_empty=True)
    address = serializers.SerializerMethodField(help_text="Of a secret address only the host and the last characters")
    options = serializers.DictField(child=serializers.CharField(), help_text="Further fields of the kind")
    owner: Any = serializers.SlugRelatedField("username", read_only=True, allow_null=True)
    team: Any = serializers.SlugRelatedField("slug", read_only=True, allow_null=True)
    waits_until = serializers.DateTimeField(
        source="resume_at", read_only=True, allow_null=True, help_text="The receiver failed, or it is quiet until then"
    )

    class Meta:
        model = Route
        fields: Any = (
            *("id", "name", "kind", "address", "options", "events", "query", "quiet_from", "quiet_until", "zone"),
            *("is_active", "problem", "waits_until", "owner", "team", "created_at"),
        )
        read_only_fields = fields

    def get_address(self, route: Route) -> str:
        return services.address_shown(route)

    def to_representation(self, instance: Route) -> dict[str, Any]:
        return {**super().to_representation(instance), "events": list(instance.events)}


class RouteSecretSerializer(RouteSerializer):
    """A route with its signing secret, only in the answer that makes the secret; empty if it was given."""

    secret = serializers.SerializerMethodField()

    class Meta(RouteSerializer.Meta):
        fields: Any = (*RouteSerializer.Meta.fields, "secret")
        read_only_fields = fields

    def get_secret(self, route: Route) -> str:
        return route.opened("secret") if ALL[route.kind].makes_secret else ""


def _options_schema() -> dict[str, Any]:
    """Each option with the kinds that have it, their help and their values."""
    found: dict[str, dict[str, Any]] = {}
    for kind in ALL.values():
        for field in kind.form.values():
            if field.name in ("url", "secret", "inbound_secret"):
                continue
            needed = "needed" if field.is_required and not field.default else "optional"
            values = f"one of {', '.join(value for value, _ in field.choices)}" if field.choices else field.help
            said = f"{kind.id}: {field.label} ({needed}{f'; {values}' if values else ''})."
            option = found.setdefault(field.name, {"type": "string", "maxLength": 500, "description": ""})
            option["description"] = f"{option['description']} {said}".strip()
    return {"type": "object", "properties": found, "additionalProperties": {"type": "string", "maxLength": 500}}


@extend_schema_field(_options_schema())
class OptionsField(serializers.DictField):
    """The further fields of a route's kind."""


class RouteInSerializer(StrictSerializer):
    name = serializers.CharField(max_length=120)
    kind = serializers.ChoiceField(KINDS, required=False, help_text="Default: webhook. It cannot be changed")
    url = serializers.CharField(max_length=2000, required=False, allow_blank=True)
    secret = serializers.CharField(
        max_length=500, required=False, allow_blank=True, help_text="Token or signing secret; never returned"
    )
    inbound_secret = serializers.CharField(
        max_length=500, required=False, allow_blank=True, help_text="PagerDuty's webhook secret; never returned"
    )
    options = OptionsField(child=serializers.CharField(max_length=500, allow_blank=True), required=False)
    events = serializers.ListField(
        child=serializers.ChoiceField(choices=_EVENTS),
        required=False,
        max_length=len(EVENTS),
        help_text="Default: its kind's",
    )
    query = serializers.CharField(
        max_length=2000, required=False, allow_blank=True, help_text="Only incidents that match this search"
    )
    quiet_from = serializers.TimeField(required=False, allow_null=True)
    quiet_until = serializers.TimeField(required=False, allow_null=True)
    zone = serializers.CharField(max_length=64, required=False)
    team = serializers.SlugField(required=False, allow_null=True, help_text="The team that keeps it")
    is_active = serializers.BooleanField(required=False)


class TrySerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    status = serializers.IntegerField(allow_null=True, help_text="null: no answer came")
    said = serializers.CharField(allow_blank=True, help_text="The first 500 characters of the answer")
    error = serializers.CharField(allow_blank=True)
    ms = serializers.IntegerField()


class DeliverySerializer(serializers.ModelSerializer[Delivery]):
    """One message and all its tries."""

    message_id = serializers.SerializerMethodField()
    attempts = serializers.SerializerMethodField()

    class Meta:
        model = Delivery
        fields = (
            *("id", "message_id", "event", "state", "tries", "due_at", "attempts", "body"),
            *("created_at", "delivered_at"),
        )
        read_only_fields = fields

    def get_message_id(self, delivery: Delivery) -> str:
        return f"msg_{delivery.pk.hex}"

    @extend_schema_field(TrySerializer(many=True))
    def get_attempts(self, delivery: Delivery) -> Any:
        return delivery.attempts


class RoutesApiView(ApiView):
    """Only people who may create routes may read them."""

    write_scope = Token.Scope.MANAGE.value
    ability = "routes"
    queryset: Any = Route.objects.none()
    serializer_class: Any = RouteSerializer

    def route(self, request: Request, pk: int) -> Route:
        return get_object_or_404(routes_of(request.user), pk=pk)

    def given(self, request: Request, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields of a body as the service takes them."""
        given = dict(fields)
        if inbound := given.pop("inbound_secret", ""):
            given["options"] = {**(given.get("options") or {}), "inbound_secret": inbound}
        slug = given.get("team")
        if slug:
            given["team"] = teams_of(request.user).filter(slug=slug).first()
            if given["team"] is None:
                sentence = "You are no member of this team: leave it out, or ask an administrator."
                raise Refused(sentence, code="invalid", fields={"team": sentence})
        return given


class RoutesView(RoutesApiView):
    pagination_class = Cursor

    @extend_schema(
        operation_id="routes_list",
        tags=TAGS,
        summary="Your routes; for administrators all",
        responses=RouteSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        return self.page_of(routes_of(request.user))

    @extend_schema(
        operation_id="routes_create",
        tags=TAGS,
        summary="Create a route; only this answer has its secret",
        request=RouteInSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses={201: RouteSecretSerializer, 422: PROBLEM},
    )
    def post(self, request: Request) -> Response:
        fields = self.fields_of(request, RouteInSerializer)
        return self.once(
            request,
            fields,
            lambda: (201, RouteSecretSerializer(self.create(request, fields)).data),
        )

    def create(self, request: Request, fields: dict[str, Any]) -> Route:
        return services.route_save(by=request.user, **self.given(request, fields))


class RouteView(RoutesApiView):
    @extend_schema(operation_id="routes_read", tags=TAGS, summary="One route")
    def get(self, request: Request, pk: int) -> Response:
        return Response(self.get_serializer(self.route(request, pk)).data)

    @extend_schema(
        operation_id="routes_change",
        tags=TAGS,
        summary="Change a route, or switch it off and on",
        request=RouteInSerializer(partial=True),
        responses={200: RouteSerializer, 422: PROBLEM},
    )
    def patch(self, request: Request, pk: int) -> Response:
        route = self.route(request, pk)
        fields = self.fields_of(request, RouteInSerializer, partial=True)
        changed = services.route_change(route=route, by=request.user, given=self.given(request, fields))
        return Response(RouteSerializer(changed).data)

    @extend_schema(operation_id="routes_delete", tags=TAGS, summary="Delete a route", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        services.route_delete(route=self.route(request, pk), by=request.user)
        return Response(status=204)


class RouteRotateView(RoutesApiView):
    @extend_schema(
        operation_id="routes_rotate",
        tags=TAGS,
        summary="Create a new secret; the old one signs, too, for a day",
        request=None,
        responses={200: RouteSecretSerializer},
    )
    def post(self, request: Request, pk: int) -> Response:
        route = self.route(request, pk)
        self.fields_of(request)
        services.secret_rotate(route=route, by=request.user)
        return Response(RouteSecretSerializer(route).data)


class RoutePingView(RoutesApiView):
    @extend_schema(
        operation_id="routes_ping",
        tags=TAGS,
        summary="Send a test message",
        request=None,
        responses={202: DeliverySerializer},
    )
    def post(self, request: Request, pk: int) -> Response:
        self.fields_of(request)
        sent = outbox.ping(route=self.route(request, pk))
        sent.refresh_from_db()
        return Response(DeliverySerializer(sent).data, status=202)


class DeliveriesView(RoutesApiView):
    serializer_class = DeliverySerializer
    pagination_class = Cursor
    queryset: Any = Delivery.objects.none()

    @extend_schema(
        operation_id="routes_deliveries",
        tags=TAGS,
        summary="Messages of a route, newest first",
        responses=DeliverySerializer(many=True),
    )
    def get(self, request: Request, pk: int) -> Response:
        return self.page_of(deliveries_of(self.route(request, pk)))


class RedeliverView(RoutesApiView):
    @extend_schema(
        operation_id="routes_redeliver",
        tags=TAGS,
        summary="Send a message again, under its own id",
        request=None,
        responses={202: DeliverySerializer},
    )
    def post(self, request: Request, pk: int, delivery: UUID) -> Response:
        found = get_object_or_404(self.route(request, pk).deliveries, pk=delivery)
        self.fields_of(request)
        sent = outbox.redeliver(delivery=found)
        sent.refresh_from_db()
        return Response(DeliverySerializer(sent).data, status=202)
