"""What restart controllers are told: stop, restart without machines, go on, or nothing yet."""

from __future__ import annotations

import pytest

from ingest.models import Job, Run, Upload
from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user
from tests.triage.report import sample
from tests.triage.test_api import api
from triage.domain.restart import recommendation
from triage.services.diagnosing import diagnosis_store


def told(rule: str, confidence: float = 0.95, **more):
    return recommendation({"rule": rule, "targets": ["gpu-7"], "because": ["Why."]}, confidence=confidence, **more)


def test_a_broken_machine_means_a_restart_without_it():
    assert (told("evict.machine_event").action, told("evict.machine_event").exclude_nodes) == ("RESTART", ("gpu-7",))


def test_a_wrong_argument_stops_the_job_only_if_that_is_certain():
    assert told("fix.input").action == "STOP"
    assert told("fix.input", 0.6).action == "UNKNOWN"
    assert told("fix.input").exclude_nodes == ()


def test_an_exception_in_code_stops_the_job_when_it_comes_again():
    first, again = told("rollback.user_exception"), told("rollback.user_exception", is_repeated=True)
    assert (first.action, again.action) == ("RESTART", "STOP")
    assert "Once is tolerated" in first.reason and "the same way before" in again.reason


def test_a_job_without_a_failure_continues():
    assert recommendation({}, confidence=0.0).action == "CONTINUE"
    assert told("inspect.slow").action == "CONTINUE"


def test_what_a_person_judged_otherwise_is_not_repeated():
    assert told("fix.input", is_judged_otherwise=True).action == "UNKNOWN"


@pytest.mark.parametrize("advice", [{"rule": "gone.by"}, {"rule": "ask.human"}, {"targets": ["a"]}])
def test_an_advice_that_means_nothing_to_a_controller_is_unknown(advice):
    assert recommendation(advice, confidence=1.0).action == "UNKNOWN"


def test_a_name_that_is_no_host_name_is_never_excluded():
    advice = {"rule": "evict.machine_event", "targets": ["gpu-1", "$(reboot)", "a b"], "because": []}
    assert recommendation(advice, confidence=0.9).exclude_nodes == ("gpu-1",)


pytestmark = pytest.mark.django_db


@pytest.fixture
def ada():
    return make_user("ada", "engineer")


def asked(user, slug, number=0):
    return api(user, "read").get(f"/api/v1/jobs/{slug}/attempts/{number}/restart/")


@pytest.fixture
def job():
    job = make_job("night", revision=1, diagnosing_revision=1, diagnosed_revision=1)
    diagnosis_store(attempt=make_attempt(job), revision=1, report=sample())
    return job


def test_the_api_answers_with_machines_and_the_page(ada, job):
    answer = asked(ada, "night").json()
    assert (answer["status"], answer["action"], answer["exclude_nodes"]) == ("completed", "RESTART", ["gpu-0412"])
    assert answer["category"] == "hardware.gpu.off_bus" and answer["url"] == f"/incidents/{answer['incident']}/"


def test_nothing_is_decided_while_evidence_is_coming_or_read(ada, job):
    assert asked(ada, "night", 1).json()["status"] == "pending"
    upload = Upload.objects.create(job=job, attempt=make_attempt(job), path="a.log", state=Upload.State.RECEIVING)
    assert asked(ada, "night").json()["status"] == "in_flight"
    upload.delete()
    Job.objects.update(revision=2)
    assert asked(ada, "night").json()["status"] == "in_flight"
    assert asked(ada, "night").json()["action"] == "UNKNOWN"
    Job.objects.update(diagnosing_revision=2)
    Run.objects.create(job=job, kind=Run.Kind.DIAGNOSE, state=Run.State.FAILED)
    answer = asked(ada, "night").json()
    assert (answer["status"], answer["action"]) == ("completed", "UNKNOWN")


def test_a_growing_log_of_the_next_attempt_holds_up_no_answer(ada, job):
    Upload.objects.create(job=job, attempt=make_attempt(job, number=1), path="b.log", state=Upload.State.RECEIVING)
    assert asked(ada, "night").json()["status"] == "completed"


def test_the_same_failure_in_two_attempts_stops_the_job(ada):
    job = make_job("loop", revision=2, diagnosing_revision=2, diagnosed_revision=2)
    report = {"advice": {"rule": "rollback.user_exception", "because": ["A KeyError."], "targets": []}}
    for number, action in ((0, "RESTART"), (1, "STOP")):
        attempt = make_attempt(job, number=number)
        make_incident(attempt=attempt, category="user.exception", confidence=0.9, report=report)
        assert asked(ada, "loop", number).json()["action"] == action


def test_a_rejected_verdict_decides_nothing(ada, job):
    incident = job.incidents.get()
    incident.state = "rejected"
    incident.save()
    assert asked(ada, "night").json()["action"] == "UNKNOWN"


def test_another_teams_job_is_not_there(ada):
    closed = make_cluster("closed")
    make_team("others", clusters=[closed])
    make_job("secret", cluster=closed)
    assert asked(ada, "secret").status_code == 404
    assert asked(ada, "night", 99999999999).status_code == 404


def test_the_answer_costs_few_queries(ada, job, django_assert_max_num_queries):
    client = api(ada, "read")
    client.get("/api/v1/jobs/night/attempts/0/restart/")
    with django_assert_max_num_queries(16):
        client.get("/api/v1/jobs/night/attempts/0/restart/")
