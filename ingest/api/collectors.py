"""Lines that collectors push: OpenTelemetry, Loki and JSON lines, each answered as its clients expect.

A client sends a batch again after 429 and 503; after any other error it drops the batch. So what may succeed later is
503, whatever went wrong.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from django.conf import settings
from django.http import HttpResponse, JsonResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from ingest import temp_files
from ingest.api.base import ApiView
from ingest.api.schema import for_programmers
from ingest.api.serializers import PROBLEM
from ingest.authentication import CollectorAuthentication
from ingest.bodies import GoAhead, receive_body
from ingest.refusals import Refused, translate_storage_errors
from ingest.services.collecting import BatchResult, batch_show, batch_take
from ingest.services.node_events import node_events_take
from ingest.wire import json_lines, loki, node_events, otlp
from ingest.wire.inflating import inflate, too_large
from ingest.wire.routing import HEADERS, Rules
from ingest.wire.rows import Stream

log = logging.getLogger(__name__)

TAGS = ["collectors"]
_TYPES: dict[str, Any] = {
    "Faultline-Attempt": {"type": "integer", "minimum": 0, "maximum": 100_000},
    "Faultline-New-Jobs": {"type": "string", "enum": ["make", "refuse"]},
    "Faultline-Debug": {"type": "string", "enum": ["0", "1"]},
}
_PARAMETERS = [
    OpenApiParameter(name, _TYPES.get(name, str), OpenApiParameter.HEADER, description=text)
    for name, text in HEADERS.items()
]
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
#: a smaller body stays in memory
_MAX_MEMORY_BYTES = 256 << 10
#: decompressed bodies from this size on are decoded one at a time: a hostile one of 16 MiB becomes 1.1 GB of messages
_LARGE_BYTES = 1 << 20
_large_bodies = threading.BoundedSemaphore(1)
_WAIT_S = 20.0
_FAILED = "This batch could not be stored just now: nothing was lost, send it again in a few seconds."
_TOO_MANY_LARGE = "This server is decoding other large batches: send this one again in a few seconds, or smaller ones."


class _Body:
    """The bytes of one batch, in memory while they are few. Raises :class:`Refused` (413) beyond the limit."""

    def __init__(self) -> None:
        folder = temp_files.folder(temp_files.PARTS)
        # close() closes it
        self._file = tempfile.SpooledTemporaryFile(max_size=_MAX_MEMORY_BYTES, dir=str(folder))  # noqa: SIM115
        self._size = 0

    def write(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > settings.COLLECTOR_MAX_BYTES:
            raise too_large(settings.COLLECTOR_MAX_BYTES)
        self._file.write(data)

    def save_progress(self) -> None:
        """Does nothing: no row has this body's progress."""

    def reader(self) -> Any:
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        self._file.close()


@for_programmers
class CollectorView(ApiView):
    """What the three endpoints share: the body within limits, and errors that a client repeats if they may pass."""

    serializer_class = None
    authentication_classes = (CollectorAuthentication,)
    rate = "APPENDS_PER_MINUTE"
    takes_bytes = ("POST",)
    takes_chunks = True  # OpenTelemetry's exporter for JavaScript sends no length

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Any ``Accept``: the type of the answer follows the protocol."""
        return JSONRenderer(), _JSON

    def take(self, request: Request) -> HttpResponse:
        body = receive_body(request._request, _sink, takes_chunks=True)
        if isinstance(body, GoAhead):
            return body
        with contextlib.closing(body):
            data = body.reader().read()
        rules = Rules.of(request.headers.get)
        plain = inflate(data, self.coding(request), settings.COLLECTOR_MAX_BYTES)
        with _limit_large(len(plain)), translate_storage_errors():
            return self.store(plain, rules, request)

    def store(self, data: bytes, rules: Rules, request: Request) -> HttpResponse:
        streams = self.streams(data, rules, request)
        if rules.is_debug:
            return JsonResponse(batch_show(streams=streams, rules=rules))
        return self.answer(batch_take(user=request.user, streams=streams, rules=rules), request)

    def coding(self, request: Request) -> str:
        return request.headers.get("Content-Encoding", "")

    def streams(self, data: bytes, rules: Rules, request: Request) -> Iterable[Stream]:
        raise NotImplementedError

    def answer(self, result: BatchResult, request: Request) -> HttpResponse:
        raise NotImplementedError

    def refusal(self, status: int, sentence: str) -> HttpResponse | None:
        """The error in the protocol's form; None: problem details in JSON."""
        return None

    def handle_exception(self, exc: Exception) -> Any:
        if isinstance(exc, Refused) and exc.status == 507:
            exc = Refused(exc.detail, code=exc.code, status=503)
        try:
            response = super().handle_exception(exc)
        except Exception:
            log.exception("a batch could not be stored")
            response = super().handle_exception(Refused(_FAILED, code="failed", status=503))
        said = self.refusal(response.status_code, str(response.data.get("detail", "")))
        if said is None:
            return response
        for name in ("Retry-After", "WWW-Authenticate", "Allow"):
            if response.has_header(name):
                said[name] = response[name]
        return said


