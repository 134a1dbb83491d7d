"""The upload page, the progress of a job, the tokens of a person."""

from __future__ import annotations

import importlib
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db.models import F
from django.test import Client
from django.utils import timezone

from ingest import selectors, services
from ingest.models import Artifact, Job, Run, Token, Upload
from tests.archives import tar_of
from tests.factories import make_cluster, make_job, make_team, make_user
from tests.ingest.conftest import LOG
from tests.pages import page_text

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def visitor(engineer: Any) -> Client:
    """The engineer, signed in."""
    client = Client()
    client.force_login(engineer)
    return client


def form(**fields: Any) -> dict[str, Any]:
    return {"name": "Night run", **fields}


def test_a_form_without_script_makes_the_job_takes_the_files_and_asks_for_the_diagnosis(visitor: Client) -> None:
    files = [SimpleUploadedFile("a.log", LOG), SimpleUploadedFile("b.tar.gz", tar_of({"n1/c.log": LOG}))]
    answer = visitor.post("/upload/", form(files=files, outcome="failed", layout="tp=8 pp=2"))
    assert (answer.status_code, answer["Location"]) == (302, "/jobs/night-run/")
    job = Job.objects.get()
    assert (job.declared_outcome, job.layout, job.created_by.username) == ("failed", {"tp": 8, "pp": 2}, "engineer")
    assert {a.path: a.state for a in Artifact.objects.all()} == {"a.log": "parsed", "n1/c.log": "parsed"}
    assert Run.objects.filter(job=job, kind="diagnose").count() == 1


def test_a_name_that_is_too_long_is_proposed_shortened(visitor: Client) -> None:
    page = page_text(visitor.post("/upload/", form(name="n" * 230)))
    assert "The name has 230 characters, and 200 fit." in page
    assert f'value="{"n" * 199}…"' in page
    assert not Job.objects.exists()


def test_one_refused_file_does_not_cost_the_others(visitor: Client, settings: Any) -> None:
    settings.UPLOAD_MAX_BYTES = len(LOG)
    files = [SimpleUploadedFile("b.log", LOG + LOG), SimpleUploadedFile("a.log", LOG)]
    answer = visitor.post("/upload/", form(files=files), follow=True)
    assert Artifact.objects.count() == 1
    assert "send it in parts" in page_text(answer)


def test_a_script_gets_the_address_and_sends_the_files_itself(visitor: Client) -> None:
    answer = visitor.post("/upload/", form(), headers={"Accept": "application/json"})
    assert (answer.status_code, answer.json()) == (201, {"slug": "night-run", "url": "/jobs/night-run/"})


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"name": ""}, "name", "required"),
        ({"slug": "taken"}, "slug", "in use"),
        ({"layout": "eight"}, "layout", "tp=8"),
        ({"layout": '{"tp": "\\u0000"}'}, "layout", "NUL"),
        ({"layout": "{" * 9000}, "layout", "tp=8"),
        ({"time_zone": "Mars/Olympus"}, "time_zone", "not a time zone"),
        ({"started_at": "2026-11-21T10:00", "ended_at": "2026-11-21T09:00"}, "ended_at", "before the start"),
    ],
)
def test_a_wrong_field_is_reported_next_to_it_and_nothing_is_made(
    visitor: Client, fields: dict[str, str], field: str, words: str
) -> None:
    make_job("taken")
    answer = visitor.post("/upload/", form(**fields), headers={"Accept": "application/json"})
    assert answer.status_code == 422
    (row,) = answer.json()["errors"]
    assert row["field"] == field
    assert words in row["detail"]
    assert words in page_text(visitor.post("/upload/", form(**fields)))
    assert Job.objects.count() == 1


def test_only_plain_digits_of_a_layout_are_numbers(visitor: Client) -> None:
    visitor.post("/upload/", form(layout="tp=² pp=2 order=tp-dp-pp"))
    assert Job.objects.get().layout == {"tp": "²", "pp": 2, "order": "tp-dp-pp"}


def test_evidence_can_be_added_to_a_job_that_is_there(visitor: Client, job: Job) -> None:
    page = page_text(visitor.get(f"/upload/?job={job.slug}"))
    assert "Add evidence to Night run" in page
    answer = visitor.post(f"/upload/?job={job.slug}", {"files": [SimpleUploadedFile("late.log", LOG)]})
    assert answer["Location"] == f"/jobs/{job.slug}/"
    assert Artifact.objects.get().attempt.job == job


