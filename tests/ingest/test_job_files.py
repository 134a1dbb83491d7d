"""``PUT /api/v1/jobs/ID/files/NAME``: all that a small job needs, in one request."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.models import Artifact, Job, Run, Team
from tests.archives import tar_of
from tests.factories import make_cluster, make_team
from tests.ingest.conftest import LOG

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.ingest.urls")]
ADDRESS = "/api/v1/jobs/night-run/files"


def put(api: Any, address: str, data: bytes = LOG) -> Any:
    return api.put(f"{ADDRESS}/{address}", data, content_type="application/octet-stream")


def test_one_request_makes_the_job_stores_its_log_and_asks_for_the_diagnosis(api: Any) -> None:
    answer = put(api, "node-1/train.log?outcome=failed&name=Night+run")
    assert answer.status_code == 201
    assert (answer.json()["job"], answer["Location"]) == ("night-run", "/api/v1/jobs/night-run/")
    job = Job.objects.get()
    assert (job.slug, job.name, job.declared_outcome) == ("night-run", "Night run", "failed")
    assert Artifact.objects.get().path == "node-1/train.log"
    assert Run.objects.filter(kind=Run.Kind.DIAGNOSE).count() == 1


def test_the_same_file_again_changes_nothing(api: Any) -> None:
    put(api, "a.log")
    revision = Job.objects.get().revision
    answer = put(api, "a.log")
    assert (answer.status_code, answer.json()["is_new"]) == (200, False)
    assert Job.objects.get().revision == revision
    assert Run.objects.filter(kind=Run.Kind.DIAGNOSE).count() == 1


def test_files_that_say_no_wait_for_the_one_that_does_not(api: Any) -> None:
    put(api, "a.log?diagnose=no")
    put(api, "b.log?diagnose=no", LOG + b"more\n")
    assert not Run.objects.filter(kind=Run.Kind.DIAGNOSE).exists()
    put(api, "b.log", LOG + b"more\n")  # nothing new, but now it is wanted
    assert Run.objects.filter(kind=Run.Kind.DIAGNOSE).count() == 1


def test_an_archive_is_diagnosed_when_its_members_are_read(api: Any) -> None:
    assert put(api, "all.tar.gz", tar_of({"a.log": LOG, "b.log": LOG})).status_code == 202
    assert Artifact.objects.count() == 2
    assert Run.objects.filter(kind=Run.Kind.DIAGNOSE).count() == 1


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("a.log?diagnose=maybe", "bad_answer"),
        ("a.log?outcome=exploded", "invalid"),
        ("a.log?framework=megatron", "unknown"),
        ("..%2Fsecret", "bad_path"),
        ("a.log?attempt=-1", "bad_number"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_no_job(api: Any, address: str, code: str) -> None:
    answer = put(api, address)
    assert answer.status_code == 422
    assert answer.json()["type"].endswith(code)
    assert not Job.objects.exists()


def test_the_quota_of_the_senders_team_holds(api: Any, engineer: Any) -> None:
    team = make_team("night", members=[engineer], clusters=[make_cluster("h100")])
    Team.objects.filter(pk=team.pk).update(max_bytes=10)
    answer = put(api, "a.log?team=night")
    assert answer.status_code == 507
    assert not Artifact.objects.exists()
