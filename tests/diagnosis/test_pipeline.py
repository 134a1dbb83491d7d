"""The pipeline as a whole: one kind of evidence never takes the others with it."""

import io

import pytest

from diagnosis import ParseHints, parse, pipeline
from diagnosis.model import Kind, Parsed
from diagnosis.report import to_json

LOG = (
    b"2026-01-01T00:00:00Z iteration 1 loss 2.0\n2026-01-01T00:00:01Z RuntimeError: shape '[3]' is invalid for input\n"
)


@pytest.mark.parametrize(
    ("kind", "entry", "said"),
    [
        (Kind.FLOW, "diagnosis.kinds.flows.tell.engine.diagnose_flows", "network flows"),
        (Kind.STACK, "diagnosis.pipeline.stacks.diagnose_stacks", "stack dumps"),
    ],
)
def test_a_fault_in_one_analysis_is_reported_and_the_logs_are_still_diagnosed(tmp_path, monkeypatch, kind, entry, said):
    def broken(*args, **kwargs):
        raise ZeroDivisionError("by design")

    monkeypatch.setattr(entry, broken)
    logs = parse(io.BytesIO(LOG), "n0.log", ParseHints(), tmp_path)
    found = pipeline.diagnose(
        [logs, Parsed("x", kind)], read=lambda path, offset, length: LOG[offset : offset + length]
    )
    report = to_json(found)
    assert report["logs"]["lines"]
    assert any(said in sentence and "ZeroDivisionError: by design" in sentence for sentence in report["missing"])
