"""Huge plain files: cut at line ends, read apart, put together as if they had been read in one piece."""

from __future__ import annotations

import io
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from diagnosis import ParseHints, parse
from diagnosis.kinds.logs.columns.tables import COLUMNS, UNIQUES
from diagnosis.kinds.logs.rows import stored_rows
from ingest import selectors, services
from ingest.isolation import inside
from ingest.models import Artifact, Blob, Job, Run
from ingest.services import ranges
from tests.archives import tar_of

UNIT = 4000
LINES = [
    f"2026-11-21 03:{n // 60 % 60:02d}:{n % 60:02d},000 INFO [rank{n % 4}] iteration {n} loss 2.{n}\n"
    for n in range(600)
]
LOG = (
    "".join(LINES).encode()
    + b"Traceback (most recent call last):\n"
    + b'  File "x.py", line 1\n' * 300
    + b"ValueError: x\n"
)


@given(st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b" ") + b"\n"), max_size=30), st.integers(1, 60))
def test_cuts_lie_at_line_starts_and_cover_every_byte_once(lines: list[bytes], unit: int) -> None:
    data = b"".join(lines) + b"tail without end"
    cuts = list(ranges.cut_offsets(io.BytesIO(data), len(data), unit))
    assert cuts == sorted(set(cuts))
    assert (cuts[0], cuts[-1]) == (0, len(data))
    assert all(data[cut - 1 : cut] == b"\n" for cut in cuts[1:-1])


def test_a_line_longer_than_a_unit_is_not_torn() -> None:
    data = b"short\n" + b"x" * 500 + b"\nshort\n"
    assert list(ranges.cut_offsets(io.BytesIO(data), len(data), 100)) == [0, 507, len(data)]


@pytest.fixture
def small_units() -> Any:
    with override_settings(PARSE_UNIT_BYTES=UNIT):
        yield


@pytest.mark.django_db(transaction=True)
def test_a_file_read_in_ranges_is_the_same_as_read_in_one_piece(job: Job, small_units: None, tmp_path: Path) -> None:
    services.artifact_receive(job=job, path="rank.log", chunks=[LOG])
    (ours,) = selectors.parsed_for(job.attempts.get(), tmp_path)
    whole = parse(io.BytesIO(LOG), "rank.log", ParseHints(bytes_total=len(LOG)), tmp_path / "whole")
    assert Run.objects.filter(artifact__isnull=False).count() > len(LOG) // UNIT
    assert (ours.lines, ours.sha256, ours.kind, ours.sources) == (whole.lines, whole.sha256, whole.kind, whole.sources)
    mine, other = (stored_rows.read([stored_rows.lines_of(one)], COLUMNS) for one in (ours, whole))
    assert mine.equals(other)
    mine, other = (stored_rows.read([stored_rows.messages_of(one)], UNIQUES) for one in (ours, whole))
    assert mine.equals(other)


@pytest.mark.django_db(transaction=True)
def test_of_the_ranges_only_their_lines_are_kept_until_the_file_is_deleted(
    job: Job, small_units: None, settings: Any
) -> None:
    services.artifact_receive(job=job, path="rank.log", chunks=[LOG])
    artifact = Artifact.objects.get()
    assert artifact.state == "parsed"
    stored = Path(settings.STORAGES["parsed"]["OPTIONS"]["location"]) / artifact.parsed_key
    assert {file.name for file in stored.iterdir() if file.is_file()} == {
        "ranges.parquet",
        "uniques.parquet",
        "cells.parquet",
        "sums.json",
        "parsed.json",
    }
    kept = {str(file.relative_to(stored)) for file in stored.glob("*/*")}
    parts = range(Run.objects.filter(artifact=artifact).count() - 1)
    assert kept == {f"{part:05d}/{name}" for part in parts for name in ("columns.parquet", "sums.json")}
    services.artifact_delete(artifact=artifact)
    assert not stored.exists()


@pytest.mark.django_db(transaction=True)
def test_ranges_that_an_older_version_read_are_read_again_in_one_piece(
    job: Job, small_units: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = inside.parse

    def without_ends(*given: Any) -> Any:
        result = real(*given)
        result.facts.pop("ends", None)
        return result

    monkeypatch.setattr(inside, "parse", without_ends)
    services.artifact_receive(job=job, path="rank.log", chunks=[LOG])
    artifact = Artifact.objects.get()
    assert (artifact.state, artifact.lines) == ("parsed", 902)
    lines = selectors.lines_of(artifact)
    assert lines and [file.name for file in lines.file.parent.glob("**/*.parquet")].count("columns.parquet") == 1


@pytest.mark.django_db(transaction=True)
def test_small_files_next_to_a_huge_one_are_read_and_only_the_huge_one_is_cut(job: Job, small_units: None) -> None:
    services.artifact_receive(job=job, path="a.tar.gz", chunks=[tar_of({"big.log": LOG, "small.log": LOG[:500]})])
    assert set(Artifact.objects.values_list("state", flat=True)) == {"parsed"}
    assert set(Run.objects.exclude(artifact=None).values_list("artifact__path", flat=True)) == {"big.log"}


@pytest.mark.django_db(transaction=True)
def test_a_range_that_fails_fails_the_file_and_its_retry_makes_it_whole(
    job: Job, small_units: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = inside.parse

    def failing(stream: Any, path: str, hints: ParseHints, folder: Path) -> Any:
        if hints.offset > 3 * UNIT and hints.offset < 4 * UNIT + 200:
            raise services.Refused("The disk of this worker is full.")
        return real(stream, path, hints, folder)

    with monkeypatch.context() as patched:
        patched.setattr(inside, "parse", failing)
        services.artifact_receive(job=job, path="rank.log", chunks=[LOG])
    artifact = Artifact.objects.get()
    assert (artifact.state, artifact.problem) == ("failed", "The disk of this worker is full.")
    for run in Run.objects.filter(state="failed"):
        services.run_retry(run=run)
    artifact.refresh_from_db()
    assert (artifact.state, artifact.lines, artifact.problem) == ("parsed", 902, "")


@pytest.mark.django_db(transaction=True)
def test_text_that_cannot_be_cut_is_read_in_one_piece(job: Job, small_units: None) -> None:
    services.artifact_receive(job=job, path="wide.log", chunks=[LOG.decode().encode("utf-16")])
    assert Artifact.objects.get().state == "parsed"
    assert not Run.objects.exclude(artifact=None).exists()


def test_while_a_large_file_is_read_bytes_lines_rate_and_time_left_are_reported(job: Any) -> None:
    attempt = services.attempt_get(job=job)
    Blob.objects.create(sha256="a" * 64, size_bytes=400 << 20)
    artifact = Artifact.objects.create(attempt=attempt, path="rank0.log", blob_id="a" * 64, state="parsing")
    begun = timezone.now() - timedelta(seconds=10)
    for part, state in enumerate(("succeeded", "running", "queued", "queued")):
        said = {"part": part, "parts": 4, "offset": part * (100 << 20), "length": 100 << 20}
        said |= {"lines": 1_000_000} if state == "succeeded" else {}
        Run.objects.create(
            job=job,
            kind="parse",
            artifact=artifact,
            parameters=said,
            state=state,
            started_at=begun if part < 2 else None,
        )
    step = next(step for step in selectors.progress(job).steps if step.name == "parsing")
    assert "rank0.log: 100.0 MB of 400.0 MB and 1,000,000 lines read, " in step.text
    assert re.search(r"(9\.\d|10\.0) MB a second, about 3\d s left$", step.text)
