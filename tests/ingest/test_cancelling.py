"""A person cancels work: its worker ends, nothing of it is written, and it can be started again."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from ingest import services
from ingest.models import Artifact, Blob, Job, Run
from ingest.services import runs
from ingest.services.work import Superseded, Work
from tests.factories import make_attempt, make_user
from tests.pages import page_text
from triage.models import Activity

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Any:
    return make_user("ada", "engineer", first_name="Ada", last_name="Lovelace")


def running(job: Job, kind: str = "parse") -> Run:
    run = Run.objects.create(job=job, kind=kind)
    claimed = runs.run_claim(run.pk)
    assert claimed is not None
    return claimed


def test_a_cancelled_run_says_who_did_it_and_its_worker_writes_nothing_more(job: Job, ada: Any) -> None:
    run = running(job)
    assert services.run_cancel(run=run, user=ada)
    with pytest.raises(Superseded):
        Work(run).check()
    runs.run_succeed(run)
    runs.run_fail(run, "Too late.")
    run.refresh_from_db()
    assert (run.state, run.error) == ("cancelled", "Ada Lovelace cancelled this before it was done.")
    act = Activity.objects.get(kind="run_cancelled")
    assert (act.actor, act.job_id, act.data["run"]) == (ada, job.pk, run.pk)
    assert not services.run_cancel(run=run, user=ada)


def test_its_files_say_why_they_were_not_read_until_it_is_started_again(
    job: Job, ada: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = running(job)
    blob = Blob.objects.create(sha256="0" * 64, size_bytes=1)
    files = Artifact.objects
    artifact = files.create(attempt=make_attempt(job), path="a.log", blob=blob, run=run, state=Artifact.State.PARSING)
    services.run_cancel(run=run, user=ada)
    artifact.refresh_from_db()
    assert artifact.state == "failed"
    assert "Start it again" in artifact.problem
    monkeypatch.setattr(runs, "run_enqueue", lambda run: None)
    assert services.runs_resume(job=job) == 1
    artifact.refresh_from_db()
    again = Run.objects.get(pk=run.pk)
    assert (artifact.state, again.state, again.own_tries) == ("received", "queued", 0)


def test_a_worker_that_held_a_cancelled_run_holds_nothing_when_it_is_started_again(
    job: Job, ada: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "run_enqueue", lambda run: None)
    late = running(job)
    services.run_cancel(run=late, user=ada)
    services.runs_resume(job=job)
    again = runs.run_claim(late.pk)
    assert again is not None
    runs.run_succeed(late)
    assert Run.objects.get(pk=late.pk).state == "running"
    assert not Work(late).is_held()
    assert Work(again).is_held()


def test_parts_of_a_cancelled_diagnosis_go_with_it(job: Job, ada: Any) -> None:
    run = running(job, "diagnose")
    part = Run.objects.create(job=job, kind="part", parameters={"of": run.pk, "try": 1})
    assert not services.run_cancel(run=part, user=ada)
    assert services.runs_cancel(job=job, user=ada) == 1
    assert not Run.objects.filter(pk=part.pk).exists()


def test_work_on_a_deleted_job_ends_quietly(job: Job, ada: Any) -> None:
    run = Run.objects.create(job=job, kind="parse")

    def deleted_meanwhile(work: Work) -> None:
        job.delete()
        Job.objects.get(pk=work.run.job_id)

    services.run_do(run.pk, deleted_meanwhile)
    assert not Run.objects.exists()


def test_the_page_offers_to_cancel_and_to_start_again(client: Client, job: Job, ada: Any) -> None:
    client.force_login(ada)
    running(job)
    progress = f"/ingest/progress/{job.slug}/"
    assert "Cancel this work" in page_text(client.get(progress))
    assert client.post(f"/ingest/runs/{job.slug}/cancel/").status_code == 302
    page = page_text(client.get(progress))
    assert "Ada Lovelace cancelled this" in page
    assert "Start again" in page
    assert "Cancel this work" not in page
    assert client.post(f"/ingest/runs/{job.slug}/resume/").status_code == 302
    assert not Run.objects.filter(state="cancelled").exists()
    client.force_login(make_user("only-reads", "viewer"))
    assert client.post(f"/ingest/runs/{job.slug}/cancel/").status_code == 403
