"""``/api/v1/incidents/…``: search, read, decide."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from ingest.api.base import IDEMPOTENCY_KEY, ApiView, Cursor, asks
from ingest.api.serializers import PROBLEM
from ingest.models import Token
from ingest.refusals import Refused
from triage import search
from triage.api.serializers import (
    DecisionInSerializer,
    DecisionSerializer,
    FindingSerializer,
    IncidentDetailSerializer,
    IncidentSerializer,
)
from triage.domain.finding_facts import findings_of
from triage.models import Decision, Incident
from triage.selectors.incidents import incidents_visible_to
from triage.selectors.saved_views import saved_view_query
from triage.services import reviewing

TAGS = ["incidents"]
_QUERY = OpenApiParameter(
    "q", str, description="The search language of the list, e.g. `category:network is:unreviewed`"
)
_FILTER = OpenApiParameter("filter", str, description="Slug of a saved view, joined with `q`")


class IncidentCursor(Cursor):
    """Newest first by (opened_at, id)."""

    ordering = ("-opened_at", "-id")


def incident_of(request: Request, number: int) -> Incident:
    rows = incidents_visible_to(request.user).select_related("job", "cluster", "assignee", "diagnosis")
    return get_object_or_404(rows, pk=number)


class IncidentsView(ApiView):
    serializer_class = IncidentSerializer
    pagination_class = IncidentCursor
    queryset = Incident.objects.none()

    @extend_schema(
        operation_id="incidents_list",
        tags=TAGS,
        summary="Incidents that match a search, newest first",
        responses={200: IncidentSerializer(many=True), 422: PROBLEM},
    )
    @asks(_QUERY, _FILTER)
    def get(self, request: Request) -> Response:
        text = request.query_params.get("q", "")
        if slug := request.query_params.get("filter"):
            saved = saved_view_query(request.user, slug)
            if saved is None:
                raise Refused(f"There is no saved view “{slug}” for you.", code="unknown_view")
            text = f"{saved} {text}"
        try:
            query = search.parse(text)
        except search.SearchError as error:
            raise Refused(str(error), code="unreadable_search") from error
        rows = query.apply(incidents_visible_to(request.user), user=request.user)
        return self.page_of(rows.select_related("job", "cluster", "assignee"))


class IncidentView(ApiView):
    serializer_class = IncidentDetailSerializer
    queryset = Incident.objects.none()

    @extend_schema(operation_id="incidents_read", tags=TAGS, summary="One incident with its report and decisions")
    def get(self, request: Request, number: int) -> Response:
        return Response(self.get_serializer(incident_of(request, number)).data)


class FindingsView(ApiView):
    serializer_class = FindingSerializer
    queryset = Incident.objects.none()

    @extend_schema(
        operation_id="incidents_findings",
        tags=TAGS,
        summary="The events of an incident's evidence, root causes first",
        responses={200: FindingSerializer(many=True)},
    )
    def get(self, request: Request, number: int) -> Response:
        rows = findings_of(incident_of(request, number).diagnosis.report)
        return Response(self.get_serializer(rows, many=True).data)


class _ByMade(Cursor):
    ordering = ("-made_at", "-id")


class DecisionsView(ApiView):
    serializer_class = DecisionSerializer
    pagination_class = _ByMade
    queryset = Decision.objects.none()
    write_scope = Token.Scope.REVIEW.value

    @extend_schema(
        operation_id="incidents_decisions_list",
        tags=TAGS,
        summary="All decisions on an incident, including undone ones, newest first",
        responses=DecisionSerializer(many=True),
    )
    def get(self, request: Request, number: int) -> Response:
        return self.page_of(incident_of(request, number).decisions.select_related("made_by"))

    @extend_schema(
        operation_id="incidents_decisions_create",
        tags=TAGS,
        summary="Confirm, correct or reject a claim",
        description="200 if you decided so before, and it stands: nothing is written, and no message is sent.",
        request=DecisionInSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses={200: DecisionSerializer, 201: DecisionSerializer, 422: PROBLEM},
    )
    def post(self, request: Request, number: int) -> Response:
        fields = self.fields_of(request, DecisionInSerializer)
        incident = incident_of(request, number)

        def make() -> tuple[int, Any]:
            try:
                decision = reviewing.decision_make(incident=incident, by=request.user, **fields)
            except reviewing.ReviewError as error:
                raise Refused(str(error), code="refused_decision") from error
            return 200 if decision.is_repeat else 201, DecisionSerializer(decision).data

        return self.once(request, fields, make)


class DecisionUndoView(ApiView):
    serializer_class = DecisionSerializer
    queryset = Decision.objects.none()
    write_scope = Token.Scope.REVIEW.value

    @extend_schema(
        operation_id="incidents_decisions_undo",
        tags=TAGS,
        summary="Undo a decision",
        request=None,
        responses={200: DecisionSerializer, 422: PROBLEM},
    )
    def post(self, request: Request, number: int, decision: int) -> Response:
        found = get_object_or_404(Decision, pk=decision, incident=incident_of(request, number))
        self.fields_of(request)
        try:
            undone = reviewing.decision_undo(decision=found, by=request.user)
        except reviewing.ReviewError as error:
            raise Refused(str(error), code="refused_decision") from error
        return Response(DecisionSerializer(undone).data)
