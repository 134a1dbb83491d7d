"""One file of a job in one request: ``curl -T train.log …/jobs/my-job/files/``."""

from __future__ import annotations

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from ingest import services
from ingest.api.base import ApiView, asks
from ingest.api.jobs import columns_of, job_of
from ingest.api.serializers import PROBLEM, FileReceiptSerializer, JobPutSerializer
from ingest.api.uploads import ATTEMPT, RAW, number_of, part_for
from ingest.bodies import RECEIVED, GoAhead, receive_body
from ingest.models import Job, Outcome
from ingest.refusals import Refused
from ingest.services import receiving

#: what a request may say about a job; the rest of the description fits no address
_OF_JOB = ("name", "cluster", "team", "outcome")
_SLUG = {"type": "string", "pattern": "^[-a-zA-Z0-9_]+$"}
_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_ANSWERS = {"yes": True, "no": False}


class JobFileView(ApiView):
    serializer_class = FileReceiptSerializer
    rate = "UPLOADS_PER_MINUTE"
    takes_bytes = ("PUT",)

    @extend_schema(
        operation_id="files_put",
        tags=["uploads"],
        summary="Send one file or archive by its name, make its job and ask for the diagnosis",
        description="All that a small job needs, in one request. The job is made if there is none "
        "with this id. The same bytes again change nothing (200). Archives are opened in the "
        "background (202). A program that sends many files sends their digests, too: "
        "`PUT …/artifacts/SHA256`.",
        request=RAW,
        responses={
            200: FileReceiptSerializer,
            201: FileReceiptSerializer,
            202: FileReceiptSerializer,
            422: PROBLEM,
        },
    )
    @asks(
        OpenApiParameter("attempt", ATTEMPT, description="Launch of the job, counted from 0"),
        OpenApiParameter(
            "cluster",
            _SLUG,
            description="Slug of a cluster; needed if your teams do not have exactly one",
        ),
        OpenApiParameter(
            "diagnose",
            str,
            enum=list(_ANSWERS),
            description="Whether it is diagnosed as soon as it is read, which is the default. "
            "`no` if more files follow at once",
        ),
        OpenApiParameter("name", _NAME, description="Name of the job; its id if left out"),
        OpenApiParameter("outcome", str, enum=Outcome.values, description="How it ended, as far as you know"),
        OpenApiParameter("team", _SLUG, description="Slug of one of your teams; optional if you have only one"),
    )
    def put(self, request: Request, slug: str, path: str) -> HttpResponse:
        path = receiving.check_path(path)
        attempt = number_of(request.query_params.get("attempt", "0"), "attempt")
        is_diagnosis_wanted = _wants_diagnosis(request)
        job = _job_of(request, slug)

        part = receive_body(request._request, lambda length: part_for(job, path, length))
        if isinstance(part, GoAhead):
            return part
        with part:
            receipt = services.part_receive(
                job=job,
                path=path,
                part=part,
                attempt=attempt,
                user=request.user,
                is_diagnosis_wanted=is_diagnosis_wanted,
            )
        if is_diagnosis_wanted and not receipt.is_new:
            services.diagnosis_request(job=job, user=request.user)
        status = 200 if not receipt.is_new else 201 if receipt.artifact else 202
        answer = FileReceiptSerializer({**receipt._asdict(), "job": job.slug}).data
        return Response(answer, status=status, headers={"Location": f"/api/v1/jobs/{job.slug}/"})


def _wants_diagnosis(request: Request) -> bool:
    said = request.query_params.get("diagnose", "yes")
    if said not in _ANSWERS:
        raise Refused(f"diagnose is {' or '.join(_ANSWERS)}, not “{said[:40]}”.", code="bad_answer")
    return _ANSWERS[said]


def _job_of(request: Request, slug: str) -> Job:
    """The job with this id. The server makes two requests of one: the first makes the job."""
    if RECEIVED in request.META:
        return job_of(request, slug)
    said = {name: request.query_params[name] for name in _OF_JOB if name in request.query_params}
    form = JobPutSerializer(data=said)
    form.is_valid(raise_exception=True)
    columns = columns_of(request, form.validated_data)
    return services.job_put(user=request.user, slug=slug, **columns)[0]
