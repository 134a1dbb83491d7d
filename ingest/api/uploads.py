"""Uploads by API: one file by its digest in one request, or resumable with tus 1.0. Bodies are streamed."""

from __future__ import annotations

import base64
import binascii
import contextlib
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from diagnosis.values import numbers
from ingest import selectors, services, storage
from ingest.api.base import ApiView, asks
from ingest.api.jobs import job_of
from ingest.api.schema import for_programmers
from ingest.api.serializers import PROBLEM, CapabilitiesSerializer, ReceiptSerializer
from ingest.bodies import RECEIVED, GoAhead, receive_body
from ingest.models import Job, Upload
from ingest.parameters import SHA256
from ingest.refusals import Refused, translate_storage_errors
from ingest.services import receiving, resuming
from ingest.services.quotas import quota_check

TAGS = ["uploads"]
TUS = "1.0.0"
CHUNK_BYTES = 8 << 20
#: the numbers that `number_of` accepts
COUNT = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
ATTEMPT = {"type": "integer", "minimum": 0, "maximum": 100_000}
RAW = {"application/octet-stream": OpenApiTypes.BINARY}


class ArtifactView(ApiView):
    serializer_class = ReceiptSerializer
    rate = "UPLOADS_PER_MINUTE"
    takes_bytes = ("PUT",)

    @extend_schema(
        operation_id="artifacts_put",
        tags=TAGS,
        summary="Send one file or archive by its SHA-256",
        description="Sending it again changes nothing (200). Archives are opened in the background (202).",
        request=RAW,
        responses={200: ReceiptSerializer, 201: ReceiptSerializer, 202: ReceiptSerializer, 422: PROBLEM},
    )
    @asks(
        OpenApiParameter("path", str, required=True, description="Name of the file within the job"),
        OpenApiParameter("attempt", ATTEMPT, description="Launch of the job, counted from 0"),
    )
    def put(self, request: Request, slug: str, sha256: str) -> HttpResponse:
        job = job_of(request, slug)
        if not SHA256.fullmatch(sha256):
            raise Refused("The address must end in the file's SHA-256, 64 hexadecimal digits.", code="bad_digest")
        path = receiving.check_path(request.query_params.get("path", ""))
        attempt = number_of(request.query_params.get("attempt", "0"), "attempt")

        part = receive_body(request._request, lambda length: part_for(job, path, length))
        if isinstance(part, GoAhead):
            return part
        with part:
            receipt = services.part_receive(
                job=job, path=path, part=part, attempt=attempt, expected_sha256=sha256, user=request.user
            )
        status = 200 if not receipt.is_new else 201 if receipt.artifact else 202
        return Response(
            ReceiptSerializer(receipt._asdict()).data, status=status, headers={"Location": f"/jobs/{slug}/"}
        )


class CapabilitiesView(ApiView):
    serializer_class = CapabilitiesSerializer

    @extend_schema(operation_id="uploads_capabilities", tags=TAGS, summary="The limits of this server")
    def get(self, request: Request) -> Response:
        return Response(
            {
                "max_bytes": settings.UPLOAD_MAX_BYTES,
                "chunk_bytes": CHUNK_BYTES,
                "hash_algorithm": "sha256",
                "tus_version": TUS,
                "archives": ["zip", "tar", "tar.gz", "tar.bz2", "tar.xz", "tar.zst", "gz", "bz2", "xz", "zst"],
                "archive_max_members": settings.ARCHIVE_MAX_MEMBERS,
                "archive_max_bytes": settings.ARCHIVE_MAX_BYTES,
                "archive_max_depth": settings.ARCHIVE_MAX_DEPTH,
            }
        )


@for_programmers
class TusView(ApiView):
    """What both tus endpoints share."""

    serializer_class = None
    rate = "UPLOADS_PER_MINUTE"

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        response["Tus-Resumable"] = TUS
        return response


class UploadsView(TusView):
    @extend_schema(
        operation_id="uploads_create",
        tags=TAGS,
        summary="Begin a resumable upload (tus creation)",
        description="`Upload-Metadata` holds base64 values of `job`, `path` and, optionally, `attempt` and `sha256`. "
        "`Upload-Defer-Length: 1` instead of `Upload-Length` begins a file that still grows (/help/live/).",
        request=None,
        parameters=[
            OpenApiParameter("Upload-Length", COUNT, OpenApiParameter.HEADER),
            OpenApiParameter("Upload-Defer-Length", str, OpenApiParameter.HEADER, enum=["1"]),
            OpenApiParameter("Upload-Metadata", str, OpenApiParameter.HEADER, required=True),
        ],
        responses={
            201: OpenApiResponse(description="`Location` is the upload's address"),
            413: PROBLEM,
            422: PROBLEM,
        },
    )
    def post(self, request: Request) -> HttpResponse:
        said = metadata_of(request.headers.get("Upload-Metadata", ""))
        if "job" not in said:
            sentence = "Upload-Metadata names no job: send “job ” and the id of one in base64."
            raise Refused(sentence, code="bad_metadata")
        job = job_of(request, said["job"])
        if said.get("sha256") and not SHA256.fullmatch(said["sha256"]):
            sentence = "Upload-Metadata: sha256 is not 64 hexadecimal digits: correct it, or leave it out."
            raise Refused(sentence, code="bad_digest")
        upload = resuming.upload_begin(
            job=job,
            path=said.get("path") or said.get("filename", ""),
            size_bytes=_length_of(request),
            attempt=number_of(said.get("attempt", "0"), "attempt"),
            sha256=said.get("sha256", ""),
            user=request.user,
        )
        if upload.size_bytes == 0:
            resuming.upload_finish(upload=upload, offset=0)
        location = reverse("api-upload", args=[upload.pk])
        offset = str(resuming.upload_offset(upload) if upload.size_bytes is None else 0)
        return HttpResponse(status=201, headers={"Location": location, "Upload-Offset": offset})

    @extend_schema(exclude=True)
    def options(self, request: Any, *_: Any, **__: Any) -> Any:
        headers = {
            "Tus-Version": TUS,
            "Tus-Extension": "creation,creation-defer-length,termination",
            "Tus-Max-Size": str(settings.UPLOAD_MAX_BYTES),
        }
        return HttpResponse(status=204, headers=headers)


