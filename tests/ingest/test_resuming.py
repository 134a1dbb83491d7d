"""tus 1.0: uploads that break off and go on where they stopped."""

from __future__ import annotations

import base64
from contextlib import closing
from typing import Any

import pytest

from ingest import temp_files
from ingest.models import Artifact, Upload
from ingest.services import resuming
from tests.archives import tar_of
from tests.factories import make_cluster, make_job, make_team
from tests.ingest.conftest import LOG, sha

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.ingest.urls")]
OFFSET_STREAM = "application/offset+octet-stream"


def begin(api: Any, job: Any, data: bytes, path: str = "a.log", **metadata: str) -> Any:
    said = {"job": job.slug, "path": path, **metadata}
    header = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in said.items())
    return api.post("/api/v1/uploads/", headers={"Upload-Length": str(len(data)), "Upload-Metadata": header})


def patch(api: Any, url: str, data: bytes, offset: int) -> Any:
    return api.patch(url, data, content_type=OFFSET_STREAM, headers={"Upload-Offset": str(offset)})


def test_an_upload_goes_up_in_pieces_and_becomes_one_artifact(api: Any, job: Any) -> None:
    answer = begin(api, job, LOG)
    assert answer.status_code == 201
    url = answer["Location"]
    assert patch(api, url, LOG[:4000], 0)["Upload-Offset"] == "4000"
    assert api.head(url)["Upload-Offset"] == "4000"
    last = patch(api, url, LOG[4000:], 4000)
    assert (last.status_code, last["Upload-Offset"], last["Tus-Resumable"]) == (204, str(len(LOG)), "1.0.0")
    artifact = Artifact.objects.get()
    assert (artifact.blob_id, artifact.state) == (sha(LOG), "parsed")
    assert api.head(url)["Upload-Offset"] == str(len(LOG))


def test_bytes_that_came_before_the_connection_broke_are_kept(api: Any, job: Any) -> None:
    url = begin(api, job, LOG)["Location"]
    upload = Upload.objects.get()

    piece = resuming.Piece(upload, 0, len(LOG))
    piece.write(LOG[:1000])
    piece.close()
    assert api.head(url)["Upload-Offset"] == "1000"
    assert patch(api, url, LOG[1000:], 1000).status_code == 204
    assert Artifact.objects.get().blob_id == sha(LOG)


def test_a_wrong_offset_is_a_conflict_that_tells_the_right_one(api: Any, job: Any) -> None:
    url = begin(api, job, LOG)["Location"]
    patch(api, url, LOG[:100], 0)
    answer = patch(api, url, LOG[50:], 50)
    assert answer.status_code == 409
    assert "continue at 100" in answer.json()["detail"]
    assert patch(api, url, LOG[100:], 100).status_code == 204


def test_more_bytes_than_announced_are_refused(api: Any, job: Any) -> None:
    url = begin(api, job, LOG)["Location"]
    assert patch(api, url, LOG + b"more", 0).status_code == 413
    assert not Artifact.objects.exists()


def test_two_requests_never_write_at_once(api: Any, job: Any) -> None:
    url = begin(api, job, LOG)["Location"]
    upload = Upload.objects.get()
    with closing(resuming.Piece(upload, 0)):
        assert patch(api, url, LOG, 0).status_code == 423
    assert patch(api, url, LOG, 0).status_code == 204


def test_a_file_that_changed_while_it_was_sent_is_recognised_by_its_digest(api: Any, job: Any) -> None:
    url = begin(api, job, LOG, sha256=sha(LOG + b"x"))["Location"]
    answer = patch(api, url, LOG, 0)
    assert answer.status_code == 460
    assert "Send it again" in answer.json()["detail"]
    assert Upload.objects.get().state == "refused"


def test_the_same_file_again_makes_nothing_new(api: Any, job: Any) -> None:
    for expected in ("1", "0"):
        answer = patch(api, begin(api, job, LOG)["Location"], LOG, 0)
        assert answer["Upload-Is-New"] == expected
    assert Upload.objects.count() == 1
    assert Artifact.objects.count() == 1


def test_an_archive_is_opened_when_its_last_byte_is_there(api: Any, job: Any) -> None:
    data = tar_of({"n1/a.log": LOG})
    assert patch(api, begin(api, job, data, "all.tar.gz")["Location"], data, 0).status_code == 204
    assert [a.path for a in Artifact.objects.all()] == ["n1/a.log"]


def test_an_empty_file_needs_no_second_request(api: Any, job: Any) -> None:
    assert begin(api, job, b"").status_code == 201
    assert Artifact.objects.get().state == "skipped"


def test_a_file_whose_process_died_at_its_last_byte_is_taken_in_when_asked_for(api: Any, job: Any) -> None:
    url = begin(api, job, LOG)["Location"]
    temp_files.part_path(f"{Upload.objects.get().pk}.part").write_bytes(LOG)
    assert Artifact.objects.count() == 0
    assert api.head(url)["Upload-Offset"] == str(len(LOG))
    assert Artifact.objects.get().lines == 200
    assert api.head(url)["Upload-Offset"] == str(len(LOG))


def test_who_asks_while_another_request_takes_the_file_in_hears_that_all_is_here(api: Any, job: Any) -> None:
    url = begin(api, job, LOG)["Location"]
    stale = Upload.objects.get()
    patch(api, url, LOG, 0)
    assert resuming.upload_resume(stale) == len(LOG)


def test_an_upload_whose_bytes_are_missing_says_so_to_whoever_asks_where_to_continue(api: Any, job: Any) -> None:
    url = begin(api, job, LOG)["Location"]
    assert api.head(url)["Upload-Offset"] == "0"
    temp_files.part_path(f"{Upload.objects.get().pk}.part").unlink()
    assert api.head(url).status_code == 410
    assert patch(api, url, LOG, 0).status_code == 410
    again = begin(api, job, LOG)["Location"]
    assert patch(api, again, LOG, 0).status_code == 204
    assert Artifact.objects.get().lines == 200


def test_what_is_given_up_leaves_no_bytes(api: Any, job: Any) -> None:
    url = begin(api, job, LOG)["Location"]
    patch(api, url, LOG[:100], 0)
    part = temp_files.part_path(f"{Upload.objects.get().pk}.part")
    assert part.exists()
    assert api.delete(url).status_code == 204
    assert not part.exists()
    assert api.head(url).status_code == 404


def test_bad_headers_are_named(api: Any, job: Any, settings: Any) -> None:
    assert api.post("/api/v1/uploads/", headers={"Upload-Length": "x"}).status_code == 422
    assert begin(api, job, LOG, path="../x").status_code == 422
    said = begin(api, job, LOG, sha256="f" * 63).json()["detail"]
    assert "64 hexadecimal digits" in said
    url = begin(api, job, LOG)["Location"]
    assert api.patch(url, LOG, content_type="text/plain").status_code == 415
    assert patch(api, url, LOG, -1).status_code == 422  # type: ignore[arg-type]
    settings.UPLOAD_MAX_BYTES = 10
    assert begin(api, job, LOG).status_code == 413


def test_strangers_neither_begin_nor_see_an_upload(api: Any) -> None:
    cluster = make_cluster("closed")
    make_team("others", clusters=[cluster])
    hidden = make_job("hidden", cluster=cluster)
    assert begin(api, hidden, LOG).status_code == 404
    upload = resuming.upload_begin(job=hidden, path="a.log", size_bytes=10)
    assert api.head(f"/api/v1/uploads/{upload.pk}").status_code == 404
