"""The answer for programs: the job carries its verdict and its incident, and a request may wait for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from typing import Any

import pytest

from ingest import services
from ingest.models import Run
from ingest.selectors import busy_jobs
from scripts.openapi import SCHEMA
from tests import yamls
from tests.factories import api_of, make_attempt, make_job, make_user
from tests.ingest.conftest import LOG
from tests.patience import PATIENCE_S
from tests.triage.report import healthy, sample
from triage.places import version
from triage.server import verdict_wait
from triage.server.verdict_wait import Waiting
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> Any:
    return api_of(make_user("ada", "engineer"), "upload", "read")


def diagnosed(report: dict[str, Any]) -> Any:
    attempt = make_attempt(make_job("night", revision=1))
    diagnosis_store(attempt=attempt, revision=1, report=report)
    return attempt


def test_a_job_carries_its_verdict_and_the_address_of_its_incident(api, django_assert_max_num_queries):
    attempt = diagnosed(sample())
    with django_assert_max_num_queries(17):
        answer = api.get("/api/v1/jobs/night/").json()
    verdict, incident = answer["verdict"], attempt.incidents.get()
    assert (verdict["category"], verdict["confidence"], verdict["revision"]) == ("hardware.gpu.off_bus", 0.93, 1)
    assert verdict["sentence"] == "GPU 5 of gpu-0412 fell off the bus at iteration 18,204."
    assert verdict["suspects"] == [{"name": "gpu-0412", "kind": "node", "probability": 0.97}]
    assert (answer["incident"]["number"], answer["incident"]["url"]) == (incident.pk, f"/incidents/{incident.pk}/")


def test_a_healthy_job_has_a_verdict_and_no_incident_and_a_new_one_has_neither(api):
    diagnosed(healthy())
    answer = api.get("/api/v1/jobs/night/").json()
    assert (answer["verdict"]["sentence"], answer["incident"]) == ("The job completed; no failure found.", None)
    make_job("new")
    assert [api.get("/api/v1/jobs/new/").json()[name] for name in ("verdict", "incident")] == [None, None]


def test_diagnose_names_the_run_and_the_revision_that_it_reads(api):
    job = services.job_create(name="night", user=None)
    services.artifact_receive(job=job, path="a.log", chunks=[LOG])
    Run.objects.all().delete()
    job.attempts.get().artifacts.update(state="parsed")
    answer = api.post("/api/v1/jobs/night/diagnose/").json()
    job.refresh_from_db()
    assert answer["revision"] == job.revision
    assert answer["run"] == Run.objects.get(kind="diagnose").pk


@pytest.mark.parametrize("wait", ["51", "-1", "x", "1.5"])
def test_a_wait_beyond_the_limit_or_no_number_is_refused(api, wait):
    make_job("night")
    assert api.get(f"/api/v1/jobs/night/?wait={wait}").status_code == 422


def test_a_job_is_busy_while_its_evidence_is_read_and_not_while_its_files_grow(django_assert_num_queries):
    jobs = {name: make_job(name) for name in ("idle", "running", "growing", "arriving")}
    Run.objects.create(job=jobs["running"], kind=Run.Kind.PARSE, state=Run.State.QUEUED)
    for name, size in (("growing", None), ("arriving", 5)):
        jobs[name].uploads.create(attempt=make_attempt(jobs[name]), path="a.log", size_bytes=size)
    with django_assert_num_queries(1):
        busy = busy_jobs([job.pk for job in jobs.values()])
    assert busy == {jobs["running"].pk, jobs["arriving"].pk}


async def silent() -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


def test_all_who_wait_share_one_look_and_hold_no_thread(monkeypatch):
    monkeypatch.setattr(verdict_wait, "EVERY_S", 0)
    looks: list[list[int]] = []

    async def busy_of(jobs: Collection[int]) -> set[int]:
        looks.append(sorted(jobs))
        return {1, 2} if len(looks) < 2 else set()

    async def wait() -> None:
        waits = Waiting(busy_of)
        people = [waits.until_diagnosed(job, "ada", PATIENCE_S, silent) for job in (1, 2) for _ in range(20)]
        await asyncio.wait_for(asyncio.gather(*people), PATIENCE_S)
        assert not waits._ends

    asyncio.run(wait())
    assert looks[:2] == [[1, 2], [1, 2]]
    assert len(looks) < 10, "forty who wait do not ask forty times"


def test_who_leaves_or_is_one_too_many_waits_no_longer(monkeypatch):
    monkeypatch.setattr(verdict_wait, "MAX_WAITING_A_PERSON", 1)

    async def busy_of(jobs: Collection[int]) -> Collection[int]:
        return jobs

    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def wait() -> None:
        waits = Waiting(busy_of)
        await waits.until_diagnosed(1, "ada", PATIENCE_S, gone)
        first = asyncio.create_task(waits.until_diagnosed(1, "ada", PATIENCE_S, silent))
        await asyncio.sleep(0)
        await waits.until_diagnosed(1, "ada", PATIENCE_S, silent)
        assert not first.done()
        first.cancel()

    asyncio.run(asyncio.wait_for(wait(), PATIENCE_S))


def test_the_description_of_the_api_names_its_version_and_where_it_is_served():
    schema = yamls.read(SCHEMA.read_text())
    assert schema["info"]["version"] == version()
    assert schema["servers"][0]["url"] == "/"
    assert json.dumps(schema["paths"]["/api/v1/jobs/{slug}/"]["get"]["parameters"]).count('"wait"') == 1