def test_what_was_said_of_a_job_can_be_corrected_and_it_is_diagnosed_again(visitor: Client, job: Job) -> None:
    services.artifact_receive(job=job, path="a.log", chunks=[LOG])
    page = page_text(visitor.get(f"/jobs/{job.slug}/describe/"))
    assert 'value="Night run"' in page
    said = form(name="  Day   run ", outcome="failed", layout="tp=8 pp=2", family="seven", time_zone="Europe/Berlin")
    answer = visitor.post(f"/jobs/{job.slug}/describe/", said)
    assert answer["Location"] == f"/jobs/{job.slug}/"
    job.refresh_from_db()
    assert (job.name, job.declared_outcome, job.family) == ("Day run", "failed", "seven")
    assert (job.layout, job.time_zone) == ({"tp": 8, "pp": 2}, "Europe/Berlin")
    assert Run.objects.filter(job=job, kind="diagnose").exists()
    again = page_text(visitor.get(f"/jobs/{job.slug}/describe/"))
    assert 'value="tp=8 pp=2"' in again


def test_a_wrong_correction_is_reported_next_to_its_field_and_nothing_changes(visitor: Client, job: Job) -> None:
    answer = visitor.post(f"/jobs/{job.slug}/describe/", form(name=" ", time_zone="Mars/Olympus"))
    assert answer.status_code == 422
    assert "not a time zone" in page_text(answer)
    job.refresh_from_db()
    assert job.name == "Night run"


def test_the_team_of_a_job_is_chosen_by_who_is_in_several_and_kept_by_others(visitor: Client, engineer: Any) -> None:
    ours = [make_cluster("ours")]
    red, blue = (make_team(name, members=[engineer], clusters=ours) for name in ("red", "blue"))
    visitor.post("/upload/", form(team="red"))
    job = Job.objects.get()
    assert job.team == red
    assert "blue" in page_text(visitor.get("/upload/"))
    blue.members.remove(engineer)
    red.members.remove(engineer)
    for team in (red, blue):
        team.clusters.clear()
    visitor.post(f"/jobs/{job.slug}/describe/", form(team="red"))
    job.refresh_from_db()
    assert job.team == red
    assert visitor.post(f"/jobs/{job.slug}/describe/", form(team="blue")).status_code == 422


def test_a_viewer_may_not_upload_and_a_stranger_must_sign_in(client: Client) -> None:
    assert client.get("/upload/")["Location"].endswith("?next=/upload/")
    client.force_login(make_user("viewer", "viewer"))
    assert client.get("/upload/").status_code == 403


def test_only_clusters_that_the_person_may_see_are_offered(visitor: Client, engineer: Any) -> None:
    make_team("others", clusters=[make_cluster("hidden-cluster")])
    make_team("mine", clusters=[make_cluster("my-cluster")], members=[engineer])
    page = page_text(visitor.get("/upload/"))
    assert "my-cluster" in page
    assert "hidden-cluster" not in page


