"""What an operator's monitoring reads."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from ingest.models import Run
from tests.factories import make_incident, make_job, make_user
from tests.pages import page_text
from triage.models import Delivery, Route
from triage.services import doctor

pytestmark = pytest.mark.django_db


def figures(client: Any) -> dict[str, float]:
    lines = page_text(client.get("/metrics")).splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_work_that_waits_is_recognised_by_its_age(client: Any) -> None:
    assert figures(client)['faultline_oldest_queued_run_seconds{queue="parse"}'] == 0
    run = Run.objects.create(job=make_job(), kind=Run.Kind.PARSE)
    Run.objects.filter(pk=run.pk).update(created_at=timezone.now() - timedelta(minutes=5))
    found = figures(client)
    assert 299 < found['faultline_oldest_queued_run_seconds{queue="parse"}'] < 400
    assert found['faultline_oldest_queued_run_seconds{queue="diagnose"}'] == 0
    assert (found['faultline_runs{queue="parse",state="queued"}'], found["faultline_jobs"]) == (1, 1)


def test_long_work_that_waits_is_told_apart_from_short_work(client: Any) -> None:
    job = make_job()
    for is_long, state in ((True, "queued"), (True, "running"), (False, "queued"), (False, "succeeded")):
        Run.objects.create(job=job, kind=Run.Kind.PARSE, is_long=is_long, state=state)
    Run.objects.filter(is_long=True).update(created_at=timezone.now() - timedelta(minutes=5))
    found = figures(client)
    counts = {name: n for name, n in found.items() if name.startswith("faultline_lane_runs")}
    assert counts == {
        'faultline_lane_runs{lane="long",state="queued"}': 1,
        'faultline_lane_runs{lane="long",state="running"}': 1,
        'faultline_lane_runs{lane="short",state="queued"}': 1,
        'faultline_lane_runs{lane="short",state="running"}': 0,
    }
    assert 299 < found['faultline_lane_oldest_queued_run_seconds{lane="long"}'] < 400
    assert found['faultline_lane_oldest_queued_run_seconds{lane="short"}'] < 299
    assert found['faultline_oldest_queued_run_seconds{queue="parse"}'] > 299


def test_a_message_waits_from_the_moment_when_it_is_due(client: Any) -> None:
    route = Route.objects.create(name="chat", url="https://chat.example/", owner=make_user("mona", "manager"))
    soon = {"due_at": timezone.now() + timedelta(minutes=5), "subject": "later", "body": "{}"}
    Delivery.objects.create(route=route, event="job.failed", **soon)
    assert figures(client)["faultline_deliveries_due"] == 0
    Delivery.objects.update(due_at=timezone.now() - timedelta(minutes=2))
    found = figures(client)
    assert found["faultline_deliveries_due"] == 1
    assert 119 < found['faultline_oldest_queued_run_seconds{queue="notify"}'] < 200
    route.resume_at = timezone.now() + timedelta(hours=6)
    route.save()
    assert figures(client)["faultline_deliveries_due"] == 0, "nobody has to be alarmed because a route is quiet"


def test_probes_need_no_host_name_and_no_tls(client: Any, settings: Any) -> None:
    """Orchestrators and Prometheus call the address of a machine by plain http."""
    settings.ALLOWED_HOSTS, settings.SECURE_SSL_REDIRECT = ["faultline.example"], True
    for path in ("/healthz", "/metrics"):
        assert client.get(path, headers={"host": "10.1.2.3:8000"}).status_code == 200
    assert client.get("/jobs/", headers={"host": "faultline.example"}).status_code == 301
    assert client.get("/jobs/", headers={"host": "10.1.2.3"}, secure=True).status_code == 400


def test_space_and_queue_are_reported(client: Any) -> None:
    found = figures(client)
    assert found["faultline_data_free_bytes"] > 0
    assert found["faultline_broker_up"] in (0, 1)
    assert found["faultline_evidence_bytes"] == 0


def test_health_and_metrics_answer_without_signing_in(client):
    assert client.get("/healthz").json()["status"] == "ok"
    make_incident()
    assert 'faultline_incidents{state="awaiting_review"} 1' in page_text(client.get("/metrics"))


def test_a_run_older_than_ten_minutes_is_named(client: Any) -> None:
    job = make_job("slow-job")
    run = Run.objects.create(job=job, kind=Run.Kind.PARSE, state=Run.State.RUNNING, started_at=timezone.now())
    assert client.get("/healthz").json()["status"] == "ok"
    assert doctor.running().state == "ok"
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(minutes=12))
    answer = client.get("/healthz")
    told = answer.json()
    assert (answer.status_code, told["status"], told["long_runs"]) == (200, "degraded", 1)
    assert 719 < told["oldest_run_s"] < 800
    assert "slow-job" not in page_text(answer)
    assert 719 < figures(client)["faultline_oldest_running_run_seconds"] < 800
    finding = doctor.running()
    assert finding.state == "warning"
    assert f"parse run {run.pk} of job slow-job (12 minutes)" in finding.sentence
