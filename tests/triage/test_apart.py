"""Teams do not touch each other's diagnosis, and learn nothing of each other: by what they upload, say, save or ask."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from ingest import selectors, services
from ingest.models import Cluster, HistoryEntry, Job
from ingest.services import token_create
from ingest.services.history import history_for, history_learn
from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user, work_on
from tests.pages import page_text
from tests.triage.report import sample
from triage.models import Incident, SavedView
from triage.services import grouping, reviewing, reviewing_many, saved_views
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db
STEPS = b"".join(b"2026-11-21 03:%02d:00,000 INFO iteration %d loss 2.5\n" % (i % 60, i) for i in range(60))
FAULT = b"2026-11-21 04:00:01,000 ERROR quantum flux inverter lost its lock on lane 7\n"


@pytest.fixture
def people() -> dict[str, Any]:
    """Red has a cluster of its own, blue another; both also see the one that is open to all."""
    red, mate, blue = (make_user(name, "engineer") for name in ("red-ada", "red-max", "blue-eve"))
    make_team("red", members=[red, mate], clusters=[make_cluster("private")])
    make_team("blue", members=[blue], clusters=[make_cluster("other")])
    return {"red": red, "mate": mate, "blue": blue, "admin": make_user("root", "admin")}


def healthy(name: str, cluster: str, tmp_path: Any, *, log: bytes = STEPS, **fields: Any) -> Job:
    job = services.job_create(name=name, cluster=cluster, family="llama", **fields)
    services.artifact_receive(job=job, path="a.log", chunks=[log])
    history_learn(work_on(job), job, selectors.parsed_for(job.attempts.get(), tmp_path))
    return job


@pytest.mark.django_db(transaction=True)
def test_healthy_jobs_of_another_cluster_silence_nothing(people, tmp_path):
    for n in range(4):
        healthy(f"theirs {n}", "other", tmp_path, found_outcome="succeeded")
    mine = services.job_create(name="mine", cluster="private", family="llama")
    assert HistoryEntry.objects.count() == 4
    assert history_for(mine).jobs == ()
    healthy("mine too", "private", tmp_path, found_outcome="succeeded")
    assert [job.job_id for job in history_for(mine).jobs] == ["private--mine-too"]


@pytest.mark.django_db(transaction=True)
def test_clusters_are_compared_only_where_an_administrator_lets_both_share(people, tmp_path):
    healthy("theirs", "other", tmp_path, found_outcome="succeeded")
    mine = services.job_create(name="mine", cluster="private", family="llama")
    Cluster.objects.filter(slug="private").update(shares_history=True)
    assert history_for(Job.objects.get(pk=mine.pk)).jobs == ()
    Cluster.objects.filter(slug="other").update(shares_history=True)
    assert len(history_for(Job.objects.get(pk=mine.pk)).jobs) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("said", "seen", "log", "is_learnt"),
    [
        ("succeeded", "unknown", STEPS, True),
        ("succeeded", "unknown", STEPS + FAULT, False),
        ("succeeded", "running", STEPS + FAULT, False),
        ("succeeded", "failed", STEPS, False),
        ("succeeded", "succeeded", STEPS + FAULT, True),
        ("unknown", "succeeded", STEPS + FAULT, True),
        ("failed", "succeeded", STEPS, False),
        ("unknown", "unknown", STEPS, False),
    ],
)
def test_a_word_alone_makes_no_job_healthy_whose_log_has_an_unexplained_error(said, seen, log, is_learnt, tmp_path):
    healthy("a job", "default", tmp_path, log=log, declared_outcome=said, found_outcome=seen)
    assert HistoryEntry.objects.exists() is is_learnt


def test_the_id_of_a_strangers_job_is_as_free_as_any_other(client, people):
    services.job_create(name="Night run", cluster="private", user=people["red"])
    _, secret = token_create(user=people["blue"], name="t", scopes=["upload", "read"])
    for name in ("Night run", "Free run"):
        for slug in ("", "night-run" if name == "Night run" else "free-run"):
            sent = {"name": name, **({"slug": slug} if slug else {}), "cluster": "other"}
            answer = client.post(
                "/api/v1/jobs/", sent, content_type="application/json", headers={"Authorization": f"Bearer {secret}"}
            )
            again = f"other--{name.lower().replace(' ', '-')}"
            assert (answer.status_code, answer.json().get("slug")) == ((201, again) if not slug else (409, None))
    made = services.job_create(name="Night run", user=people["blue"])
    assert made.slug == "other--night-run-2"
    open_job = services.job_create(name="Night run", user=people["blue"], cluster="default", slug="nightly")
    assert open_job.slug == "nightly"


def test_nobody_takes_an_id_that_looks_like_one_of_a_cluster(people):
    with pytest.raises(services.Refused, match="separates the cluster"):
        services.job_create(name="x", slug="private--night-run", cluster="default", user=people["blue"])
    kept = services.job_create(name="x", slug="private--night-run", cluster="private")
    assert kept.slug == "private--night-run"


def test_nobody_uploads_into_a_default_cluster_that_belongs_to_others(client, people):
    make_team("green", clusters=[make_cluster("default")])
    client.force_login(make_user("lone", "engineer"))
    page = client.post("/upload/", {"name": "x", "outcome": "unknown"})
    assert page.status_code == 422 and "The default cluster belongs to other teams" in page_text(page)
    assert client.post("/api/v1/jobs/", {"name": "x"}, content_type="application/json").status_code == 422
    assert not Job.objects.exists()


def test_a_shared_search_is_shared_with_team_mates(people):
    saved_views.saved_view_create(name="Flux", query='"quantum flux"', by=people["red"], is_shared=True)
    assert [v.name for v in views(people["mate"])] == ["Flux"]
    assert views(people["blue"]) == [] and len(views(people["admin"])) == 1
    lone = make_user("lone", "engineer")
    assert views(lone) == []
    saved_views.saved_view_create(name="Of all", query="is:open", by=people["admin"], is_shared=True)
    assert [v.name for v in views(people["blue"])] == [v.name for v in views(lone)] == ["Of all"]


def test_the_address_of_a_search_does_not_tell_of_a_strangers(people):
    saved_views.saved_view_create(name="Flux", query="is:open", by=people["red"])
    assert saved_views.saved_view_create(name="Flux", query="is:mine", by=people["blue"]).slug == "flux"
    assert saved_views.saved_view_create(name="Flux!", query="is:mine", by=people["blue"]).slug == "flux-2"
    assert SavedView.objects.filter(slug="flux").count() == 2


def views(user: Any) -> list[SavedView]:
    from triage.selectors.saved_views import saved_views

    return saved_views(user)


def test_an_incident_is_assigned_only_to_somebody_who_may_see_it(client, people):
    incident = make_incident(make_job("secret", cluster=make_cluster("private")))
    client.force_login(people["red"])
    said = {}
    for name in ("blue-eve", "nobody-at-all", "red-max"):
        client.post(reverse("assign", args=[incident.pk]), {"assignee": name})
        page = page_text(client.get(reverse("incident", args=[incident.pk])))
        incident.refresh_from_db()
        said[name] = ("may see this" in page, incident.assignee and incident.assignee.username)
    assert said == {"blue-eve": (True, None), "nobody-at-all": (True, None), "red-max": (False, "red-max")}


def test_those_who_may_see_and_review_an_incident_are_offered_to_hand_it_over(client, people):
    incident = make_incident(make_job("secret", cluster=make_cluster("private")))
    client.force_login(people["red"])
    choice = page_text(client.get(reverse("incident-assignees", args=[incident.pk])))
    assert 'name="assignee" value="red-max"' in choice and "blue-eve" not in choice


def test_many_incidents_are_offered_and_given_to_people_who_may_see_all_of_them(client, people):
    numbers = [make_incident(make_job(cluster=make_cluster(slug))).pk for slug in ("private", "default")]
    client.force_login(people["red"])
    page = page_text(client.post(reverse("bulk"), {"act": "assign", "id": numbers, "ask": "1"}))
    assert "<option>red-max</option>" in page and "blue-eve" not in page
    with pytest.raises(reviewing.ReviewError, match="may see this"):
        reviewing_many.incidents_assign(
            incidents=Incident.objects.filter(pk__in=numbers), assignee=people["blue"], by=people["red"]
        )
    assert not Incident.objects.exclude(assignee=None).exists()


def test_a_word_on_groups_holds_in_its_own_cluster(people):
    def store(cluster: str) -> Incident:
        attempt = make_attempt(make_job(cluster=make_cluster(cluster)))
        diagnosis_store(attempt=attempt, revision=1, report=sample())
        return attempt.incidents.get()

    theirs = [store("other"), store("other")]
    grouping.incidents_merge(incidents=theirs, by=people["blue"])
    assert store("private").group is None
    assert store("other").group is not None


def test_merging_takes_in_nothing_that_one_may_not_see(people):
    hidden, seen, mine = (
        make_incident(make_job(cluster=make_cluster(slug))) for slug in ("private", "default", "other")
    )
    before = grouping.incidents_merge(incidents=[hidden, seen], by=people["red"])
    made = grouping.incidents_merge(incidents=[seen, mine], by=people["blue"])
    hidden.refresh_from_db()
    assert hidden.group == before
    assert set(made.incidents.all()) == {seen, mine}
