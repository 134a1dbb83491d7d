"""``/api/v1/jobs/<slug>/move/``: a job's cluster, for managers."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ingest.api.base import ApiView
from ingest.api.jobs import job_of
from ingest.api.serializers import PROBLEM, JobSerializer
from ingest.api.strict import StrictSerializer
from ingest.models import Token
from triage.services.moving import job_move


class JobMoveSerializer(StrictSerializer):
    cluster = serializers.SlugField(help_text="Slug of the cluster to move it to; you must see both")


class JobMoveView(ApiView):
    serializer_class: Any = JobSerializer
    write_scope = Token.Scope.REVIEW.value
    ability = "move"

    @extend_schema(
        operation_id="jobs_move",
        tags=["jobs"],
        summary="Move a job with its incidents to another cluster, for managers of both",
        description="Its id gets the new cluster's name: read it from the answer. To undo it, move the job back.",
        request=JobMoveSerializer,
        responses={200: JobSerializer, 403: PROBLEM, 409: PROBLEM, 422: PROBLEM},
    )
    def post(self, request: Request, slug: str) -> Response:
        fields = self.fields_of(request, JobMoveSerializer)
        job, _ = job_move(job=job_of(request, slug), cluster=fields["cluster"], by=request.user)
        return Response(JobSerializer(job).data)
