"""``/api/v1/``: jobs, one-shot uploads by digest, diagnosis on request, tokens, limits."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError
from rest_framework.test import APIClient

from ingest import services
from ingest.models import Artifact, Job, Token
from tests.archives import tar_of
from tests.factories import make_cluster, make_job, make_team, make_user
from tests.ingest.conftest import LOG, sha

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.ingest.urls")]


def test_the_first_sending_makes_an_artifact_and_the_second_nothing_new(put: Any, job: Any) -> None:
    first, second = put("logs/a.log", LOG), put("logs/a.log", LOG)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["artifact"]["id"] == second.json()["artifact"]["id"]
    assert not second.json()["is_new"]
    artifact = Artifact.objects.get()
    assert (artifact.state, artifact.lines, artifact.blob_id) == ("parsed", 200, sha(LOG))
    job.refresh_from_db()
    assert job.revision == 1


def test_an_archive_is_accepted_and_its_members_become_artifacts(put: Any) -> None:
    data = tar_of({"n1/a.log": LOG, "n2/b.log": LOG + b"x\n"})
    assert put("all.tar.gz", data).status_code == 202
    assert sorted(Artifact.objects.values_list("path", "state")) == [("n1/a.log", "parsed"), ("n2/b.log", "parsed")]
    assert put("all.tar.gz", data).status_code == 200
    assert Artifact.objects.count() == 2


def test_who_is_about_to_send_files_is_told_which_job_has_them(put: Any, api: Any, job: Any) -> None:
    archive = tar_of({"n1/a.log": LOG})
    put("a.log", LOG), put("all.tar.gz", archive)

    def with_files(*digests: str) -> list[str]:
        answer = api.get("/api/v1/jobs/", {"sha256": ",".join(digests)}).json()
        return [row["slug"] for row in answer["results"]]

    assert with_files(sha(LOG)) == with_files(sha(LOG), sha(archive)) == [job.slug]
    assert with_files(sha(LOG).upper()) == [job.slug]
    assert with_files(sha(LOG), sha(b"new")) == []


@pytest.mark.parametrize("digests", ["", "abc", ",".join(["0" * 64] * 51)])
def test_a_question_for_files_takes_whole_digests_and_not_too_many(api: Any, digests: str) -> None:
    answer = api.get("/api/v1/jobs/", {"sha256": digests})
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (422, "bad_digest")


def test_files_of_a_job_that_one_may_not_see_are_new(put: Any, api: Any, job: Any) -> None:
    put("a.log", LOG)
    job.cluster = make_cluster("theirs")
    job.save()
    make_team("theirs", clusters=[job.cluster])
    assert api.get("/api/v1/jobs/", {"sha256": sha(LOG)}).json()["results"] == []


def test_other_bytes_than_announced_are_refused_with_a_sentence_that_the_job_keeps(
    put: Any, api: Any, job: Any
) -> None:
    answer = put("a.log", LOG, digest=sha(b"what it was a moment ago"))
    assert answer.status_code == 422
    assert answer["Content-Type"] == "application/problem+json"
    assert "changed while it was sent" in answer.json()["detail"]
    problems = api.get(f"/api/v1/jobs/{job.slug}/").json()["progress"]["problems"]
    assert [row["path"] for row in problems] == ["a.log"]
    assert not Artifact.objects.exists()
    assert put("a.log", LOG).status_code == 201


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret", "a/../../b", "", "C:/x"])
def test_a_name_that_leaves_its_place_is_refused(put: Any, path: str) -> None:
    answer = put(path, LOG)
    assert answer.status_code == 422
    assert answer.json()["type"].endswith("bad_path")


def test_an_empty_upload_is_kept_and_says_that_it_is_empty(put: Any, api: Any, job: Any) -> None:
    assert put("a.log", b"").status_code == 201
    (row,) = api.get(f"/api/v1/jobs/{job.slug}/artifacts/").json()["results"]
    assert row["state"] == "skipped"
    assert "empty" in row["problem"]


def test_a_job_is_made_of_a_name_alone(api: Any) -> None:
    answer = api.post("/api/v1/jobs/", {"name": "Llama 70B pretrain"})
    assert answer.status_code == 201
    assert answer.json()["slug"] == "llama-70b-pretrain"
    again = api.post("/api/v1/jobs/", {"name": "Llama 70B pretrain"})
    assert again.json()["slug"] == "llama-70b-pretrain-2"


def test_a_slug_in_use_is_a_conflict_that_says_what_to_do(api: Any) -> None:
    make_job("taken")
    answer = api.post("/api/v1/jobs/", {"name": "x", "slug": "taken"})
    assert answer.status_code == 409
    assert "in use" in answer.json()["detail"]
    assert answer.json()["job"] == "taken"


def test_the_conflict_tells_nothing_of_a_job_that_the_sender_may_not_see(api: Any) -> None:
    make_team("others", clusters=[make_cluster("closed")])
    make_job("hidden", cluster=make_cluster("closed"))
    answer = api.post("/api/v1/jobs/", {"name": "x", "slug": "hidden"})
    assert answer.status_code == 409
    assert "job" not in answer.json()


def test_the_whole_failure_report_is_kept(api: Any) -> None:
    said = {
        "name": "x",
        "family": "llama",
        "framework": "megatron",
        "nodes": ["n1", "n2"],
        "layout": {"tp": 8},
        "time_zone": "Europe/Berlin",
        "started_at": "2026-11-20T10:00:00Z",
        "outcome": "failed",
        "comment": "died",
    }
    answer = api.post("/api/v1/jobs/", said)
    assert answer.status_code == 201, answer.json()
    job = Job.objects.get()
    assert (job.nodes_text, job.declared_outcome, job.layout, job.created_by.username) == (
        "n1\nn2",
        "failed",
        {"tp": 8},
        "engineer",
    )


def test_wrong_fields_are_named_one_by_one(api: Any) -> None:
    answer = api.post("/api/v1/jobs/", {"name": "", "outcome": "perhaps"})
    assert answer.status_code == 422
    assert {row["field"] for row in answer.json()["errors"]} == {"name", "outcome"}
    answer = api.post("/api/v1/jobs/", {"name": "x", "time_zone": "Mars/Olympus"})
    assert answer.json()["errors"][0]["field"] == "time_zone"


def test_an_idempotency_key_makes_one_job_however_often_it_is_sent(api: Any) -> None:
    send = lambda name: api.post("/api/v1/jobs/", {"name": name}, headers={"Idempotency-Key": "k1"})  # noqa: E731
    first, second, other = send("x"), send("x"), send("y")
    assert first.json() == second.json()
    assert second["Idempotency-Replayed"] == "true"
    assert other.status_code == 422
    assert Job.objects.count() == 1


def test_more_is_said_of_a_job_later(api: Any, job: Any) -> None:
    said = {"outcome": "failed", "ended_at": "2026-11-21T03:00:00Z", "nodes": ["n1", "n2"]}
    answer = api.patch(f"/api/v1/jobs/{job.slug}/", said)
    assert answer.status_code == 200, answer.json()
    job.refresh_from_db()
    assert (job.declared_outcome, job.nodes_text, job.name) == ("failed", "n1\nn2", "Night run")
    assert api.patch(f"/api/v1/jobs/{job.slug}/", {"outcome": "odd"}).status_code == 422


def test_what_was_sent_is_listed_with_digests_and_refusals(put: Any, api: Any, job: Any) -> None:
    put("a.log", LOG)
    put("b.log", LOG, digest=sha(b"other"))
    rows = api.get(f"/api/v1/jobs/{job.slug}/uploads/").json()["results"]
    assert [(row["path"], row["state"], row["sha256"]) for row in rows] == [
        ("b.log", "refused", ""),
        ("a.log", "settled", sha(LOG)),
    ]


def test_a_failed_request_frees_its_idempotency_key(api: Any) -> None:
    make_job("taken")
    headers = {"Idempotency-Key": "k2"}
    assert api.post("/api/v1/jobs/", {"name": "x", "slug": "taken"}, headers=headers).status_code == 409
    Job.objects.all().delete()
    assert api.post("/api/v1/jobs/", {"name": "x", "slug": "taken"}, headers=headers).status_code == 201


def test_a_diagnosis_on_request_is_queued_once_per_revision(put: Any, api: Any, job: Any) -> None:
    put("a.log", LOG)
    url = f"/api/v1/jobs/{job.slug}/diagnose/"
    first, second = api.post(url), api.post(url)
    assert first.status_code == 202
    assert first.json()["run"] == second.json()["run"]
    assert job.runs.filter(kind="diagnose").count() == 1
    runs = api.get(f"/api/v1/jobs/{job.slug}/runs/").json()["results"]
    assert {run["kind"] for run in runs} == {"parse", "diagnose"}


def test_a_diagnosis_that_is_done_is_reported_and_made_again_only_by_force(api: Any, put: Any, job: Any) -> None:
    put("a.log", LOG)
    url = f"/api/v1/jobs/{job.slug}/diagnose/"
    first = api.post(url, {}, format="json")
    assert (first.status_code, first.json()["state"]) == (202, "queued")
    job.refresh_from_db()
    job.runs.filter(kind="diagnose").update(state="succeeded")
    Job.objects.update(diagnosed_revision=job.revision)
    again = api.post(url, {"force": False}, format="json")
    assert (again.status_code, again.json()["state"], again.json()["run"]) == (200, "succeeded", first.json()["run"])
    forced = api.post(url, {"force": True}, format="json")
    assert (forced.status_code, forced.json()["state"]) == (202, "queued")
    assert forced.json()["run"] != first.json()["run"]


def test_a_token_opens_only_what_its_scopes_and_its_owners_role_allow(job: Any, engineer: Any) -> None:
    viewer = make_user("viewer", "viewer")
    cases = [(engineer, ["read"], 403), (viewer, ["upload"], 403), (engineer, ["upload"], 201)]
    for number, (user, scopes, expected) in enumerate(cases):
        client = APIClient()
        token, secret = services.token_create(user=user, name="t", scopes=scopes)
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
        assert client.post("/api/v1/jobs/", {"name": f"job {number}"}).status_code == expected
        services.token_revoke(token=token)
        assert client.get("/api/v1/jobs/").status_code == 401


def test_the_database_never_holds_a_tokens_secret(engineer: Any) -> None:
    _, secret = services.token_create(user=engineer, name="t", scopes=["read"])
    row = Token.objects.filter(name="t").values().get()
    assert secret.startswith("fl_")
    assert secret not in str(row)


def test_nobody_sees_or_fills_a_job_of_another_teams_cluster(api: Any, engineer: Any) -> None:
    cluster = make_cluster("closed")
    make_team("others", clusters=[cluster])
    hidden = make_job("hidden", cluster=cluster)
    assert api.get("/api/v1/jobs/hidden/").status_code == 404
    url = f"/api/v1/jobs/hidden/artifacts/{sha(LOG)}?path=a.log"
    assert api.put(url, LOG, content_type="application/octet-stream").status_code == 404
    assert api.post("/api/v1/jobs/", {"name": "x", "cluster": "closed"}).status_code == 422
    make_team("mates", members=[engineer], clusters=[hidden.cluster])
    assert api.get("/api/v1/jobs/hidden/").status_code == 200


def test_lists_are_cut_by_a_cursor_that_new_rows_do_not_shift(api: Any) -> None:
    for n in range(5):
        make_job(f"j{n}")
    first = api.get("/api/v1/jobs/?page_size=2").json()
    make_job("later")
    second = api.get(first["next"]).json()
    assert [row["slug"] for row in first["results"] + second["results"]] == ["j4", "j3", "j2", "j1"]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/api/v1/jobs/?pagesize=2", "“pagesize” here: there are sha256, cursor, page_size."),
        ("/api/v1/jobs/?page_size=2&page_size=3", "page_size is there 2 times"),
        ("/api/v1/me/?verbose=1", "it takes none"),
    ],
)
def test_a_parameter_that_would_be_passed_over_is_refused(api: Any, address: str, said: str) -> None:
    answer = api.get(address)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


@pytest.mark.usefixtures("same_minute")
def test_too_many_requests_are_told_when_to_come_back(api: Any, settings: Any) -> None:
    settings.API_PER_MINUTE = 2
    answers = [api.get("/api/v1/jobs/") for _ in range(3)]
    assert [a.status_code for a in answers] == [200, 200, 429]
    assert [a["RateLimit-Remaining"] for a in answers] == ["1", "0", "0"]
    assert 0 < int(answers[2]["Retry-After"]) <= 60
    assert answers[2]["Content-Type"] == "application/problem+json"


def test_a_cache_that_is_down_stops_no_upload(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*_: Any, **__: Any) -> None:
        raise ConnectionError

    monkeypatch.setattr("django.core.cache.backends.locmem.LocMemCache.add", down)
    assert put("a.log", LOG).status_code == 201


def test_a_locked_database_is_said_to_be_busy(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(**_: Any) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(services, "job_create", locked)
    answer = api.post("/api/v1/jobs/", {"name": "x"})
    assert answer.status_code == 503
    assert answer["Retry-After"]
    assert "busy" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("said", "status", "told"),
    [
        ("database or disk is full", 507, "disk is full"),
        ("could not extend file: No space left on device", 507, "disk is full"),
        ("connection to server at 127.0.0.1 failed: Connection refused", 503, "does not answer"),
    ],
)
def test_a_database_that_is_full_or_away_is_distinguished_from_a_busy_one(
    api: Any, monkeypatch: pytest.MonkeyPatch, said: str, status: int, told: str
) -> None:
    def away(**_: Any) -> None:
        raise OperationalError(said)

    monkeypatch.setattr(services, "job_create", away)
    answer = api.post("/api/v1/jobs/", {"name": "x"})
    assert (answer.status_code, told in answer.json()["detail"]) == (status, True)


def test_more_bytes_than_a_file_may_have_are_refused_before_they_are_read(put: Any, settings: Any) -> None:
    settings.UPLOAD_MAX_BYTES = 10
    answer = put("a.log", bytes(3 << 20))
    assert answer.status_code == 413
    assert answer.wsgi_request.read(1) == b"\0"


def test_a_body_without_length_is_told_so(api: Any, job: Any) -> None:
    url = f"/api/v1/jobs/{job.slug}/artifacts/{sha(LOG)}?path=a.log"
    extra = {"HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": ""}
    assert api.put(url, content_type="application/octet-stream", **extra).status_code == 411


def test_capabilities_name_the_limits(api: Any, settings: Any) -> None:
    said = api.get("/api/v1/uploads/capabilities").json()
    assert said["max_bytes"] == settings.UPLOAD_MAX_BYTES
    assert said["tus_version"] == "1.0.0"


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "words"),
    [
        ("get", "/api/v1/jobs/nope/", {}, 404, "no job “nope”"),
        ("get", "/api/v1/jobs/?cursor=zzz", {}, 404, "begin again without it"),
        ("post", "/api/v1/jobs/", {"data": "name=x", "content_type": "text/plain"}, 415, "Send JSON"),
        ("post", "/api/v1/jobs/", {"data": '{"nam', "content_type": "application/json"}, 400, "again, complete"),
        ("post", "/api/v1/uploads/", {"headers": {"Upload-Length": "5"}}, 422, "names no job"),
        ("post", "/api/v1/uploads/", {"headers": {"Upload-Metadata": "job bm8="}}, 404, "no job “no”"),
    ],
)
def test_a_refusal_says_what_to_do(
    api: Any, method: str, path: str, options: dict[str, Any], status: int, words: str
) -> None:
    answer = getattr(api, method)(path, **options)
    assert answer.status_code == status, answer.json()
    assert words in answer.json()["detail"]


def test_without_a_token_one_is_told_where_to_get_it(db: None) -> None:
    answer = APIClient().get("/api/v1/jobs/")
    assert answer.status_code == 401
    assert "Bearer fl_" in answer.json()["detail"]


@pytest.mark.parametrize("layout", ['{"tp\\u0000": 8}', '{"tp": "\\ud800"}', '{"x": "' + "y" * 20_001 + '"}'])
def test_a_layout_that_no_database_keeps_is_refused(api: Any, layout: str) -> None:
    answer = api.post("/api/v1/jobs/", f'{{"name": "x", "layout": {layout}}}', content_type="application/json")
    assert answer.status_code == 422
    assert [row["field"] for row in answer.json()["errors"]] == ["layout"]


def test_a_job_is_given_to_one_of_the_callers_teams_and_to_no_other(api: Any, engineer: Any) -> None:
    red = make_team("red", members=[engineer], clusters=[make_cluster("h100")])
    _, far = make_team("blue", members=[engineer]), make_team("far")
    made = api.post("/api/v1/jobs/", {"name": "a", "team": "red"}, format="json")
    assert (made.status_code, made.json()["team"]) == (201, "red")
    refused = api.post("/api/v1/jobs/", {"name": "b", "team": far.slug}, format="json")
    assert refused.status_code == 422
    assert "not one of your teams" in refused.json()["detail"]
    changed = api.patch(f"/api/v1/jobs/{made.json()['slug']}/", {"team": None}, format="json")
    assert changed.json()["team"] is None
    assert Job.objects.get(slug=made.json()["slug"]).team != red
