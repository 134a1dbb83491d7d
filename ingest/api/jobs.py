"""``/api/v1/jobs/…``: create a job, see its progress, request its diagnosis."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from diagnosis.values import numbers
from ingest import selectors, services
from ingest.api.base import IDEMPOTENCY_KEY, ApiView, Cursor, asks
from ingest.api.serializers import (
    PROBLEM,
    ArtifactSerializer,
    DiagnoseInSerializer,
    DiagnoseOutSerializer,
    JobChangeSerializer,
    JobDetailSerializer,
    JobInSerializer,
    JobPutSerializer,
    JobSerializer,
    RunSerializer,
    UploadSerializer,
    WantedListSerializer,
)
from ingest.bodies import CAN_WAIT
from ingest.models import Artifact, Job, Run, Upload
from ingest.parameters import SHA256
from ingest.refusals import Refused

TAGS = ["jobs"]
#: proxies end a request without an answer after a minute
MAX_WAIT_S = 50
#: the address of a request stays below what proxies take
MAX_DIGESTS = 50


def job_of(request: Any, slug: str) -> Job:
    """The job with this id, with or without the name of the caller's cluster before it; else 404."""
    job = selectors.job_named(request.user, slug)
    if job is None:
        raise Http404(
            f"There is no job “{slug[:120]}” that you may see: check its id, or create it with POST /api/v1/jobs/."
        )
    return job


def _digests_of(request: Request) -> list[str]:
    digests = request.query_params["sha256"].lower().split(",")
    if len(digests) > MAX_DIGESTS or not all(map(SHA256.fullmatch, digests)):
        sentence = f"sha256 takes 1 to {MAX_DIGESTS} digests of 64 hexadecimal digits, with commas."
        raise Refused(sentence, code="bad_digest")
    return digests


def columns_of(request: Any, said: dict[str, Any]) -> dict[str, Any]:
    """The model's fields for these values. The caller may only name their own teams."""
    fields = dict(said)
    if fields.get("team"):
        team = selectors.teams_of(request.user).filter(slug=fields["team"]).first()
        if team is None:
            sentence = f"“{fields['team']}” is not one of your teams: name a team that you are in, or leave it out."
            raise Refused(sentence, code="invalid", fields={"team": sentence})
        fields["team"] = team
    if "nodes" in fields:
        fields["nodes_text"] = "\n".join(fields.pop("nodes"))
    if "outcome" in fields:
        fields["declared_outcome"] = fields.pop("outcome")
    return fields


class JobsView(ApiView):
    serializer_class = JobSerializer
    pagination_class = Cursor
    queryset = Job.objects.none()

    @extend_schema(
        operation_id="jobs_list",
        tags=TAGS,
        summary="Jobs, newest first",
        description="`sha256` asks before an upload which jobs have all of these files already. It "
        f"takes at most {MAX_DIGESTS} digests of files or archives as they are sent, separated by "
        "commas. No job in the answer: the evidence is new.",
        responses=JobSerializer(many=True),
    )
    @asks(OpenApiParameter("sha256", {"type": "string"}))
    def get(self, request: Request) -> Response:
        jobs = selectors.jobs_visible_to(request.user)
        if "sha256" in request.query_params:
            jobs = selectors.jobs_with_files(request.user, _digests_of(request))
        return self.page_of(jobs.select_related("cluster", "team"))

    @extend_schema(
        operation_id="jobs_create",
        tags=TAGS,
        summary="Make a job",
        request=JobInSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses={201: JobSerializer, 409: PROBLEM, 422: PROBLEM},
    )
    def post(self, request: Request) -> Response:
        fields = self.fields_of(request, JobInSerializer)
        answer = self.once(request, fields, lambda: self._create(request, fields))
        answer["Location"] = f"/api/v1/jobs/{answer.data['slug']}/"
        return answer

    def _create(self, request: Request, fields: dict[str, Any]) -> tuple[int, Any]:
        job = services.job_create(user=request.user, **columns_of(request, fields))
        return 201, JobSerializer(job).data


