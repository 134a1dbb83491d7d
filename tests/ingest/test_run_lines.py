"""Each turn of a run leaves one line in the log, which says what it did."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest

from ingest.models import Run
from ingest.refusals import Refused
from ingest.services.runs import run_do
from ingest.services.work import Postponed, Work
from ingest.tracing import JsonFormatter
from tests.factories import make_job

pytestmark = pytest.mark.django_db


def line_of(act: Callable[[Work], None], caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    run = Run.objects.create(job=make_job(), kind=Run.Kind.PARSE)
    with caplog.at_level(logging.INFO):
        run_do(run.pk, act)
    (record,) = [record for record in caplog.records if record.name == "ingest.services.run_lines"]
    return record


def test_a_run_says_what_it_did(caplog: pytest.LogCaptureFixture) -> None:
    record = line_of(lambda work: work.count(files=3, size_bytes=12_345, lines=678), caplog)
    text = record.getMessage()
    assert " (parse of job " in text
    assert " succeeded after " in text
    assert text.endswith(" s: 3 files, 12,345 bytes, 678 lines")
    fields = json.loads(JsonFormatter().format(record))
    assert (fields["outcome"], fields["kind"], fields["files"], fields["bytes"], fields["lines"]) == (
        "succeeded",
        "parse",
        3,
        12_345,
        678,
    )
    assert fields["seconds"] >= 0


def raises(error: Exception) -> Callable[[Work], None]:
    def act(work: Work) -> None:
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (Refused("The file is no log.\nrun 1 succeeded\x1b[2K"), "failed after"),
        (Postponed(is_long=False), "goes on later after"),
        (RuntimeError("odd"), "is repeated after"),
    ],
)
def test_a_run_that_did_not_succeed_says_how_it_ended_and_why(
    error: Exception, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = line_of(raises(error), caplog).getMessage()
    assert says in text
    assert "\n" not in text and "\x1b" not in text, "evidence writes no lines of its own"
    if isinstance(error, Refused):
        assert "The file is no log." in text


def test_celery_adds_no_lines_of_its_own() -> None:
    for name in ("celery.app.trace", "celery.worker.strategy"):
        assert not logging.getLogger(name).isEnabledFor(logging.INFO)
        assert logging.getLogger(name).isEnabledFor(logging.WARNING)
