"""Files that still grow: sent in any cuts and repeats, they end as the same bytes sent at once."""

from __future__ import annotations

import base64
import random
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from ingest.models import Artifact, Upload
from ingest.selectors.progress import progress
from ingest.services import revisions, sweeping
from tests.factories import make_user
from tests.ingest.conftest import LOG, sha

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.ingest.urls")]


def begin(api: Any, job: Any, path: str = "node-1/train.log", **headers: str) -> Any:
    said = {"job": job.slug, "path": path}
    metadata = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in said.items())
    return api.post("/api/v1/uploads/", headers={"Upload-Defer-Length": "1", "Upload-Metadata": metadata, **headers})


def send(api: Any, url: str, data: bytes, offset: int, size: int | None = None) -> Any:
    headers = {"Upload-Offset": str(offset), **({} if size is None else {"Upload-Length": str(size)})}
    return api.patch(url, data, content_type="application/offset+octet-stream", headers=headers)


@pytest.mark.parametrize("seed", range(12))
def test_any_cuts_and_repeats_end_as_the_bytes_sent_at_once(api: Any, job: Any, seed: int) -> None:
    dice = random.Random(seed)
    url = begin(api, job)["Location"]
    have = 0
    while have < len(LOG):
        piece = LOG[have : have + dice.randint(1, 3000)]
        assert send(api, url, piece, have)["Upload-Offset"] == str(have + len(piece))
        if dice.random() < 0.3:  # the answer was lost, the sender tries again
            assert send(api, url, piece, have).status_code == 409
            assert api.head(url)["Upload-Offset"] == str(have + len(piece))
        have += len(piece)
    assert not Artifact.objects.exists(), "it may grow further"
    assert send(api, url, b"", have, size=have).status_code == 204
    artifact = Artifact.objects.get()
    assert (artifact.blob_id, artifact.path, artifact.state) == (sha(LOG), "node-1/train.log", "parsed")


def test_two_followers_of_one_file_meet_the_same_upload(api: Any, job: Any) -> None:
    first, second = begin(api, job), begin(api, job)
    assert first["Location"] == second["Location"]
    assert send(api, first["Location"], LOG[:100], 0).status_code == 204
    assert begin(api, job)["Upload-Offset"] == "100"
    assert send(api, second["Location"], LOG[:100], 0).status_code == 409


def test_a_growing_file_states_no_length_until_its_end(api: Any, job: Any) -> None:
    url = begin(api, job)["Location"]
    send(api, url, LOG[:100], 0)
    head = api.head(url)
    assert head["Upload-Defer-Length"] == "1"
    assert "Upload-Length" not in head


def test_the_last_bytes_may_bring_the_length_and_it_is_stated_once(api: Any, job: Any) -> None:
    url = begin(api, job)["Location"]
    assert send(api, url, LOG[:100], 0, size=200).status_code == 204
    assert send(api, url, LOG[100:150], 100, size=150).status_code == 422
    assert send(api, url, LOG[100:300], 100).status_code == 413
    assert send(api, url, LOG[100:200], 100).status_code == 204
    assert Artifact.objects.get().blob_id == sha(LOG[:200])


def test_a_length_and_a_deferred_length_exclude_each_other(api: Any, job: Any) -> None:
    assert begin(api, job, **{"Upload-Length": "10"}).status_code == 422
    assert begin(api, job, **{"Upload-Defer-Length": "yes"}).status_code == 422


def test_a_growing_file_holds_no_diagnosis_up_and_the_page_says_that_it_is_followed(
    api: Any, job: Any, put: Any
) -> None:
    url = begin(api, job)["Location"]
    send(api, url, LOG[:100], 0)
    put("other.log", LOG)
    assert revisions.diagnosis_request(job=job) is not None
    step = progress(job).steps[0]
    assert (step.name, step.state, step.text) == ("following", "active", "1 growing file, 100 bytes so far")


def test_nothing_is_worked_on_while_a_job_is_only_followed(api: Any, job: Any, client: Any) -> None:
    url = begin(api, job)["Location"]
    send(api, url, LOG[:100], 0)
    client.force_login(make_user("eve", "viewer"))
    page = client.get(f"/ingest/progress/{job.slug}/").content.decode()
    assert "follows the running job" in page
    assert "working…" not in page
    assert "<progress" not in page
    Upload.objects.update(size_bytes=len(LOG))
    assert "working…" in client.get(f"/ingest/progress/{job.slug}/").content.decode()


def test_a_file_whose_sender_is_missing_ends_where_it_stands(api: Any, job: Any) -> None:
    url = begin(api, job)["Location"]
    send(api, url, LOG[:5000], 0)
    sweeping.tidy()
    assert Upload.objects.get().state == "receiving", "a pause is no end"
    Upload.objects.update(updated_at=timezone.now() - timedelta(hours=7))
    sweeping.tidy()
    assert Artifact.objects.get().blob_id == sha(LOG[:5000])


@pytest.mark.usefixtures("same_minute")
def test_pieces_of_growing_files_do_not_use_up_the_limit_of_uploads(api: Any, job: Any, settings: Any) -> None:
    settings.UPLOADS_PER_MINUTE = 1
    url = begin(api, job)["Location"]
    assert [send(api, url, LOG[n : n + 10], n).status_code for n in range(0, 50, 10)] == [204] * 5
    assert begin(api, job, path="b.log").status_code == 429
    settings.APPENDS_PER_MINUTE = 1
    assert send(api, url, LOG[50:60], 50).status_code == 429