class UploadView(TusView):
    takes_bytes = ("PATCH",)
    rate = "APPENDS_PER_MINUTE"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """A received body was admitted a moment ago, and its bytes are stored already: it is not checked again, which
        would cost as much as everything else.
        """
        if (there := request.META.get(RECEIVED)) is None:
            super().initial(request, *args, **kwargs)
        else:
            self.rate_headers = dict(there.rate_headers)

    def _upload(self, request: Request, pk: str) -> Upload:
        visible = selectors.jobs_visible_to(request.user).order_by().values("pk")
        return get_object_or_404(Upload, pk=pk, source="", job__in=visible)  # a piece needs neither job nor attempt

    @extend_schema(
        operation_id="uploads_offset",
        tags=TAGS,
        summary="How many bytes have arrived (tus HEAD)",
        responses={200: OpenApiResponse(description="In `Upload-Offset`")},
    )
    def head(self, request: Request, pk: str) -> HttpResponse:
        upload = self._upload(request, pk)
        is_live = upload.size_bytes is None
        headers = {
            "Upload-Offset": str(resuming.upload_resume(upload)),
            **({"Upload-Defer-Length": "1"} if is_live else {"Upload-Length": str(upload.size_bytes or 0)}),
            "Cache-Control": "no-store",
        }
        return HttpResponse(status=200, headers=headers)

    @extend_schema(
        operation_id="uploads_append",
        tags=TAGS,
        summary="Send bytes from an offset on (tus PATCH)",
        request={"application/offset+octet-stream": OpenApiTypes.BINARY},
        description="`Upload-Length` states the size of a file that grew: the request that reaches it is the last.",
        parameters=[
            OpenApiParameter("Upload-Offset", COUNT, OpenApiParameter.HEADER, required=True),
            OpenApiParameter("Upload-Length", COUNT, OpenApiParameter.HEADER),
        ],
        responses={
            204: OpenApiResponse(description="New `Upload-Offset`"),
            409: PROBLEM,
            413: PROBLEM,
            460: PROBLEM,
        },
    )
    def patch(self, request: Request, pk: str) -> HttpResponse:
        if request.content_type.partition(";")[0].strip() != "application/offset+octet-stream":
            raise Refused("The Content-Type must be application/offset+octet-stream.", code="media_type", status=415)

        def piece_of(length: int) -> resuming.Piece:
            begin = number_of(request.headers.get("Upload-Offset", ""), "Upload-Offset")
            stated = request.headers.get("Upload-Length")
            size = None if stated is None else number_of(stated, "Upload-Length")
            return resuming.Piece(self._upload(request, pk), begin, length, size_bytes=size)

        piece = receive_body(request._request, piece_of)
        if isinstance(piece, GoAhead):
            return piece
        with contextlib.closing(piece), translate_storage_errors():
            offset, receipt = piece.finish()
        headers = {"Upload-Offset": str(offset)}
        if receipt is not None:
            headers["Upload-Is-New"] = str(int(receipt.is_new))
        return HttpResponse(status=204, headers=headers)

    @extend_schema(
        operation_id="uploads_delete",
        tags=TAGS,
        summary="Abort an unfinished upload (tus termination)",
        responses={204: None},
    )
    def delete(self, request: Request, pk: str) -> HttpResponse:
        resuming.upload_abort(upload=self._upload(request, pk))
        return HttpResponse(status=204)


def _length_of(request: Request) -> int | None:
    """The announced size; None for a file that still grows."""
    deferred = request.headers.get("Upload-Defer-Length")
    if deferred is None:
        return number_of(request.headers.get("Upload-Length", ""), "Upload-Length")
    if deferred != "1" or "Upload-Length" in request.headers:
        sentence = "Send either Upload-Length or Upload-Defer-Length: 1."
        raise Refused(sentence, code="bad_length")
    return None


def part_for(job: Job, path: str, length: int) -> storage.Part:
    """A part file for so many bytes of a file of the job, if the server and the job's team take them."""
    receiving.check_size(path, length)
    quota_check(job.pk, length)
    with translate_storage_errors():
        return storage.Part()


def number_of(text: str, name: str) -> int:
    number = numbers.whole(text, digits=18)
    if number is None:
        said = f"is “{text[:40]}”" if text else "is missing"
        raise Refused(f"{name} {said}: send a whole number, 0 or more.", code="bad_number")
    return number


def metadata_of(header: str) -> dict[str, str]:
    """tus metadata: comma-separated keys with base64 values."""
    said = {}
    for pair in filter(str.strip, header.split(",")):
        key, _, value = pair.strip().partition(" ")
        try:
            said[key] = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise Refused(f"Upload-Metadata: the value of “{key[:40]}” is not base64.", code="bad_metadata") from error
    return said
