"""``/api/v1/incidents/<number>/tickets/`` and ``/api/v1/nodes/<name>/tickets/``: tickets in other systems."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ingest.api.base import IDEMPOTENCY_KEY, ApiView, asks
from ingest.api.serializers import PROBLEM
from ingest.api.strict import StrictSerializer
from ingest.models import Node, Token
from triage.api.incidents import incident_of
from triage.models import Incident
from triage.selectors.nodes import nodes_by_name
from triage.selectors.tickets import tickets_of
from triage.services.tickets import ticket_ask

_CLUSTER = OpenApiParameter(
    "cluster", str, description="Of nodes with one name, that of this cluster; else the first by the cluster's name"
)


class TicketSerializer(serializers.Serializer[Any]):
    route = serializers.IntegerField(source="route_id")
    name = serializers.CharField(source="route.name", help_text="The route's")
    title = serializers.CharField(help_text="Its name there, such as team/ops#17")
    url = serializers.CharField()
    state = serializers.CharField(help_text="As it was at `updated_at`")
    updated_at = serializers.DateTimeField()


class TicketRequestSerializer(serializers.Serializer[Any]):
    route = serializers.IntegerField(source="route_id")
    name = serializers.CharField(source="route.name")
    state = serializers.CharField(help_text="waiting, or given up")
    problem = serializers.SerializerMethodField()

    def get_problem(self, row: Any) -> str:
        return str(row.attempts[-1]["error"]) if row.attempts else ""


class TicketRouteSerializer(serializers.Serializer[Any]):
    route = serializers.IntegerField(source="pk")
    name = serializers.CharField()
    kind = serializers.CharField()


class TicketsSerializer(serializers.Serializer[Any]):
    """What an incident or node has elsewhere, what was asked for, and where else a ticket can be made."""

    made = TicketSerializer(many=True)
    pending = TicketRequestSerializer(many=True)
    routes = TicketRouteSerializer(many=True)


class TicketInSerializer(StrictSerializer):
    route = serializers.IntegerField(min_value=1, help_text="The id of a route to a tracker")


class _TicketsView(ApiView):
    serializer_class: Any = TicketsSerializer
    queryset: Any = Incident.objects.none()
    write_scope = Token.Scope.REVIEW.value

    def tickets_response(self, about: Incident | Node) -> Response:
        return Response(TicketsSerializer(tickets_of(about)).data)

    def make_ticket(self, request: Request, about: Incident | Node) -> Response:
        fields = self.fields_of(request, TicketInSerializer)

        def answer() -> tuple[int, Any]:
            ticket_ask(route_id=fields["route"], about=about, by=request.user)
            return 202, TicketsSerializer(tickets_of(about)).data

        return self.once(request, fields, answer)


class TicketsView(_TicketsView):
    @extend_schema(
        operation_id="incidents_tickets", tags=["incidents"], summary="An incident's tickets in other systems"
    )
    def get(self, request: Request, number: int) -> Response:
        return self.tickets_response(incident_of(request, number))

    @extend_schema(
        operation_id="incidents_ticket_make",
        tags=["incidents"],
        summary="Make a ticket of an incident by a route to a tracker",
        request=TicketInSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses={202: TicketsSerializer, 422: PROBLEM},
    )
    def post(self, request: Request, number: int) -> Response:
        return self.make_ticket(request, incident_of(request, number))


class NodeTicketsView(_TicketsView):
    @asks(_CLUSTER)
    @extend_schema(operation_id="nodes_tickets", tags=["nodes"], summary="A node's tickets in other systems")
    def get(self, request: Request, name: str) -> Response:
        return self.tickets_response(_node(request, name))

    @asks(_CLUSTER)
    @extend_schema(
        operation_id="nodes_ticket_make",
        tags=["nodes"],
        summary="Make a ticket of a node by a route to a tracker",
        request=TicketInSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses={202: TicketsSerializer, 422: PROBLEM},
    )
    def post(self, request: Request, name: str) -> Response:
        return self.make_ticket(request, _node(request, name))


def _node(request: Request, name: str) -> Node:
    found = nodes_by_name(request.user, name, cluster=request.query_params.get("cluster", ""))
    if not found:
        raise Http404
    return found[0]
