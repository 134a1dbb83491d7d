"""Old evidence makes room: its bytes go, what was found in it stays, and it can be sent again."""

from __future__ import annotations

import io
import re
import tarfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as site
from django.core.management import call_command
from django.test import override_settings
from django.utils import timezone

from ingest import selectors, services, storage
from ingest.models import Artifact, Job, Run
from ingest.selectors import evidence
from ingest.services import evidence_removal, resuming, sweeping
from ingest.services.rereading import artifacts_reread
from tests.factories import make_incident, make_user
from tests.pages import page_text
from triage.models import Activity, Diagnosis, Incident
from triage.services.diagnosing import job_diagnose
from triage.services.retention import old_evidence_condense, old_evidence_remove

pytestmark = pytest.mark.django_db(transaction=True)

LOG = b"".join(b"2026-11-21 03:00:%02d,000 INFO iteration %d loss 2.5\n" % (n, n) for n in range(50))


def aged(name: str, files: dict[str, bytes], *, days: int = 100) -> Job:
    job = services.job_create(name=name)
    for path, data in files.items():
        services.artifact_receive(job=job, path=path, chunks=[data])
    Job.objects.filter(pk=job.pk).update(evidence_changed_at=timezone.now() - timedelta(days=days))
    return job


@pytest.fixture(autouse=True)
def long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that were put by the test itself count as old."""
    monkeypatch.setattr(evidence_removal, "_MIN_BLOB_AGE", timedelta(0))


def stored(folder: str) -> set[str]:
    return {path.name for path in (Path(site.DATA_DIR) / folder).rglob("*") if path.is_file()}


def remove(*options: str) -> str:
    said = io.StringIO()
    call_command("remove_evidence", "--days", "30", *options, stdout=said)
    return said.getvalue()


def test_bytes_and_column_files_go_and_rows_stay() -> None:
    old, new = aged("old", {"a.log": LOG, "b.log": LOG + b"more\n"}), aged("new", {"c.log": LOG + b"x\n"}, days=3)
    before = stored("parsed")
    assert "2 files of 1 jobs" in remove("--dry-run")
    assert Artifact.objects.exclude(state=Artifact.State.REMOVED).count() == 3
    assert "2 files of 1 jobs" in remove()
    gone = Artifact.objects.filter(attempt__job=old)
    assert {(row.state, row.parsed_key) for row in gone} == {("removed", "")}
    assert not any(storage.blob_exists(row.blob_id) for row in gone)
    assert storage.blob_exists(Artifact.objects.get(attempt__job=new).blob_id)
    assert before
    assert "0 files of 0 jobs" in remove()
    assert Activity.objects.get(job=old, kind="evidence_removed").data["files"] == 2


def test_old_parts_of_files_of_a_job_that_never_ends_go_and_the_rest_is_diagnosed_on() -> None:
    job = services.job_create(name="endless")
    for path in ("a.log", "a.log.2", "config.log"):
        services.artifact_receive(job=job, path=path, chunks=[LOG + path.encode()])
    old = timezone.now() - timedelta(days=40)
    Artifact.objects.filter(path__in=("a.log", "config.log")).update(received_at=old)
    growing = resuming.upload_begin(job=job, path="a.log.3", size_bytes=None)
    with override_settings(EVIDENCE_DAYS=30):
        assert old_evidence_remove() == 1
        assert old_evidence_remove() == 0
    standing = Artifact.objects.filter(is_superseded=False)
    assert set(standing.values_list("path", "state")) == {("a.log.2", "parsed"), ("config.log", "parsed")}
    gone = Artifact.objects.get(path="a.log")
    assert (gone.state, storage.blob_exists(gone.blob_id)) == ("removed", False)
    assert not evidence.is_removed(growing.attempt)


def test_bytes_that_another_job_shares_stay() -> None:
    aged("old", {"a.log": LOG})
    other = aged("other", {"again.log": LOG}, days=1)
    remove()
    artifact = Artifact.objects.get(attempt__job=other)
    assert selectors.read_range(artifact, 0, 10) == LOG[:10]


def test_a_job_whose_incident_awaits_review_keeps_its_evidence_unless_asked_for() -> None:
    job = aged("failed", {"a.log": LOG})
    incident = make_incident(job)
    assert "0 files of 0 jobs" in remove()
    Incident.objects.filter(pk=incident.pk).update(state=Incident.State.CONFIRMED)
    assert "1 files of 1 jobs" in remove("--dry-run")
    Incident.objects.filter(pk=incident.pk).update(state=Incident.State.AWAITING_REVIEW)
    assert "1 files of 1 jobs" in remove("--unreviewed")


def test_what_stopped_half_way_is_finished_by_the_next_tidying(monkeypatch: pytest.MonkeyPatch) -> None:
    job = aged("old", {"a.log": LOG})
    with monkeypatch.context() as broken, pytest.raises(OSError, match="away"):
        broken.setattr(storage, "blob_delete", lambda sha256: (_ for _ in ()).throw(OSError("away")))
        evidence_removal.evidence_remove(job=job)
    artifact = Artifact.objects.get()
    assert (artifact.state, storage.blob_exists(artifact.blob_id)) == ("removed", True)
    sweeping.tidy()
    assert not storage.blob_exists(artifact.blob_id)


def test_a_later_diagnosis_does_not_judge_by_what_is_left(client: Any) -> None:
    job = aged("old", {"a.log": LOG})
    incident = make_incident(job, state="confirmed")
    remove()
    services.artifact_receive(job=job, path="late.log", chunks=[b"2026-11-21 03:00:00 INFO all is well\n"])
    services.diagnosis_request(job=job)
    for run in Run.objects.filter(job=job, kind="diagnose"):
        Run.objects.filter(pk=run.pk).update(state="queued")
        services.run_do(run.pk, job_diagnose)
    incident.refresh_from_db()
    assert not incident.is_withdrawn
    client.force_login(make_user("bob", "engineer"))
    assert "removed to free space" in page_text(client.get(f"/jobs/{job.slug}/files/"))
    assert client.get(f"/jobs/{job.slug}/logs/0/a.log").status_code == 410


def test_the_same_files_sent_again_are_read_again() -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        info = tarfile.TarInfo("in.log")
        info.size = len(LOG)
        archive.addfile(info, io.BytesIO(LOG))
    files = {"plain.log": LOG + b"y\n", "logs.tar.gz": packed.getvalue()}
    job = aged("old", files)
    remove()
    for path, data in files.items():
        services.artifact_receive(job=job, path=path, chunks=[data])
    rows = Artifact.objects.filter(attempt__job=job).order_by("path")
    assert [(row.path, row.state, row.lines) for row in rows] == [("in.log", "parsed", 50), ("plain.log", "parsed", 51)]
    assert all(storage.blob_exists(row.blob_id) and row.parsed_key for row in rows)


def test_the_setting_removes_by_itself_and_zero_keeps_all(settings: Any) -> None:
    aged("old", {"a.log": LOG})
    assert (settings.EVIDENCE_DAYS, old_evidence_remove()) == (0, 0)
    settings.EVIDENCE_DAYS = 30
    assert old_evidence_remove() == 1


def test_deleting_a_job_deletes_its_column_files() -> None:
    job = aged("old", {"a.log": LOG})
    (key,) = Artifact.objects.values_list("parsed_key", flat=True)
    folder = Path(site.DATA_DIR) / "parsed" / key
    assert folder.exists()
    job.delete()
    assert not folder.exists()


@pytest.mark.parametrize("harm", ["lost", "of another version"])
def test_column_files_that_cannot_be_used_are_made_again(harm: str) -> None:
    job = aged("job", {"a.log": LOG, "b.log": LOG + b"z\n"})
    artifact = Artifact.objects.get(path="a.log")
    place = Path(site.DATA_DIR) / "parsed" / artifact.parsed_key / "parsed.json"
    if harm == "lost":
        storage.directory_delete(artifact.parsed_key, storage.PARSED_FILES)
    else:
        place.write_text(place.read_text().replace('"format": 1', '"format": 0'))
    said = io.StringIO()
    call_command("reread_evidence", job.slug, stdout=said)
    assert "1 files are queued" in said.getvalue()
    assert '"format": 1' in place.read_text()
    assert Artifact.objects.filter(state="parsed", lines__gte=50).count() == 2
    assert artifacts_reread(job=job) == 0
    assert artifacts_reread(job=job, is_forced=True) == 2


def test_a_diagnosis_reads_first_what_it_lacks() -> None:
    job = aged("job", {"a.log": LOG})
    storage.directory_delete(Artifact.objects.get().parsed_key, storage.PARSED_FILES)
    services.diagnosis_request(job=job, is_forced=True)
    job.refresh_from_db()
    assert job.revision == job.diagnosed_revision
    assert Artifact.objects.get().state == "parsed"
    assert job.diagnoses.exists()


OOM = b"2026-11-21 03:01:00,000 ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


def condensed(settings: Any) -> Job:
    """An old job of four ranks, one of which failed, after the periodic tidying."""
    job = aged("old", {f"node-{n}.log": LOG * 4 + (OOM if n == 2 else b"") for n in range(4)})
    services.diagnosis_request(job=job)
    Incident.objects.update(state=Incident.State.CONFIRMED)
    settings.CONDENSE_DAYS = 30
    assert old_evidence_condense() == 1
    job.refresh_from_db()
    return job


def test_of_an_old_job_the_telling_lines_stay_and_its_pages_say_so(settings: Any, client: Any) -> None:
    others = stored("blobs")
    job = condensed(settings)
    log = Artifact.objects.get(path="node-2.log")
    assert (log.state, log.lines) == (Artifact.State.REMOVED, 201)
    assert 0 < log.kept_lines < 100
    assert len(stored("blobs") - others) == 1, "one table for all logs"
    client.force_login(make_user("ada", "engineer"))
    page = page_text(client.get(f"/jobs/{job.slug}/logs/0/node-2.log?line=201"))
    assert f"{log.kept_lines} of 201 lines were kept" in page
    assert "CUDA out of memory" in page
    for row in Artifact.objects.all():
        page = page_text(client.get(f"/jobs/{job.slug}/logs/0/{row.path}"))
        gaps = sum(int(n) for n in re.findall(r"(\d+) lines? not kept", page))
        assert gaps == row.lines - row.kept_lines, "each line is shown or counted"
    for query in ("find=cuda out of", "find=Tried.*GiB&regex=1"):
        step = client.get(f"/jobs/{job.slug}/search/0/?{query}&cursor=0").content.decode()
        assert "node-2.log:201" in step, "searches look through the kept lines"
    assert "CUDA" not in page_text(client.get(f"/jobs/{job.slug}/logs/0/node-1.log?level=4"))
    assert f"{log.kept_lines} of 201" in page_text(client.get(f"/jobs/{job.slug}/files/"))
    assert old_evidence_condense() == 0, "it is tried once"


def test_a_condensed_job_keeps_its_diagnosis_and_reads_files_that_are_sent_again(settings: Any) -> None:
    job = condensed(settings)
    before = Diagnosis.objects.get(job=job).report
    services.diagnosis_request(job=job)
    assert Diagnosis.objects.get(job=job).report == before
    services.artifact_receive(job=job, path="node-2.log", chunks=[LOG * 4 + OOM])
    again = Artifact.objects.get(path="node-2.log")
    assert (again.state, again.kept, again.kept_lines) == (Artifact.State.PARSED, None, 0)


def test_the_kept_lines_go_with_their_file_and_with_the_evidence(settings: Any, monkeypatch: Any) -> None:
    others = stored("blobs")
    job = condensed(settings)
    services.artifact_delete(artifact=Artifact.objects.get(path="node-2.log"))
    rest = selectors.kept_lines(Artifact.objects.get(path="node-1.log"))
    assert len(rest)
    monkeypatch.setattr(sweeping, "_BLOB_KEPT", timedelta(0))
    sweeping.tidy()
    assert len(stored("blobs") - others) == 1, "the table with the deleted lines is gone"
    Job.objects.filter(pk=job.pk).update(evidence_changed_at=timezone.now() - timedelta(days=100))
    settings.EVIDENCE_DAYS = 30
    assert old_evidence_remove() == 1
    sweeping.tidy()
    assert stored("blobs") <= others


def test_a_job_whose_verdict_needs_all_lines_keeps_them(settings: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("ingest.isolation.inside.condense", lambda *_, **__: None)
    job = condensed(settings)
    assert set(Artifact.objects.filter(attempt__job=job).values_list("state", flat=True)) == {"parsed"}
