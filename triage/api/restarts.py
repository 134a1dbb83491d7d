"""``/api/v1/jobs/<slug>/attempts/<number>/restart/``: what to do with a job that failed, as one word."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ingest.api.base import ApiView
from ingest.api.jobs import job_of
from triage.selectors.restarts import restart_view

ACTIONS = ("STOP", "RESTART", "CONTINUE", "UNKNOWN")
STATUSES = ("pending", "in_flight", "completed")


class RestartSerializer(serializers.Serializer[Any]):
    """Only an answer with the status ``completed`` decides anything. Nothing is executed here."""

    status = serializers.ChoiceField(STATUSES)
    action = serializers.ChoiceField(ACTIONS)
    reason = serializers.CharField()
    exclude_nodes = serializers.ListField(child=serializers.CharField(), help_text="Machines to restart without")
    incident = serializers.IntegerField(allow_null=True, help_text="Its number")
    headline = serializers.CharField(allow_blank=True)
    category = serializers.CharField(allow_blank=True)
    confidence = serializers.FloatField(allow_null=True)
    url = serializers.CharField(help_text="The page that shows the same with its evidence")


class RestartView(ApiView):
    serializer_class = RestartSerializer

    @extend_schema(
        operation_id="jobs_restart",
        tags=["jobs"],
        summary="Whether to restart an attempt of a job, and without which machines",
        responses=RestartSerializer,
    )
    def get(self, request: Request, slug: str, number: int) -> Response:
        job = job_of(request, slug)
        # the largest number that the database stores
        attempt = job.attempts.filter(number=number).first() if number < 1 << 31 else None
        view = restart_view(attempt)
        incident, recommendation = view.incident, view.recommendation
        return Response(
            {
                "status": view.status,
                "action": recommendation.action,
                "reason": recommendation.reason,
                "exclude_nodes": list(recommendation.exclude_nodes),
                "incident": incident.pk if incident else None,
                "headline": incident.headline if incident else "",
                "category": incident.category if incident else "",
                "confidence": incident.confidence if incident else None,
                "url": f"/incidents/{incident.pk}/" if incident else f"/jobs/{job.slug}/",
            }
        )
