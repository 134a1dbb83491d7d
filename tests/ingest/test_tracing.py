"""One trace id leads from a request to all work that followed from it."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest

from ingest import tracing
from ingest.models import Run
from ingest.services.runs import run_do
from ingest.services.work import Work
from tests.factories import make_job

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    "header", ["", "garbage", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", "0" * 10_000, "00-ü-x-01"]
)
def test_a_request_without_a_usable_header_gets_an_id_of_its_own(header: str) -> None:
    (first, span), (second, _) = tracing.of_request(header), tracing.of_request(header)
    assert re.fullmatch(r"[0-9a-f]{32}", first)
    assert first != second
    assert span == ""


def test_a_proxys_id_is_kept_and_answered(client: Any) -> None:
    answer = client.get("/accounts/nowhere/", headers={"traceparent": PARENT})
    assert answer["X-Request-Id"] == TRACE
    assert tracing.current_trace() == "", "the thread's next request has another"


@pytest.mark.django_db
def test_a_run_keeps_the_id_of_the_request_that_made_it_and_hands_it_on() -> None:
    with tracing.tracing(TRACE):
        run = Run.objects.create(job=make_job(), kind=Run.Kind.PARSE)

    def act(work: Work) -> None:
        Run.objects.create(job=work.run.job, kind=Run.Kind.DIAGNOSE)

    run_do(run.pk, act)
    assert Run.objects.get(kind=Run.Kind.DIAGNOSE).trace == TRACE
    assert tracing.current_trace() == ""


def record(message: str, **more: Any) -> logging.LogRecord:
    return logging.LogRecord("ingest", logging.WARNING, "file", 1, message, (), more.get("exc_info"))


def test_lines_have_the_id_in_both_forms() -> None:
    plain, structured = tracing.PlainFormatter(), tracing.JsonFormatter()
    assert "[" not in plain.format(record("outside"))
    assert "trace_id" not in json.loads(structured.format(record("outside")))
    with tracing.tracing(TRACE):
        assert plain.format(record("inside")).endswith(f"WARNING ingest: inside [{TRACE}]")
        line = json.loads(structured.format(record("two\nlines")))
    assert (line["trace_id"], line["level"], line["logger"]) == (TRACE, "WARNING", "ingest")
    assert line["message"] == "two\nlines"


def test_an_error_is_one_line_with_its_traceback() -> None:
    try:
        raise ValueError("no")
    except ValueError as error:
        text = tracing.JsonFormatter().format(record("failed", exc_info=(ValueError, error, error.__traceback__)))
    assert "\n" not in text
    assert json.loads(text)["error"].endswith("ValueError: no")
