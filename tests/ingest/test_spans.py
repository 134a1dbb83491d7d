"""A collector of OpenTelemetry gets the spans of a request and of the run that followed from it, in one trace."""

from __future__ import annotations

import gzip
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from rest_framework.test import APIClient

from ingest import services, spans
from ingest.models import Run
from ingest.refusals import Refused
from ingest.services.work import Work
from tests.factories import make_job
from tests.ingest.conftest import LOG, sha
from triage.places import version
from triage.serve.children import free_port

pytestmark = pytest.mark.django_db(transaction=True)

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Collector(ThreadingHTTPServer):
    """Keeps what OpenTelemetry's own exporter sends by HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.got: list[Any] = []

    def spans(self) -> dict[str, Any]:
        spans.flush()
        found = [
            span for one in self.got for of in one.resource_spans for scope in of.scope_spans for span in scope.spans
        ]
        return {span.name: span for span in found}


class Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert isinstance(self.server, Collector)
        self.server.got.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def wanted(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def want(endpoint: str) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        settings.TRACES_ENDPOINT = endpoint
        spans._tracer.cache_clear()

    yield want
    spans._tracer.cache_clear()


@pytest.fixture
def collector(wanted: Callable[[str], None]) -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        wanted(f"http://127.0.0.1:{server.server_port}")
        yield server
        server.shutdown()
        thread.join()


def upload(api: APIClient, job: Any, **headers: str) -> Any:
    url = f"/api/v1/jobs/{job.slug}/artifacts/{sha(LOG)}?path=a.log&attempt=0"
    return api.put(url, LOG, content_type="application/octet-stream", headers=headers)


def test_a_request_and_its_run_are_one_trace(api: APIClient, job: Any, collector: Collector) -> None:
    answer = upload(api, job, traceparent=PARENT)
    assert answer.status_code == 201
    found = collector.spans()
    request = next(span for name, span in found.items() if name.startswith("PUT /api/v1/jobs/"))
    run, reading = found["parse run"], found["read_file"]
    assert {span.trace_id.hex() for span in (request, run, reading)} == {answer["X-Request-Id"]}
    assert request.parent_span_id.hex() == "00f067aa0ba902b7"
    assert (run.parent_span_id, reading.parent_span_id) == (request.span_id, run.span_id)
    said = {one.key: one.value for one in request.attributes}
    assert said["http.response.status_code"].int_value == 201
    assert sha(LOG) not in request.name, "names are few: the address is in the route"
    resource = {one.key: one.value.string_value for one in collector.got[0].resource_spans[0].resource.attributes}
    assert (resource["service.name"], resource["service.version"]) == ("faultline", version())


def test_a_request_without_a_header_begins_a_trace_with_the_id_of_the_log(
    api: APIClient, job: Any, collector: Collector
) -> None:
    answer = upload(api, job)
    run = collector.spans()["parse run"]
    assert run.trace_id.hex() == answer["X-Request-Id"] == Run.objects.get().trace
    assert run.parent_span_id.hex() == Run.objects.get().span


@pytest.mark.parametrize("sampler", ["always_off", "parentbased_always_off"])
def test_what_the_sampler_leaves_out_is_not_sent_and_keeps_its_trace_id(
    api: APIClient, job: Any, collector: Collector, monkeypatch: pytest.MonkeyPatch, sampler: str
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    spans._tracer.cache_clear()
    answer = upload(api, job)
    assert collector.spans() == {}
    assert answer["X-Request-Id"] == Run.objects.get().trace != "0" * 32


def test_a_proxy_that_does_not_sample_a_trace_decides_for_the_request_and_its_runs(
    api: APIClient, job: Any, collector: Collector
) -> None:
    answer = upload(api, job, traceparent=f"{PARENT[:-2]}00")
    assert (answer.status_code, answer["X-Request-Id"]) == (201, PARENT[3:35])
    assert Run.objects.get().trace == PARENT[3:35]
    assert collector.spans() == {}


def test_opentelemetry_switched_off_sends_nothing_and_changes_no_trace_id(
    api: APIClient, job: Any, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    spans._tracer.cache_clear()
    answer = upload(api, job)
    assert collector.spans() == {}
    assert answer["X-Request-Id"] == Run.objects.get().trace != "0" * 32


def test_a_run_that_fails_says_why(collector: Collector) -> None:
    def refusing(work: Work) -> None:
        raise Refused("No. Do this instead.")

    services.run_do(Run.objects.create(job=make_job(), kind=Run.Kind.PARSE).pk, refusing)
    status = collector.spans()["parse run"].status
    assert (status.code, status.message) == (2, "No. Do this instead.")


def test_a_collector_that_does_not_answer_costs_no_request(
    api: APIClient, job: Any, wanted: Callable[[str], None]
) -> None:
    wanted(f"http://127.0.0.1:{free_port()}")
    assert upload(api, job).status_code == 201
    assert Run.objects.get().state == "succeeded"


def test_a_site_without_the_extra_goes_on_without_traces(
    api: APIClient, job: Any, wanted: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    wanted("http://127.0.0.1:1")
    assert upload(api, job).status_code == 201
    assert "faultline-triage[otel]" in caplog.text


def test_traces_are_off_unless_an_endpoint_is_named(api: APIClient, job: Any) -> None:
    assert upload(api, job).status_code == 201
    assert spans._tracer.cache_info().currsize == 0
    assert Run.objects.get().span == ""
