"""Evidence and column files in an S3 store: a server in this process, the storage of the settings, real pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.utils import timezone
from rest_framework.test import APIClient

from diagnosis.kinds.logs.rows import stored_rows
from ingest import selectors, services, storage, sums
from ingest.models import Artifact, Blob, Run
from ingest.services import rereading
from ingest.services.sweeping import sweep, tidy
from tests.archives import tar_of
from tests.factories import make_job, make_user
from tests.ingest.conftest import LOG, sha
from tests.pages import page_text
from triage.services import doctor

pytestmark = pytest.mark.django_db(transaction=True)
BUCKET = "faultline"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture
def store(endpoint: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An empty bucket, and both stores in it as FAULTLINE_S3_BUCKET and FAULTLINE_S3_ENDPOINT put them there."""
    import boto3

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr("triage.settings._BUCKET", BUCKET)
    monkeypatch.setenv("FAULTLINE_S3_ENDPOINT", endpoint)
    from triage.settings import _store

    bucket = boto3.resource("s3", endpoint_url=endpoint).create_bucket(Bucket=BUCKET)
    settings.STORAGES = {**settings.STORAGES, "blobs": _store("blobs"), "parsed": _store("parsed")}
    yield bucket
    bucket.objects.all().delete()
    bucket.delete()


def keys(bucket: Any) -> list[str]:
    return [row.key for row in bucket.objects.all()]


def test_a_log_is_kept_parsed_and_read_back_by_range(store: Any) -> None:
    assert type(storages["blobs"]).__name__ == "ObjectStore"
    job = make_job()
    services.artifact_receive(job=job, path="a.log", chunks=[LOG])
    artifact = Artifact.objects.get()
    assert (artifact.state, artifact.lines) == ("parsed", 200)
    assert f"blobs/{Blob.key_of(sha(LOG))}" in keys(store)
    assert {key.rpartition("/")[2] for key in keys(store) if key.startswith("parsed/")} == {
        "columns.parquet",
        "uniques.parquet",
        "sums.json",
        "parsed.json",
    }, "a small log is read in one piece, and counted when its job is diagnosed"
    assert storage.blob_range(sha(LOG), 100, 50) == LOG[100:150]
    assert storage.blob_range(sha(LOG), len(LOG) - 5, 50) == LOG[-5:]
    assert storage.blob_range(sha(LOG), len(LOG), 50) == storage.blob_range(sha(LOG), 0, 0) == b""
    with pytest.raises(FileNotFoundError):
        storage.blob_range(sha(b"absent"), 0, 5)


def test_a_log_that_was_read_in_ranges_is_read_back_from_their_files(store: Any, settings: Any, tmp_path: Path) -> None:
    settings.PARSE_UNIT_BYTES = 5_000
    job = make_job()
    services.artifact_receive(job=job, path="a.log", chunks=[LOG])
    artifact = Artifact.objects.get()
    (found,) = selectors.parsed_for(job.attempts.get(), tmp_path)
    lines = selectors.lines_of(artifact)
    assert lines and found.columns and lines.file.name == found.columns.name == "ranges.parquet"
    for rows in (lines, stored_rows.lines_of(found)):
        table = stored_rows.scan(rows).collect()
        assert table["line"].to_list() == list(range(1, 201))
        assert (table["offset"] + table["length"] + 1).to_list() == [n + 1 for n, byte in enumerate(LOG) if byte == 10]
    services.artifact_delete(artifact=artifact)
    assert not [key for key in keys(store) if key.startswith("parsed/")]