class JobView(ApiView):
    serializer_class = JobDetailSerializer

    @extend_schema(
        operation_id="jobs_read",
        tags=TAGS,
        summary="A job, its progress, the problems of its evidence, its verdict and incident",
        description="`wait` answers as soon as all evidence is diagnosed or was refused. It waits for at most so many "
        "seconds. If `progress.is_active` is still true, ask again.",
    )
    @asks(OpenApiParameter("wait", {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_S}))
    def get(self, request: Request, slug: str) -> Response:
        wait_s = numbers.whole(request.query_params.get("wait", "0"), digits=3)
        if wait_s is None or wait_s > MAX_WAIT_S:
            raise Refused(f"wait is a whole number of seconds from 0 to {MAX_WAIT_S}.", code="bad_number")
        job = job_of(request, slug)
        if wait_s and CAN_WAIT in request.META and selectors.busy_jobs([job.pk]):
            response = Response({})
            response.wait = job.pk, str(request.user.pk), float(wait_s)  # type: ignore[attr-defined]
            return response
        return Response(self.get_serializer(job).data)

    @extend_schema(
        operation_id="jobs_put",
        tags=TAGS,
        summary="Make a job with this id, or change it if there is one",
        description="Safe to repeat: the same id is the same job. Fields that are left out stay as they are. In a "
        "cluster of teams, the stored id begins with the cluster's name; both ids lead to the job.",
        request=JobPutSerializer,
        responses={200: JobSerializer, 201: JobSerializer, 409: PROBLEM, 422: PROBLEM},
    )
    def put(self, request: Request, slug: str) -> Response:
        fields = self.fields_of(request, JobPutSerializer)
        job, is_new = services.job_put(user=request.user, slug=slug, **columns_of(request, fields))
        location = {"Location": f"/api/v1/jobs/{job.slug}/"}
        return Response(JobSerializer(job).data, status=201 if is_new else 200, headers=location)

    @extend_schema(
        operation_id="jobs_change",
        tags=TAGS,
        summary="Change the description of a job: outcome, times, nodes",
        request=JobChangeSerializer(partial=True),
        responses={200: JobDetailSerializer},
    )
    def patch(self, request: Request, slug: str) -> Response:
        job = job_of(request, slug)
        fields = self.fields_of(request, JobChangeSerializer, partial=True)
        services.job_change(job=job, **columns_of(request, fields))
        return Response(self.get_serializer(job).data)

    @extend_schema(
        operation_id="jobs_delete",
        tags=TAGS,
        summary="Delete a job with its evidence, incidents and decisions",
        description="For administrators, and for the creator of the job while nobody else worked on its incidents. "
        "This cannot be undone; the deletion stays on record. Work on its evidence is cancelled. "
        "409 while evidence arrives.",
        responses={204: None, 403: PROBLEM, 409: PROBLEM},
    )
    @asks(OpenApiParameter("reason", str, description="The reason, for the record"))
    def delete(self, request: Request, slug: str) -> Response:
        reason = request.query_params.get("reason", "")
        services.job_delete(job=job_of(request, slug), user=request.user, reason=reason)
        return Response(status=204)


class WantedView(ApiView):
    serializer_class = WantedListSerializer
    rate = "UPLOADS_PER_MINUTE"  # all followers of a job have one token

    @extend_schema(
        operation_id="jobs_wanted",
        tags=TAGS,
        summary="Evidence of a running job that would decide what is wrong now, and that followers may take",
        description="`stacks` while the job hangs. `FAULTLINE_FOLLOWERS_TAKE` says which kinds the site asks for.",
    )
    def get(self, request: Request, slug: str) -> Response:
        job = job_of(request, slug)
        wanted = selectors.wanted_evidence(job)
        answer = {"wanted": wanted, "ask_again_s": selectors.ask_again_s(job)}
        return Response(self.get_serializer(answer).data)