class OtlpLogsView(CollectorView):
    """OTLP/HTTP: ``ExportLogsServiceRequest`` as protobuf or JSON, plain or compressed."""

    @extend_schema(exclude=True)  # the protocol has its own documents
    def post(self, request: Request) -> HttpResponse:
        return self.take(request)

    def streams(self, data: bytes, rules: Rules, request: Request) -> Iterable[Stream]:
        return otlp.streams(data, rules, is_json=_is_json(request))

    def answer(self, result: BatchResult, request: Request) -> HttpResponse:
        is_json = _is_json(request)
        body = otlp.answer(result.refused, result.sentence, is_json=is_json)
        return HttpResponse(body, content_type=_JSON if is_json else _PROTOBUF)

    def refusal(self, status: int, sentence: str) -> HttpResponse | None:
        is_json = _type_of(self.request) == _JSON
        body = otlp.status(sentence, is_json=is_json)
        return HttpResponse(body, status=status, content_type=_JSON if is_json else _PROTOBUF)


class LokiPushView(CollectorView):
    """Loki's ``PushRequest``: protobuf in snappy, or JSON. 400 says what was refused; the rest is stored."""

    @extend_schema(exclude=True)
    def post(self, request: Request) -> HttpResponse:
        return self.take(request)

    def coding(self, request: Request) -> str:
        return super().coding(request) or ("" if _is_json(request) else "snappy")

    def streams(self, data: bytes, rules: Rules, request: Request) -> Iterable[Stream]:
        return loki.streams(data, rules, is_json=_is_json(request))

    def answer(self, result: BatchResult, request: Request) -> HttpResponse:
        if result.refused:
            return self.refusal(400, result.sentence)
        return HttpResponse(status=204)

    def refusal(self, status: int, sentence: str) -> HttpResponse:
        return HttpResponse(f"{sentence}\n", status=status, content_type="text/plain; charset=utf-8")


class LinesView(CollectorView):
    @extend_schema(
        operation_id="lines_push",
        tags=TAGS,
        summary="JSON lines, a JSON array, or plain text",
        description="One record a line. The headers say which fields are what; `Faultline-Debug: 1` shows what would "
        "be stored.",
        request={"application/x-ndjson": OpenApiTypes.BINARY},
        parameters=_PARAMETERS,
        responses={200: OpenApiResponse(OpenApiTypes.OBJECT, "Counts of rows"), 400: PROBLEM, 413: PROBLEM},
    )
    def post(self, request: Request) -> HttpResponse:
        return self.take(request)

    def streams(self, data: bytes, rules: Rules, request: Request) -> Iterable[Stream]:
        return json_lines.streams(data, rules)

    def answer(self, result: BatchResult, request: Request) -> HttpResponse:
        return Response(result._asdict())


class NodeEventsView(CollectorView):
    @extend_schema(
        operation_id="node_events_push",
        tags=TAGS,
        summary="What health monitors say about nodes",
        description="A webhook of Alertmanager, CloudEvents of NVSentinel, or an object with a list `events`. An "
        "event has `node`, `at`, `severity`, `source` and `message`. Each becomes evidence of the jobs of the "
        "cluster (`Faultline-Cluster`) that ran on the node then.",
        request={"application/json": OpenApiTypes.OBJECT},
        parameters=[one for one in _PARAMETERS if one.name == "Faultline-Cluster"],
        responses={
            200: OpenApiResponse(OpenApiTypes.OBJECT, "Counts of events"),
            **dict.fromkeys((400, 413, 422), PROBLEM),
        },
    )
    def post(self, request: Request) -> HttpResponse:
        return self.take(request)

    def store(self, data: bytes, rules: Rules, request: Request) -> HttpResponse:
        events, problems = node_events.events_of(data)
        result = node_events_take(user=request.user, events=events, problems=problems, rules=rules)
        return Response(result._asdict())


def _sink(length: int) -> Any:
    if length > settings.COLLECTOR_MAX_BYTES:
        raise too_large(settings.COLLECTOR_MAX_BYTES)
    with translate_storage_errors():
        return _Body()


def _type_of(request: Any) -> str:
    return str(request.content_type or "").partition(";")[0].strip().lower()


def _is_json(request: Any) -> bool:
    """Raises :class:`Refused` (415) for a type that is neither protobuf nor JSON."""
    kind = _type_of(request)
    if kind == _JSON:
        return True
    if kind in (_PROTOBUF, "application/protobuf"):
        return False
    sentence = f"Content-Type “{kind[:60]}” is not known: send {_PROTOBUF} or {_JSON}."
    raise Refused(sentence, code="media_type", status=415)


@contextlib.contextmanager
def _limit_large(size: int) -> Iterator[None]:
    """Waits while others decode large bodies. Raises :class:`Refused` (503) after a while."""
    if size < _LARGE_BYTES:
        yield
        return
    if not _large_bodies.acquire(timeout=_WAIT_S):
        raise Refused(_TOO_MANY_LARGE, code="busy", status=503)
    try:
        yield
    finally:
        _large_bodies.release()
