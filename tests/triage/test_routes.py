"""Routes: signed messages to a real receiver, tried again, never where they must not go."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from ingest.models import Artifact, Blob
from ingest.refusals import Refused
from ingest.signals import artifact_ready, run_failed, swept, tidied
from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user
from tests.patience import wait_for
from tests.triage.receiver import verify
from tests.triage.report import healthy, sample
from triage.models import Activity, Decision, Delivery, Route
from triage.services import outbox, reviewing, reviewing_many, routes
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def allowed(settings):
    settings.ROUTES_ALLOW = ["127.0.0.0/8"]


def told(receiver):
    return [json.loads(body)["type"] for body in receiver.bodies()]


def due_now():
    Delivery.objects.filter(state="waiting").update(due_at=timezone.now())
    Route.objects.update(resume_at=None, claimed_until=None)
    swept.send(sender=None)


def test_an_opened_incident_is_reported_with_a_signature_that_the_receiver_can_check(route, receiver):
    diagnosis_store(attempt=make_attempt(make_job("night-run")), revision=1, report=sample())
    assert told(receiver) == ["job.diagnosed", "incident.opened"]
    path, headers, body = receiver.got[1]
    said = json.loads(body)
    assert path == "/hook"
    assert said["data"]["incident"]["category"] == "hardware.gpu.off_bus"
    assert said["data"]["job"]["slug"] == "night-run"
    assert said["data"]["incident"]["url"].endswith(f"/incidents/{said['data']['incident']['number']}/")
    assert verify(route.opened("secret"), headers, body)
    assert not verify(route.opened("secret"), headers, body + b" ")
    assert not verify("whsec_" + "A" * 44, headers, body)
    assert Delivery.objects.filter(state="delivered").count() == 2


def test_each_word_of_a_person_is_reported_with_what_it_changed(route, receiver):
    incident, ada = make_incident(), make_user("ada", "engineer")
    made = reviewing.decision_make(
        incident=incident, claim="category", word="correct", value="hardware.gpu.ecc", by=ada, reason="cable"
    )
    reviewing.incident_assign(incident=incident, assignee=ada, by=ada)
    reviewing.incident_act(incident=incident, act="resolved", by=ada)
    reviewing.comment_add(incident=incident, body="between us", by=ada)
    reviewing.decision_undo(decision=made, by=ada)
    assert told(receiver) == ["incident.decided", "incident.assigned", "incident.moved", "incident.undone"]
    said = json.loads(receiver.bodies()[0])["data"]
    assert said["incident"]["state"] == "corrected"
    assert said["incident"]["standing_category"] == "hardware.gpu.ecc"
    assert (said["act"]["by"], said["act"]["word"], said["act"]["reason"]) == ("ada", "correct", "cable")
    assert not any(b"between us" in body for body in receiver.bodies())


def test_an_opened_incident_is_reported_with_what_to_do(route, receiver):
    diagnosis_store(attempt=make_attempt(), revision=1, report=sample())
    bodies = [json.loads(body) for body in receiver.bodies()]
    said = next(body["data"]["incident"] for body in bodies if body["type"] == "incident.opened")
    assert said["advice"] == {"action": "evict", "title": "Evict", "targets": ["gpu-0412"]}


def test_a_bulk_act_is_reported_each_incident(route, receiver):
    rows, ada = [make_incident() for _ in range(3)], make_user("ada", "engineer")
    reviewing_many.incidents_decide(incidents=rows, word="confirm", by=ada)
    assert told(receiver) == ["incident.decided"] * 3
    said = [json.loads(body)["data"]["incident"] for body in receiver.bodies()]
    assert {row["number"] for row in said} == {row.pk for row in rows}
    assert {row["state"] for row in said} == {"confirmed"}


def test_a_failure_that_comes_back_is_reported_as_a_regression_and_one_that_goes_as_withdrawn(route, receiver):
    ada, attempt = make_user("ada", "engineer"), make_attempt()
    diagnosis_store(attempt=attempt, revision=1, report=sample())
    old = attempt.incidents.get()
    reviewing.decision_make(incident=old, claim="category", word="confirm", by=ada)
    reviewing.incident_act(incident=old, act="resolved", by=ada)
    receiver.got.clear()
    again = make_attempt(make_job("again"))
    diagnosis_store(attempt=again, revision=1, report=sample())
    assert sorted(told(receiver)) == ["incident.opened", "incident.regressed", "job.diagnosed"]
    regressed = next(json.loads(b) for b in receiver.bodies() if b"incident.regressed" in b)
    assert regressed["data"]["regressed_from"] == old.pk
    receiver.got.clear()
    diagnosis_store(attempt=again, revision=2, report=healthy())
    assert sorted(told(receiver)) == ["incident.withdrawn", "job.diagnosed"]


def test_evidence_that_cannot_be_read_is_reported_once_and_diagnoses_given_up_too(route, receiver):
    job = make_job("odd")
    blob = Blob.objects.create(sha256="0" * 64, size_bytes=3)
    Artifact.objects.create(attempt=make_attempt(job), path="a.jpg", blob=blob, state="skipped", problem="An image.")
    run = job.runs.create(kind="diagnose", state="failed", error="It broke.", parameters={"revision": 1})
    for _ in range(2):
        artifact_ready.send(sender=None, job_id=job.pk, revision=1, run_id=run.pk)
        run_failed.send(sender=None, run_id=run.pk)
    assert told(receiver) == ["job.failed_to_parse", "job.failed_to_diagnose"]
    said = json.loads(receiver.bodies()[0])["data"]
    assert said["problems"] == [{"path": "a.jpg", "problem": "An image."}]


def test_only_wanted_events_of_the_wanted_cluster_are_reported(manager, receiver):
    here, there = make_cluster("here"), make_cluster("there")
    routes.route_save(by=manager, name="x", url=receiver.url, events=["incident.opened"], query="cluster:here")
    for cluster in (here, there):
        diagnosis_store(attempt=make_attempt(make_job(cluster=cluster)), revision=1, report=sample())
    assert told(receiver) == ["incident.opened"]
    assert json.loads(receiver.bodies()[0])["data"]["job"]["cluster"] == "here"


def test_nothing_is_reported_clusters_that_the_owner_does_not_see(route, receiver):
    closed = make_cluster("closed")
    make_team("others", clusters=[closed])
    diagnosis_store(attempt=make_attempt(make_job(cluster=closed)), revision=1, report=sample())
    assert not Delivery.objects.exists()


def test_a_message_that_waits_is_not_sent_once_its_owner_may_not_see_it(route, receiver, manager):
    receiver.answers = [(500, {}, b"")]
    incident = make_incident()
    reviewing.comment_add(incident=incident, body="x", by=manager)
    reviewing.incident_assign(incident=incident, assignee=manager, by=manager)
    assert len(receiver.got) == 1
    make_team("others", clusters=[incident.cluster])
    due_now()
    assert len(receiver.got) == 1
    delivery = Delivery.objects.get()
    assert delivery.state == "given_up"
    assert "has no access to this" in delivery.attempts[-1]["error"]


@pytest.mark.parametrize(
    ("change", "field"),
    [({"name": " "}, "name"), ({"events": []}, "events"), ({"events": ["rain"]}, "events"), ({"url": "x"}, "url")],
)
def test_a_route_that_makes_no_sense_is_refused_by_its_field(manager, receiver, change, field):
    wanted = {"name": "x", "url": receiver.url, "events": ["incident.opened"], **change}
    with pytest.raises(Refused) as refusal:
        routes.route_save(by=manager, **wanted)
    assert list(refusal.value.fields) == [field]
    assert not Route.objects.exists()


def test_what_is_done_with_a_month_ago_is_forgotten(route, receiver):
    outbox.ping(route=route)
    receiver.answers = [(500, {}, b"")]
    outbox.ping(route=route)
    Delivery.objects.update(created_at=timezone.now() - timedelta(days=31))
    tidied.send(sender=None)
    assert [one.state for one in Delivery.objects.all()] == ["waiting"], "what is not done with stays"


def test_nobody_listening_costs_one_query_and_a_comment_none(django_assert_num_queries, manager):
    incident = make_incident()
    with django_assert_num_queries(2):
        Activity.objects.create(incident=incident, job=incident.job, kind="decided", actor=manager)
    with django_assert_num_queries(1):
        Activity.objects.create(incident=incident, job=incident.job, kind="commented", actor=manager)


@pytest.mark.broker
def test_a_real_worker_delivers_and_tries_again(start_worker, receiver, manager):
    receiver.answers = [(500, {}, b""), (200, {}, b"")]
    start_worker(FAULTLINE_ROUTES_ALLOW="127.0.0.1")
    route = routes.route_save(by=manager, name="chat", url=receiver.url, events=["incident.decided"])
    reviewing.decision_make(incident=make_incident(), claim=Decision.Claim.CATEGORY, word="confirm", by=manager)
    wait_for(route.deliveries.filter(state="delivered").exists, lambda: list(route.deliveries.values()))
    assert [row["status"] for row in route.deliveries.get().attempts] == [500, 200]
    assert all(verify(route.opened("secret"), headers, body) for _, headers, body in receiver.got)
