"""Managers move jobs to other clusters: what follows, what is recorded, and the way back."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from ingest.models import Job
from tests.factories import api_of, make_attempt, make_cluster, make_job, make_team, make_user
from tests.pages import page_text
from tests.triage.report import sample
from triage.models import Activity, Incident
from triage.services.diagnosing import diagnosis_store
from triage.services.reviewing import decision_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def lead() -> Any:
    """A manager of a team with two clusters of different machines."""
    user = make_user("lena", "manager")
    make_team(
        "llm", members=[user], clusters=[make_cluster("h100", gpus_per_node=8), make_cluster("a100", gpus_per_node=4)]
    )
    return user


@pytest.fixture
def job(lead: Any) -> Job:
    attempt = make_attempt(make_job("h100--night", cluster=make_cluster("h100")))
    diagnosis_store(attempt=attempt, revision=1, report=sample())
    decision_make(incident=attempt.incidents.get(), claim="category", word="confirm", by=lead)
    return attempt.job


def moved(api: Any, cluster: str) -> Any:
    return api.post("/api/v1/jobs/h100--night/move/", {"cluster": cluster})


def test_incidents_nodes_and_costs_follow_a_moved_job_and_decisions_stay(lead, job):
    before = Incident.objects.get()
    answer = moved(api_of(lead, "review"), "a100")
    assert (answer.status_code, answer.json()["slug"], answer.json()["cluster"]) == (200, "a100--night", "a100")
    after = Incident.objects.get()
    assert (after.pk, after.cluster.slug, after.state) == (before.pk, "a100", "confirmed")
    assert after.gpu_hours == before.gpu_hours / 2
    assert {row.node.cluster.slug for row in after.suspects.all() if row.node} == {"a100"}
    act = Activity.objects.get(kind="moved")
    assert (act.actor, act.data["before"], act.data["after"]) == (lead, "h100", "a100")


@pytest.mark.parametrize(
    ("role", "in_team", "status"), [("engineer", True, 403), ("manager", False, 404), ("admin", False, 200)]
)
def test_only_managers_of_both_clusters_move_a_job(job, role, in_team, status):
    user = make_user("other", role)
    if in_team:
        job.cluster.teams.get().members.add(user)
    assert moved(api_of(user, "review"), "a100").status_code == status


def test_a_cluster_that_the_manager_does_not_see_takes_no_job(lead, job):
    make_team("far", clusters=[make_cluster("secret")])
    answer = moved(api_of(lead, "review"), "secret")
    assert answer.status_code == 422
    assert "name one of a100, h100" in answer.json()["detail"]


def test_an_id_in_use_in_the_other_cluster_stays_with_its_job(lead, job):
    make_job("a100--night", cluster=make_cluster("a100"))
    assert moved(api_of(lead, "review"), "a100").status_code == 409
    job.refresh_from_db()
    assert job.cluster.slug == "h100"


def test_a_manager_moves_a_job_on_its_page_and_takes_it_back(client, lead, job):
    client.force_login(lead)
    assert "Move to cluster" in page_text(client.get(reverse("job", args=["h100--night"])))
    page = client.post(reverse("job-move", args=["h100--night"]), {"cluster": "a100"}, follow=True)
    assert "The job is in a100 now" in page_text(page)
    act = Activity.objects.get(kind="moved")
    assert f"/undo/{act.request_id}/" in page_text(page)
    page = client.post(reverse("undo", args=[act.request_id]), follow=True)
    assert "the job is in h100 again" in page_text(page)
    job.refresh_from_db()
    assert (job.slug, job.cluster.slug) == ("h100--night", "h100")
    assert Activity.objects.filter(kind="moved", data__undoes=str(act.request_id)).exists()
    assert "nothing to undo" in page_text(client.post(reverse("undo", args=[act.request_id]), follow=True))


def test_links_to_the_former_id_lead_to_the_job_for_whoever_sees_it(client, lead, job):
    moved(api_of(lead, "review"), "a100")
    client.force_login(lead)
    answer = client.get("/jobs/h100--night/logs/0/a.log?line=7")
    assert (answer.status_code, answer["Location"]) == (302, "/jobs/a100--night/logs/0/a.log?line=7")
    answer = api_of(lead, "read").get("/api/v1/jobs/h100--night/")
    assert (answer.status_code, answer["Location"]) == (302, "/api/v1/jobs/a100--night/")
    assert client.post("/jobs/h100--night/move/", {"cluster": "h100"}).status_code == 404
    client.force_login(make_user("stranger", "manager"))
    assert client.get("/jobs/h100--night/").status_code == 404


def test_the_former_id_belongs_to_a_job_that_takes_it(client, lead, job):
    moved(api_of(lead, "review"), "a100")
    make_job("h100--night", name="Another", cluster=make_cluster("h100"))
    client.force_login(lead)
    assert "Another" in page_text(client.get("/jobs/h100--night/"))
    assert client.get("/jobs/h100--night/logs/0/a.log").status_code == 404, "the log of another job is none of its"
