"""The trace id of the request or run that this thread works for. It is in each line of the log, and every run that
is made meanwhile keeps it, so that one word finds a request and all work that followed from it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from uuid import uuid4

_current: ContextVar[str] = ContextVar("trace", default="")
_span: ContextVar[str] = ContextVar("span", default="")
#: W3C Trace Context: version, trace id, span id, flags
_PARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1
#: instead of a span: somebody above decided that this trace is not sampled
UNSAMPLED = "-"


def current_trace() -> str:
    """32 hexadecimal digits; '' outside of requests and runs."""
    return _current.get()


def current_span() -> str:
    """16 hexadecimal digits: the span (:mod:`ingest.spans`) that this thread works for; '' if there is none,
    :data:`UNSAMPLED` below a span that is not sampled.
    """
    return _span.get()


@contextlib.contextmanager
def tracing(trace: str, span: str = "") -> Iterator[None]:
    tokens = _current.set(trace), _span.set(span)
    try:
        yield
    finally:
        _current.reset(tokens[0])
        _span.reset(tokens[1])


def of_request(traceparent: str) -> tuple[str, str]:
    """Trace and span of a request: those of its ``traceparent`` header, else a new trace and no span."""
    match = _PARENT.fullmatch(traceparent[:200].strip())
    if match is None:
        return uuid4().hex, ""
    return match[1], match[2] if int(match[3], 16) & _SAMPLED else UNSAMPLED


class PlainFormatter(logging.Formatter):
    """``time level logger: message [trace]``"""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        trace = current_trace()
        return f"{super().formatMessage(record)} [{trace}]" if trace else super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message; trace and error if there are any, and the ``fields`` that a
    line brings in addition.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if trace := current_trace():
            line["trace_id"] = trace
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
