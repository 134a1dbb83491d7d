"""Spans of requests, runs and readings for OpenTelemetry, with the trace ids of the log (:mod:`ingest.tracing`).

Off unless ``OTEL_EXPORTER_OTLP_ENDPOINT`` or ``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`` is set and the extra ``otel`` is
installed; only then its packages are loaded. The other variables of OpenTelemetry's specification hold as well. A
collector that does not answer delays nobody: a thread sends the spans, and drops them if they are too many.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from django.conf import settings

from ingest import tracing

log = logging.getLogger(__name__)

type Attributes = Mapping[str, str | int]


@contextlib.contextmanager
def span(name: str, kind: str = "INTERNAL", attributes: Attributes | None = None) -> Iterator[Any]:
    """A span of what happens inside, below the one that this thread works for; ``kind`` is one of OpenTelemetry's.

    Yields the span, None if nobody wants traces.
    """
    tracer = _tracer(os.getpid()) if settings.TRACES_ENDPOINT else None
    if tracer is None:
        yield None
        return
    from opentelemetry import trace  # noqa: PLC0415  # an extra

    context = trace.set_span_in_context(trace.NonRecordingSpan(_parent_span(trace))) if tracing.current_span() else None
    with tracer.start_as_current_span(name, context, getattr(trace.SpanKind, kind), attributes) as new_span:
        span_context = new_span.get_span_context()
        below = f"{span_context.span_id:016x}" if span_context.trace_flags.sampled else tracing.UNSAMPLED
        with tracing.tracing(f"{span_context.trace_id:032x}", below):
            yield new_span


def mark_failed(sentence: str) -> None:
    """State that what this thread works for has failed."""
    if settings.TRACES_ENDPOINT and _tracer(os.getpid()) is not None:
        from opentelemetry import trace  # noqa: PLC0415  # an extra

        trace.get_current_span().set_status(trace.Status(trace.StatusCode.ERROR, sentence))


def flush(**_: Any) -> None:
    """Send what this process still has."""
    if settings.TRACES_ENDPOINT and (tracer := _tracer(os.getpid())) is not None:
        tracer.span_processor.force_flush(2000)


def _parent_span(trace: Any) -> Any:
    """The span above, of this thread, of the request that made a run, or of the proxy. One that is not sampled has no
    id that matters, and the usual samplers leave out what is below.
    """
    span_id, flags = tracing.current_span(), trace.TraceFlags
    is_sampled = span_id != tracing.UNSAMPLED
    span, flag = (int(span_id, 16), flags.SAMPLED) if is_sampled else (1, flags.DEFAULT)
    return trace.SpanContext(int(tracing.current_trace(), 16), span, is_remote=True, trace_flags=flags(flag))


@cache
def _tracer(_process: int) -> Any:
    """The tracer of this process, because a thread that sends does not survive a fork; None without the extra,
    and if OpenTelemetry is switched off.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  # an extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  # an extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  # an extra
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  # an extra
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator  # noqa: PLC0415  # an extra
        from opentelemetry.trace import NoOpTracer  # noqa: PLC0415  # an extra
    except ImportError:
        log.warning("traces are wanted, but their packages are missing: pip install 'faultline-triage[otel]'")
        return None

    class Ids(RandomIdGenerator):
        """A trace has the id that the log has."""

        def generate_trace_id(self) -> int:
            return int(tracing.current_trace(), 16) if tracing.current_trace() else super().generate_trace_id()

    attributes = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "faultline"), "service.version": settings.VERSION}
    provider = TracerProvider(resource=Resource.create(attributes), id_generator=Ids())
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("faultline")
    return None if isinstance(tracer, NoOpTracer) else tracer  # OTEL_SDK_DISABLED