def test_progress_polls_while_work_is_left_and_stops_by_itself(
    visitor: Client, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"/ingest/progress/{job.slug}/"
    with monkeypatch.context() as patched:
        patched.setattr("ingest.broker.send", lambda *_, **__: True)
        services.artifact_receive(job=job, path="a.log", chunks=[LOG])
        page = page_text(visitor.get(url))
        assert 'hx-trigger="every' in page
        assert "0 of 1 file read" in page
    Artifact.objects.update(state="parsed")
    Run.objects.update(state="succeeded")
    Job.objects.update(diagnosing_revision=1, diagnosed_revision=1)
    last = visitor.get(url, headers={"HX-Request": "true"})
    assert "hx-trigger" not in page_text(last)
    assert last["HX-Refresh"] == "true"


def test_progress_says_why_nothing_moves(visitor: Client, job: Job) -> None:
    queued = Run.objects.create(job=job, kind="parse")
    assert selectors.progress(job).waiting == ""
    Run.objects.update(created_at=timezone.now() - timedelta(minutes=1))
    assert "queue cannot be reached" in page_text(visitor.get(f"/ingest/progress/{job.slug}/"))
    Run.objects.update(sent_at=timezone.now())
    assert "No worker" in selectors.progress(job).waiting
    Run.objects.filter(pk=queued.pk).update(state="running")
    assert selectors.progress(job).waiting == ""


def test_progress_names_each_stage_and_costs_few_queries(job: Job, django_assert_max_num_queries: Any) -> None:
    attempt = services.attempt_get(job=job)
    Upload.objects.create(job=job, attempt=attempt, path="b.log", size_bytes=100, offset_bytes=40)
    services.artifact_receive(job=job, path="a.log", chunks=[LOG])
    Run.objects.create(job=job, kind="diagnose", state="running", stage="cross_job", done=1, total=6)
    with django_assert_max_num_queries(8):
        found = selectors.progress(job)
    assert [(step.name, step.state, step.text) for step in found.steps] == [
        ("receiving", "active", "b.log"),
        ("parsing", "done", "1 of 1 file read, 200 lines"),
        ("diagnosing", "active", "cross job"),
    ]
    assert found.is_active


@pytest.mark.parametrize("how", ["selector", "API"])
def test_a_diagnosis_that_ends_while_the_job_is_read_is_not_told_as_failed(
    how: str, visitor: Client, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.artifact_receive(job=job, path="a.log", chunks=[LOG])
    run = Run.objects.create(job=job, kind="diagnose", state="running")
    Job.objects.update(diagnosing_revision=F("revision"), diagnosed_revision=0)
    job.refresh_from_db()
    progressing = importlib.import_module("ingest.selectors.progress")  # the package's name is the function's
    read = progressing._files

    def late(of: Job) -> dict[str, Any]:
        Run.objects.filter(pk=run.pk).update(state="succeeded")
        Job.objects.update(diagnosed_revision=F("revision"))
        return read(of)

    monkeypatch.setattr(progressing, "_files", late)
    if how == "selector":
        found = selectors.progress(job)
        told = {"is_active": found.is_active, "is_diagnosed": found.is_diagnosed, "at": job.diagnosed_revision}
    else:
        answer = visitor.get(f"/api/v1/jobs/{job.slug}/").json()
        told = {key: answer["progress"][key] for key in ("is_active", "is_diagnosed")}
        told["at"] = answer["diagnosed_revision"]
    assert told == {"is_active": False, "is_diagnosed": True, "at": Job.objects.get().revision}


def test_problems_are_shown_as_text_whatever_they_hold(visitor: Client, job: Job) -> None:
    services.artifact_receive(job=job, path="<script>alert(1)</script>.log", chunks=[b""])
    page = page_text(visitor.get(f"/ingest/progress/{job.slug}/"))
    assert "&lt;script&gt;" in page
    assert "<script>alert" not in page


def test_failed_work_can_be_retried_from_the_page(visitor: Client, job: Job) -> None:
    run = Run.objects.create(job=job, kind="parse", state="failed", error="The worker died.")
    page = page_text(visitor.get(f"/ingest/progress/{job.slug}/"))
    assert "The worker died." in page
    assert visitor.post(f"/ingest/runs/{run.pk}/retry/").status_code == 302
    run.refresh_from_db()
    assert run.state == "succeeded"


def test_a_stranger_sees_neither_progress_nor_retry(visitor: Client) -> None:
    cluster = make_cluster("closed")
    make_team("others", clusters=[cluster])
    hidden = make_job("hidden", cluster=cluster)
    run = Run.objects.create(job=hidden, kind="parse", state="failed")
    assert visitor.get("/ingest/progress/hidden/").status_code == 404
    assert visitor.post(f"/ingest/runs/{run.pk}/retry/").status_code == 404


def test_a_token_is_shown_once_and_can_be_revoked_by_its_owner_alone(visitor: Client) -> None:
    made = page_text(visitor.post("/account/tokens/", {"name": "epilog", "scopes": ["upload"]}))
    assert "fl_" in made
    token = Token.objects.get()
    assert token.digest not in page_text(visitor.get("/account/tokens/"))
    other = Client()
    other.force_login(make_user("other", "engineer"))
    assert other.post("/account/tokens/", {"revoke": token.pk}).status_code == 404
    visitor.post("/account/tokens/", {"revoke": token.pk})
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert visitor.post("/account/tokens/", {"name": "x", "scopes": ["everything"]}).status_code == 422


def test_whoever_makes_a_token_reads_what_each_scope_allows(visitor: Client) -> None:
    page = page_text(visitor.get("/account/tokens/"))
    assert "<b>Upload</b>: send evidence. <b>Read</b>: read jobs, incidents and logs." in page
    assert "Administer" not in page, "an engineer has no use for it"
