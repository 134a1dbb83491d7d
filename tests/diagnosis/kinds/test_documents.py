"""Documents describe and report nothing: they are named, and their words are no words of a failure."""

import io
from pathlib import Path

import pytest

from diagnosis import Kind, ParseHints, parse, pipeline
from diagnosis.kinds.documents import DOCUMENT, document_signs
from diagnosis.kinds.kind_table import kind_of
from diagnosis.report import to_json


@pytest.mark.parametrize("form", document_signs.load(), ids=lambda form: form.title)
def test_each_form_recognises_its_example_and_no_other(form: document_signs.DocumentForm) -> None:
    assert document_signs.form_of_document(form.example) is form
    assert kind_of(form.example.encode(), "a.txt") == DOCUMENT


REPORTS_OF_FAILURES = {
    "a bug report": "### Describe the bug\nIt hangs.\n\n### Requirements\n\nRuntimeError: CUDA error: out of memory\n",
    "a refused option": "usage: train.py [-h]\noptions:\n  -h\ntrain.py: error: unrecognized arguments: --x\n",
    "documentation with a traceback": "# Trainer\n\n## Usage\n\nTraceback (most recent call last):\nOSError: x\n",
    "a configuration before a log": "trainer:\n  max_steps: 10\n2026-03-04 10:00:01 INFO step 1 loss 3.1\n",
    "counters that a tool lists": "nic:\n  stats:\n    status: down\n    errors: 12\n",
    "an exception alone": "RuntimeError: CUDA error: device-side assert triggered\n",
    "numbered lines that begin with times": "20260304 10:00:00 nhc: start\n20260304 10:00:01 nhc: check\n" * 2,
    "a failed build": "FROM debian\nRUN make\nERROR: failed to solve: network is unreachable\n",
    "a notebook that ended with an error": '{\n "cells": [{"cell_type": "code", "output_type": "error"}]}\n',
    "a journal of incidents": "## 2022.06.26 16:00 Node failure\n\n- Unexpected NVLink error\n",
}


@pytest.mark.parametrize("text", REPORTS_OF_FAILURES.values(), ids=REPORTS_OF_FAILURES)
def test_what_reports_a_failure_is_no_document(text: str) -> None:
    assert kind_of(text.encode(), "a.txt") is not DOCUMENT
    assert kind_of(text.encode(), "a.txt") in (Kind.LOG, Kind.SCHEDULER)


def test_a_document_is_named_and_nothing_is_concluded_from_it(tmp_path: Path) -> None:
    text = "# Trainer\n\n## Troubleshooting\n\nThe kernel prints `Out of memory: Killed process 12`.\n"
    one = parse(io.BytesIO(text.encode()), "README.md", ParseHints(), tmp_path)
    report = to_json(pipeline.diagnose([one], read=lambda *_: b""))
    assert (one.kind, one.lines) == (DOCUMENT, 5)
    assert report["conclusion"]["condition"] == "unknown"
    assert report["inputs"][0]["unread"] == (
        "No evidence: documentation (Markdown) of 5 lines, which reports no event. Nothing was concluded from it."
    )
    assert any(line.startswith("README.md is no evidence: documentation") for line in report["missing"])
