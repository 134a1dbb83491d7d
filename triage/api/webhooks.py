"""``/api/v1/webhooks/…``: webhooks, their messages, and sending a message again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ingest.api.base import IDEMPOTENCY_KEY, ApiView, Cursor
from ingest.api.jobs import cluster_of
from ingest.api.serializers import PROBLEM
from ingest.api.strict import StrictSerializer
from ingest.models import Token
from triage.models import Delivery, Webhook
from triage.selectors.webhooks import deliveries_of, webhooks_of
from triage.services import webhooks as services
from triage.services.webhooks import EVENTS

TAGS = ["webhooks"]
_EVENTS = [(event, event) for event in EVENTS]


class WebhookSerializer(serializers.ModelSerializer[Webhook]):
    """An address that receives events, docs/webhooks.md."""

    events = serializers.MultipleChoiceField(choices=_EVENTS, allow_empty=False)
    cluster: Any = serializers.SlugRelatedField(
        "slug", read_only=True, allow_null=True, help_text="Only events of this cluster; null for all"
    )
    owner: Any = serializers.SlugRelatedField("username", read_only=True)

    class Meta:
        model = Webhook
        fields: Any = ("id", "name", "url", "events", "cluster", "is_active", "problem", "owner", "created_at")
        read_only_fields = fields

    def to_representation(self, instance: Webhook) -> dict[str, Any]:
        return {**super().to_representation(instance), "events": list(instance.events)}


class WebhookSecretSerializer(WebhookSerializer):
    """A webhook with its secret: only in the answer that creates it."""

    class Meta(WebhookSerializer.Meta):
        fields: Any = (*WebhookSerializer.Meta.fields, "secret")
        read_only_fields = fields


class WebhookInSerializer(StrictSerializer):
    name = serializers.CharField(max_length=120)
    url = serializers.CharField(max_length=2000)
    events = serializers.ListField(child=serializers.ChoiceField(choices=_EVENTS), min_length=1, max_length=len(EVENTS))
    cluster = serializers.SlugField(required=False, allow_null=True, help_text="Slug of a cluster; null for all")
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


class WebhooksApiView(ApiView):
    """Only people who may create webhooks may read them."""

    write_scope = Token.Scope.MANAGE.value
    ability = "webhooks"
    queryset: Any = Webhook.objects.none()
    serializer_class: Any = WebhookSerializer

    def webhook(self, request: Request, pk: int) -> Webhook:
        return get_object_or_404(webhooks_of(request.user), pk=pk)

    def save(self, request: Request, fields: dict[str, Any], existing: Webhook | None = None) -> Webhook:
        fields = dict(fields)
        if "cluster" in fields:
            fields["cluster"] = cluster_of(request, fields["cluster"]) if fields["cluster"] else None
        return services.webhook_save(by=request.user, existing=existing, **fields)


class WebhooksView(WebhooksApiView):
    pagination_class = Cursor

    @extend_schema(
        operation_id="webhooks_list",
        tags=TAGS,
        summary="Your webhooks; for administrators all",
        responses=WebhookSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        return self.page_of(webhooks_of(request.user))

    @extend_schema(
        operation_id="webhooks_create",
        tags=TAGS,
        summary="Create a webhook; only this answer has its secret",
        request=WebhookInSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses={201: WebhookSecretSerializer, 422: PROBLEM},
    )
    def post(self, request: Request) -> Response:
        form = WebhookInSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return self.once(
            request,
            form.validated_data,
            lambda: (201, WebhookSecretSerializer(self.save(request, form.validated_data)).data),
        )


class WebhookView(WebhooksApiView):
    @extend_schema(operation_id="webhooks_read", tags=TAGS, summary="One webhook")
    def get(self, request: Request, pk: int) -> Response:
        return Response(self.get_serializer(self.webhook(request, pk)).data)

    @extend_schema(
        operation_id="webhooks_change",
        tags=TAGS,
        summary="Change a webhook, or switch it off and on",
        request=WebhookInSerializer(partial=True),
        responses={200: WebhookSerializer, 422: PROBLEM},
    )
    def patch(self, request: Request, pk: int) -> Response:
        hook = self.webhook(request, pk)
        form = WebhookInSerializer(data=request.data, partial=True)
        form.is_valid(raise_exception=True)
        now = {name: getattr(hook, name) for name in ("name", "url", "events", "is_active")}
        cluster = {"cluster": hook.cluster.slug if hook.cluster else None}
        return Response(WebhookSerializer(self.save(request, {**now, **cluster, **form.validated_data}, hook)).data)

    @extend_schema(operation_id="webhooks_delete", tags=TAGS, summary="Delete a webhook", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        services.webhook_delete(hook=self.webhook(request, pk), by=request.user)
        return Response(status=204)


class WebhookRotateView(WebhooksApiView):
    @extend_schema(
        operation_id="webhooks_rotate",
        tags=TAGS,
        summary="Create a new secret; the old one signs, too, for a day",
        request=None,
        responses={200: WebhookSecretSerializer},
    )
    def post(self, request: Request, pk: int) -> Response:
        hook = self.webhook(request, pk)
        services.secret_rotate(hook=hook, by=request.user)
        return Response(WebhookSecretSerializer(hook).data)


class WebhookPingView(WebhooksApiView):
    @extend_schema(
        operation_id="webhooks_ping",
        tags=TAGS,
        summary="Send a test message",
        request=None,
        responses={202: DeliverySerializer},
    )
    def post(self, request: Request, pk: int) -> Response:
        sent = services.ping(hook=self.webhook(request, pk))
        sent.refresh_from_db()
        return Response(DeliverySerializer(sent).data, status=202)


class DeliveriesView(WebhooksApiView):
    serializer_class = DeliverySerializer
    pagination_class = Cursor
    queryset: Any = Delivery.objects.none()

    @extend_schema(
        operation_id="webhooks_deliveries",
        tags=TAGS,
        summary="Messages of a webhook, newest first",
        responses=DeliverySerializer(many=True),
    )
    def get(self, request: Request, pk: int) -> Response:
        return self.page_of(deliveries_of(self.webhook(request, pk)))


class RedeliverView(WebhooksApiView):
    @extend_schema(
        operation_id="webhooks_redeliver",
        tags=TAGS,
        summary="Send a message again, under its own id",
        request=None,
        responses={202: DeliverySerializer},
    )
    def post(self, request: Request, pk: int, delivery: UUID) -> Response:
        found = get_object_or_404(self.webhook(request, pk).deliveries, pk=delivery)
        sent = services.redeliver(delivery=found)
        sent.refresh_from_db()
        return Response(DeliverySerializer(sent).data, status=202)
