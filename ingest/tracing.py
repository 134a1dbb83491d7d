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
#: W3C Trace Context: version, trace id, parent, flags
_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_NONE = "0" * 32


def current() -> str:
    """32 hexadecimal digits; '' outside of requests and runs."""
    return _current.get()


@contextlib.contextmanager
def tracing(trace: str) -> Iterator[None]:
    token = _current.set(trace)
    try:
        yield
    finally:
        _current.reset(token)


def of_request(traceparent: str) -> str:
    """The trace id of a request: that of its ``traceparent`` header, else a new one."""
    found = _PARENT.fullmatch(traceparent[:200].strip())
    return found[1] if found and found[1] != _NONE else uuid4().hex


class Plain(logging.Formatter):
    """``time level logger: message [trace]``"""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        trace = current()
        return f"{super().formatMessage(record)} [{trace}]" if trace else super().formatMessage(record)


class Json(logging.Formatter):
    """One JSON object a line: time, level, logger, message; trace and error if there are any."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if trace := current():
            line["trace_id"] = trace
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