@pytest.mark.parametrize("unit_bytes", [5_000, 1 << 20])
def test_changed_column_files_are_noticed_named_and_made_again(
    store: Any, settings: Any, tmp_path: Path, unit_bytes: int
) -> None:
    settings.PARSE_UNIT_BYTES = unit_bytes
    job = make_job()
    services.artifact_receive(job=job, path="a.log", chunks=[LOG])
    key = next(key for key in reversed(keys(store)) if key.endswith("/columns.parquet"))
    stored = store.Object(key).get()["Body"].read()
    wrong = bytearray(stored)
    wrong[len(wrong) // 2] ^= 1
    store.put_object(Key=key, Body=bytes(wrong))
    found = doctor.evidence()
    assert found.state == "problem" and f"a.log of {job.slug} (changed)" in found.sentence
    with pytest.raises(sums.Changed):
        selectors.parsed_for(job.attempts.get(), tmp_path)
    assert rereading.artifacts_reread(job=job) == 1
    (columns,) = selectors.parsed_for(job.attempts.get(), tmp_path)
    assert columns.lines == 200
    assert doctor.evidence().state == "ok"


def test_the_store_is_asked_to_encrypt_if_the_setting_says_so(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from triage.settings import _store

    monkeypatch.setattr("triage.settings._S3_ENCRYPTION", "aws:kms")
    storages.create_storage(_store("blobs")).save("a", ContentFile(b"x"))
    assert store.Object("blobs/a").server_side_encryption == "aws:kms"


def test_a_window_of_a_log_asks_the_store_for_no_more_than_the_window(store: Any, monkeypatch: Any) -> None:
    services.artifact_receive(job=make_job(), path="a.log", chunks=[LOG])
    monkeypatch.setattr(storages["blobs"], "open", None)  # would fetch the whole object
    assert storage.blob_range(sha(LOG), 4000, 10) == LOG[4000:4010]


def test_an_archive_is_opened_and_the_log_page_shows_a_member(store: Any, client: Any) -> None:
    engineer = make_user("ada", "engineer")
    job = services.job_create(name="Night run", user=engineer)
    services.artifact_receive(job=job, path="all.tar.gz", chunks=[tar_of({"n1/a.log": LOG, "n2/b.log": LOG * 2})])
    assert set(Artifact.objects.values_list("path", "state")) == {("n1/a.log", "parsed"), ("n2/b.log", "parsed")}
    client.force_login(engineer)
    page = page_text(client.get(f"/jobs/{job.slug}/logs/0/n2/b.log"))
    assert "iteration 7 loss 2.5" in page
    raw = client.get(f"/jobs/{job.slug}/raw/0/n1/a.log")
    assert b"".join(raw.streaming_content) == LOG


def test_a_resumed_upload_ends_there_and_the_same_bytes_again_are_nothing_new(store: Any) -> None:
    engineer = make_user("ada", "engineer")
    job = make_job("night-run")
    _, secret = services.token_create(user=engineer, name="t", scopes=["upload", "read"])
    api = APIClient()
    api.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    for expected in (201, 200):
        url = f"/api/v1/jobs/{job.slug}/artifacts/{sha(LOG)}?path=a.log"
        assert api.put(url, LOG, content_type="application/octet-stream").status_code == expected
    assert len([key for key in keys(store) if key.startswith("blobs/")]) == 1


def test_what_nothing_refers_to_is_freed(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    services.artifact_receive(job=make_job(), path="a.log", chunks=[LOG])
    services.artifact_delete(artifact=Artifact.objects.get())
    assert not [key for key in keys(store) if key.startswith("parsed/")]
    tidy()
    assert keys(store), "an hour is waited"
    later = timezone.now() + timezone.timedelta(hours=2)
    monkeypatch.setattr("ingest.services.sweeping.timezone.now", lambda: later)
    tidy()
    assert keys(store) == []
    assert storage.blob_changed_at(sha(LOG)).year == 1970


@pytest.fixture
def away(store: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The operations that the store answers with 503."""
    from botocore.client import BaseClient
    from botocore.exceptions import ClientError

    failing: set[str] = set()
    call = BaseClient._make_api_call

    def answer(client: Any, operation: str, parameters: Any) -> Any:
        if operation in failing:
            said = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}
            raise ClientError(said, operation)
        return call(client, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", answer)
    yield failing
    failing.clear()


def test_evidence_that_cannot_be_fetched_is_read_when_the_store_answers_again(away: set[str]) -> None:
    away |= {"GetObject", "HeadObject"}
    services.artifact_receive(job=make_job(), path="a.log", chunks=[LOG])
    artifact, run = Artifact.objects.get(), Run.objects.get()
    assert (artifact.state, run.state, run.own_tries) == ("received", "queued", 0)
    assert run.error == "The store of evidence does not answer. The work continues when it does."

    away.clear()
    sweep()
    artifact.refresh_from_db()
    assert (artifact.state, artifact.lines) == ("parsed", 200)


def test_an_upload_that_cannot_be_stored_is_to_be_sent_again(away: set[str]) -> None:
    away |= {"PutObject", "HeadObject"}
    ada = make_user("ada", "engineer")
    _, token = services.token_create(user=ada, name="t", scopes=["upload", "read"])
    client = APIClient(headers={"authorization": f"Bearer {token}"})
    address = f"/api/v1/jobs/{make_job().slug}/artifacts/{sha(LOG)}?path=a.log"
    answer = client.put(address, LOG, content_type="application/octet-stream")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "store of evidence does not answer" in answer.json()["detail"]
    assert not Artifact.objects.exists()

    away.clear()
    assert client.put(address, LOG, content_type="application/octet-stream").status_code == 201
