"""A job cut into pieces, anywhere, has the same report as in one piece: what workers do for files of any size."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from diagnosis import Parsed, ParseHints, merge, parse, report
from diagnosis.kinds.logs import log_parsing
from diagnosis.kinds.logs.pace import progress
from diagnosis.kinds.logs.rows import events, occurrences, slabs
from diagnosis.model import Kind
from diagnosis.pipeline import diagnose
from tests.diagnosis.synthetic import Job, told

RAISED = (
    "[rank6]: Traceback (most recent call last):",
    '[rank6]:   File "/opt/train.py", line 7, in <module>',
    "[rank6]: RuntimeError: CUDA error: uncorrectable ECC error encountered",
)


def failed_job() -> Job:
    """One node's GPU fails while the job trains; the others wait until their watchdogs end them."""
    job = Job(nodes=4, iterations=40)
    for n, line in enumerate(RAISED):
        job.say(job.ends + 2 + n / 1000, 3, line)
    return job.timed_out(job.ends + 600, but=(3,)).torn_down(job.ends + 601)


def in_pieces(path: str, data: bytes, size: int, work: Path) -> Parsed:
    """A log parsed in ranges of at least ``size`` bytes, each joined with its neighbour, and so on."""
    cuts = [0]
    while cuts[-1] < len(data):
        end = data.find(b"\n", min(cuts[-1] + size, len(data)) - 1)
        cuts.append(len(data) if end < 0 else end + 1)
    parts = [
        parse(io.BytesIO(data[low:high]), path, ParseHints(kind=Kind.LOG, offset=low), work / str(low))
        for low, high in pairwise(cuts)
    ]
    height = 0
    while len(parts) > 1:
        height += 1
        parts = [merge(parts[n : n + 2], work / f"joined-{height}-{n}") for n in range(0, len(parts), 2)]
    return parts[0]


@pytest.mark.parametrize("size", [700, 3_000, 9_000])
def test_the_report_is_the_same_for_every_size_of_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(progress.LIMITS, "lines", 12)
    monkeypatch.setattr(events, "MAX_PLACES_READ", 3)
    whole = told(failed_job(), tmp_path / "whole")
    files = failed_job().files()

    monkeypatch.setattr(log_parsing, "MIN_COUNTED_LINES", 5)
    monkeypatch.setattr(log_parsing, "_RANGES_AT_A_TIME", 2)
    monkeypatch.setattr(occurrences, "MAX_LINES", 7)
    monkeypatch.setattr(slabs, "LINES_BEFORE", 2)
    parsed = [in_pieces(path, data, size, tmp_path / str(n)) for n, (path, data) in enumerate(sorted(files.items()))]
    found = report.to_json(
        diagnose(parsed, job=failed_job().hints(), read=lambda path, at, length: files[path][at : at + length])
    )

    assert all(p.occurrences is not None for p in parsed)
    assert without_digests(found) == without_digests(whole)
    assert whole["logs"]["is_failure"]


def without_digests(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "inputs": [{**row, "sha256": ""} for row in found["inputs"]]}
