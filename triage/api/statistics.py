"""``/api/v1/statistics/``: the tables of the statistics page. ``/api/v1/search/``: suggestions for a query."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from ingest.api.base import ApiView, asks
from ingest.api.serializers import PROBLEM
from ingest.api.uploads import COUNT, number_of
from ingest.refusals import Refused
from ingest.roles import can
from triage import search
from triage.selectors.demonstration import query_for_figures
from triage.selectors.jobs import jobs_visible_to
from triage.selectors.statistics import DIMENSIONS, TABLES, Period, statistics_of
from triage.selectors.sums import INVALID_DATES


class StatisticsSerializer(serializers.Serializer[Any]):
    """Figures with their change, and each table as a list of rows."""

    since = serializers.DateField()
    until = serializers.DateField()
    query = serializers.CharField()
    total = serializers.IntegerField()
    figures = serializers.ListField(child=serializers.DictField())
    tables = serializers.DictField(child=serializers.ListField(child=serializers.DictField()))


class SuggestionSerializer(serializers.Serializer[Any]):
    """``text`` replaces the characters ``start`` to ``end`` of the typed query."""

    text = serializers.CharField()
    explanation = serializers.CharField()
    start = serializers.IntegerField()
    end = serializers.IntegerField()


class StatisticsView(ApiView):
    serializer_class = StatisticsSerializer

    @extend_schema(
        operation_id="statistics_read",
        tags=["statistics"],
        summary="Kinds and costs of failures, for a search and a range of days",
        responses={200: StatisticsSerializer, 422: PROBLEM},
    )
    @asks(
        OpenApiParameter("q", str, description="The search language of the list"),
        OpenApiParameter("since", date, description="First day; default: 89 days before `until`"),
        OpenApiParameter("until", date, description="Last day; default: today"),
        OpenApiParameter(
            "by", str, enum=list(DIMENSIONS), description="The column that the table `dimension` groups by"
        ),
    )
    def get(self, request: Request) -> Response:
        if not can(request.user, "statistics"):
            raise PermissionDenied("Statistics need the role engineer or manager.")
        params = request.query_params
        try:
            query = query_for_figures(search.parse(params.get("q", "")), request.user)
            until = date.fromisoformat(params["until"]) if params.get("until") else timezone.now().date()
            since = date.fromisoformat(params["since"]) if params.get("since") else until - timedelta(days=89)
            period = Period.between(since, until)
        except search.SearchError as error:
            raise Refused(str(error), code="unreadable_search") from error
        except (ValueError, OverflowError) as error:
            raise Refused(INVALID_DATES, code="invalid") from error
        by = params.get("by", "cluster")
        if by not in DIMENSIONS:
            raise Refused(f"“by” is one of {', '.join(DIMENSIONS)}.", code="invalid")
        shown = statistics_of(user=request.user, query=query, period=period, by=by, now=timezone.now())
        answer = {
            "since": since,
            "until": until,
            "query": str(query),
            "total": shown.total,
            "figures": [_figure(figure) for figure in shown.figures],
            "tables": {name: _rows(shown.table(name)) for name in TABLES},
        }
        return Response(answer)


class SearchView(ApiView):
    serializer_class = SuggestionSerializer

    @extend_schema(
        operation_id="search_suggest",
        tags=["search"],
        summary="Suggestions at the cursor: keys, or values of the key before it",
        responses={200: SuggestionSerializer(many=True)},
    )
    @asks(OpenApiParameter("q", str), OpenApiParameter("cursor", COUNT))
    def get(self, request: Request) -> Response:
        text = request.query_params.get("q", "")
        params = request.query_params.get("cursor")
        cursor = len(text) if params is None else number_of(params, "cursor")
        found = search.suggest(text, cursor, jobs=jobs_visible_to(request.user))
        return Response(self.get_serializer(found, many=True).data)


def _figure(figure: Any) -> dict[str, Any]:
    return {name: getattr(figure, name) for name in ("key", "title", "value", "before", "unit", "basis")}


def _rows(frame: Any) -> list[dict[str, Any]]:
    """A table as JSON: dates as text, unknown values as null."""
    known = frame.astype(object).where(frame.notna(), None)
    return [_plain_row(row) for row in known.to_dict("records")]


def _plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _plain(value) for key, value in row.items()}


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value.item() if hasattr(value, "item") else value
