"""Stored bytes that something else changed or cut: noticed when they are read, shown, and replaced by sending again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import storages

from ingest import selectors, services, storage, sums
from ingest.models import Artifact, Blob, Job, Run, Upload
from ingest.services import rereading, runs
from ingest.services.artifact_parsing import artifacts_parse
from ingest.services.unpacking import upload_unpack
from ingest.services.work import Work
from tests.archives import tar_of
from tests.factories import make_user
from tests.pages import page_text
from triage.services import doctor

pytestmark = pytest.mark.django_db(transaction=True)
LINES = b"".join(b"2026-11-21 03:00:%02d,000 INFO iteration %d loss 2.5\n" % (n % 60, n) for n in range(300))

type Damage = Callable[[Path], None]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def change(path: Path) -> None:
    """One byte, of a file that keeps its size and gets another time."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(1, 1))


@pytest.fixture(params=[cut, change])
def damage(request: pytest.FixtureRequest) -> Damage:
    damage: Damage = request.param
    return damage


def blob_path(artifact: Artifact | Upload) -> Path:
    return Path(storages["blobs"].path(Blob.key_of(str(artifact.blob_id))))


def columns_path(artifact: Artifact, name: str = "columns.parquet") -> Path:
    return Path(storages["parsed"].path(f"{artifact.parsed_key}/{name}"))


@pytest.fixture
def artifact(job: Job) -> Artifact:
    services.artifact_receive(job=job, path="rank.log", chunks=[LINES])
    artifact = Artifact.objects.select_related("blob").get()
    assert artifact.state == "parsed"
    return artifact


@pytest.fixture
def held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is received waits in the queue."""
    monkeypatch.setattr("ingest.broker.send", lambda *_, **__: True)


def test_a_changed_blob_fails_with_a_sentence_before_it_is_parsed_and_its_neighbour_is_read(
    job: Job, held_back: None, damage: Damage
) -> None:
    for path, data in (("a.log", LINES), ("b.log", LINES[:500])):
        services.artifact_receive(job=job, path=path, chunks=[data])
    wrong, right = Artifact.objects.order_by("path")
    damage(blob_path(wrong))
    for run in Run.objects.filter(kind=Run.Kind.PARSE):
        services.run_do(run.pk, artifacts_parse)
    wrong.refresh_from_db()
    right.refresh_from_db()
    assert (wrong.state, wrong.problem) == ("failed", storage.BLOB_CHANGED)
    assert right.state == "parsed"


def test_a_changed_archive_is_refused_with_a_sentence(job: Job, held_back: None, damage: Damage) -> None:
    services.artifact_receive(job=job, path="all.tar", chunks=[tar_of({"a.log": LINES})])
    damage(blob_path(Upload.objects.get()))
    services.run_do(Run.objects.get().pk, upload_unpack)
    upload = Upload.objects.get()
    assert (upload.state, upload.problem) == ("refused", storage.BLOB_CHANGED)


def test_the_same_file_sent_again_replaces_changed_bytes(artifact: Artifact, job: Job, damage: Damage) -> None:
    damage(blob_path(artifact))
    services.artifact_receive(job=job, path="rank.log", chunks=[LINES])
    assert blob_path(artifact).read_bytes() == LINES
    assert selectors.read_range(artifact, 0, 10) == LINES[:10]


def test_a_changed_log_is_shown_on_its_page_and_on_the_jobs_files(
    artifact: Artifact, job: Job, client: Any, damage: Damage
) -> None:
    client.force_login(make_user("eve", "engineer", is_superuser=True))
    files, log = f"/jobs/{job.slug}/files/", f"/jobs/{job.slug}/logs/0/rank.log"
    pages = [page_text(client.get(files)), page_text(client.get(log))]
    assert not any("changed or cut" in page for page in pages)
    damage(blob_path(artifact))
    assert "changed or cut" in page_text(client.get(files))
    answer = client.get(log)
    assert answer.status_code == 410
    assert "changed or cut" in page_text(answer)


@pytest.mark.parametrize("name", ["columns.parquet", "uniques.parquet", "parsed.json", sums.NAME])
def test_changed_column_files_are_noticed_and_made_again(
    artifact: Artifact, job: Job, tmp_path: Path, damage: Damage, name: str
) -> None:
    before = columns_path(artifact).read_bytes()
    assert rereading.is_usable(artifact.parsed_key)
    damage(columns_path(artifact, name))
    assert not rereading.is_usable(artifact.parsed_key)
    with pytest.raises(sums.Changed):
        selectors.parsed_for(artifact.attempt, tmp_path)
    assert rereading.artifacts_reread(job=job) == 1
    artifact.refresh_from_db()
    assert artifact.state == "parsed"
    assert columns_path(artifact).read_bytes() == before
    assert rereading.is_usable(artifact.parsed_key)


def test_changed_columns_of_a_range_are_noticed_and_made_again(
    job: Job, settings: Any, tmp_path: Path, damage: Damage
) -> None:
    settings.PARSE_UNIT_BYTES = 4000
    services.artifact_receive(job=job, path="rank.log", chunks=[LINES])
    artifact = Artifact.objects.get()
    damage(columns_path(artifact, "00001/columns.parquet"))
    with pytest.raises(sums.Changed):
        selectors.parsed_for(artifact.attempt, tmp_path)
    assert rereading.artifacts_reread(job=job) == 1
    assert [row.lines for row in selectors.parsed_for(artifact.attempt, tmp_path)] == [300]


def test_column_files_that_were_written_without_sums_are_believed(artifact: Artifact, tmp_path: Path) -> None:
    columns_path(artifact, sums.NAME).unlink()
    assert rereading.is_usable(artifact.parsed_key)
    assert selectors.parsed_for(artifact.attempt, tmp_path)


def test_the_doctor_names_changed_and_lost_evidence(artifact: Artifact, job: Job, damage: Damage) -> None:
    services.artifact_receive(job=job, path="other.log", chunks=[LINES[:800]])
    assert doctor.evidence() == doctor.Finding("ok", "2 files of evidence are what was stored")
    assert "evidence" not in [check.__name__ for check in doctor.CHECKS]
    damage(columns_path(artifact))
    other = Artifact.objects.get(path="other.log")
    blob_path(other).unlink()
    found = doctor.evidence()
    assert found.state == "problem"
    assert f"rank.log of {job.slug} (changed)" in found.sentence
    assert f"other.log of {job.slug} (lost)" in found.sentence


def test_a_digest_is_computed_once_in_each_process(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    selectors.read_range(artifact, 0, 10)
    monkeypatch.setattr(sums, "_digest_of", lambda _: pytest.fail("it is known"))
    selectors.read_range(artifact, 0, 10)


def test_of_a_large_file_the_size_is_checked_at_every_look(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "_known", {})
    storage.blob_check(artifact.blob_id, len(LINES), max_bytes=10)
    assert sums._known == {}
    cut(blob_path(artifact))
    with pytest.raises(sums.Changed):
        storage.blob_check(artifact.blob_id, len(LINES), max_bytes=10)


def test_a_run_that_is_claimed_reads_unchanged_evidence(job: Job, held_back: None) -> None:
    services.artifact_receive(job=job, path="rank.log", chunks=[LINES])
    run = runs.run_claim(Run.objects.get().pk)
    assert run is not None
    artifacts_parse(Work(run))
    assert Artifact.objects.get().state == "parsed"