class RunsView(ApiView):
    serializer_class = RunSerializer
    pagination_class = Cursor
    queryset = Run.objects.none()

    @extend_schema(
        operation_id="jobs_runs",
        tags=TAGS,
        summary="Background work on a job, newest first, with its log",
        responses=RunSerializer(many=True),
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page_of(Run.objects.filter(job=job_of(request, slug)).prefetch_related("log"))


class RunCancelView(ApiView):
    serializer_class = RunSerializer

    @extend_schema(
        operation_id="runs_cancel",
        tags=TAGS,
        summary="Cancel background work that is queued or running",
        description="Its worker ends within seconds. What was done stays; `retry` starts the rest again.",
        request=None,
        responses={200: RunSerializer, 409: PROBLEM},
    )
    def post(self, request: Request, slug: str, pk: int) -> Response:
        run = _run_of(request, slug, pk)
        self.fields_of(request)
        if not services.run_cancel(run=run, user=request.user):
            raise Refused("This work has ended: there is nothing to cancel.", code="run_ended", status=409)
        return Response(self.get_serializer(_run_of(request, slug, pk)).data)


class RunRetryView(ApiView):
    serializer_class = RunSerializer

    @extend_schema(
        operation_id="runs_retry",
        tags=TAGS,
        summary="Start failed or cancelled work again",
        request=None,
        responses={200: RunSerializer, 409: PROBLEM},
    )
    def post(self, request: Request, slug: str, pk: int) -> Response:
        run = _run_of(request, slug, pk)
        self.fields_of(request)
        if not services.run_retry(run=run):
            raise Refused("This work neither failed nor was cancelled.", code="run_not_failed", status=409)
        return Response(self.get_serializer(_run_of(request, slug, pk)).data)


def _run_of(request: Request, slug: str, pk: int) -> Run:
    return get_object_or_404(Run.objects.prefetch_related("log"), job=job_of(request, slug), pk=pk)


class _ByArrival(Cursor):
    ordering = ("-received_at", "-id")


class ArtifactsView(ApiView):
    serializer_class = ArtifactSerializer
    pagination_class = _ByArrival
    queryset = Artifact.objects.none()

    @extend_schema(
        operation_id="jobs_artifacts",
        tags=TAGS,
        summary="Files of a job, the latest first",
        responses=ArtifactSerializer(many=True),
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page_of(selectors.artifacts_of(job_of(request, slug)).order_by())


class JobUploadsView(ApiView):
    serializer_class = UploadSerializer
    pagination_class = Cursor
    queryset = Upload.objects.none()

    @extend_schema(
        operation_id="jobs_uploads",
        tags=TAGS,
        summary="Uploads of a job, the latest first: names, digests, and reasons of refusals",
        responses=UploadSerializer(many=True),
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page_of(Upload.objects.filter(job=job_of(request, slug)).select_related("job", "attempt"))


class DiagnoseView(ApiView):
    serializer_class = DiagnoseInSerializer

    @extend_schema(
        operation_id="jobs_diagnose",
        tags=TAGS,
        summary="Diagnose a job as soon as its evidence is read",
        request=DiagnoseInSerializer,
        responses={200: DiagnoseOutSerializer, 202: DiagnoseOutSerializer, 409: PROBLEM},
    )
    def post(self, request: Request, slug: str) -> Response:
        job = job_of(request, slug)
        fields = self.fields_of(request, DiagnoseInSerializer)
        run = services.diagnosis_request(job=job, user=request.user, is_forced=fields["force"])
        if run is not None:
            run.refresh_from_db()
        state = run.state if run else "waiting"
        job.refresh_from_db(fields=["revision"])
        revision = run.parameters["revision"] if run else job.revision
        body = {"state": state, "run": run.pk if run else None, "revision": revision, "url": f"/jobs/{job.slug}/"}
        return Response(body, status=200 if state in ("succeeded", "failed", "cancelled") else 202)
