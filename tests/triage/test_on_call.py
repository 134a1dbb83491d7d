"""On-call systems: one alert an incident, which follows it, and never repeats it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from urllib.request import urlopen

import pytest

from tests.factories import make_job, make_user
from tests.patience import PATIENCE_S
from tests.triage.desks import diagnosed, over
from triage.services import reviewing, routes

pytestmark = pytest.mark.django_db(transaction=True)
KEY = "k" * 32


def test_pagerduty_gets_one_alert_that_is_taken_on_and_resolved(desks, manager):
    ada = make_user("ada", "engineer")
    routes.route_save(by=manager, name="x", kind="pagerduty", url=f"{desks.url}/v2/enqueue", secret=KEY)
    incident = diagnosed()
    reviewing.incident_assign(incident=incident, assignee=ada, by=ada)
    reviewing.incident_assign(incident=incident, assignee=None, by=ada)
    over(incident, ada)
    reviewing.incident_act(incident=incident, act="reopened", by=ada)
    bodies = [body for _, body in desks.posts()]
    assert [body["event_action"] for body in bodies] == [
        *("trigger", "acknowledge", "trigger", "acknowledge", "resolve", "trigger")
    ]
    assert len({body["dedup_key"] for body in bodies}) == 1
    assert bodies[0]["payload"]["source"] == "gpu-0412"
    assert bodies[0]["payload"]["custom_details"]["What to do"] == "Evict: gpu-0412"


def test_pagerdutys_refusal_is_no_delivery(desks, manager):
    routes.route_save(by=manager, name="x", kind="pagerduty", url=f"{desks.url}/v2/enqueue", secret="short")
    diagnosed()
    (delivery,) = manager.routes.get().deliveries.all()
    assert (delivery.state, delivery.attempts[0]["status"]) == ("waiting", 400)


def test_grafana_gets_one_annotation_at_the_moment_of_the_failure(desks, manager):
    routes.route_save(by=manager, name="x", kind="grafana", url=desks.url, secret="t")
    job = make_job("night-run")
    incident = diagnosed(job)
    diagnosed(job, revision=2, headline="<b>Other</b>")
    assert [(method, path) for method, path, _ in desks.got] == [
        ("POST", "/api/annotations"),
        ("PATCH", "/api/annotations/7"),
    ]
    body = desks.got[-1][2]
    assert body["time"] == int(incident.happened_at.timestamp() * 1000)
    assert "hardware" in body["tags"] and "gpu-0412" in body["tags"]
    assert "&lt;b&gt;Other" in body["text"]


@pytest.fixture
def alertmanager(tmp_path):
    """Debian's Alertmanager on a port of its own."""
    program = shutil.which("prometheus-alertmanager")
    if program is None:
        pytest.skip("prometheus-alertmanager is not installed (Debian has it)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "alertmanager.yml"
    config.write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    argv = [program, f"--config.file={config}", f"--storage.path={tmp_path}", "--cluster.listen-address="]
    process = subprocess.Popen(
        [*argv, f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            urlopen(f"{url}/-/ready", timeout=1).read()
            break
        except OSError:
            assert time.monotonic() < end and process.poll() is None, "the Alertmanager does not start"
            time.sleep(0.05)
    yield url
    process.terminate()
    process.wait()


def test_a_real_alertmanager_has_one_alert_until_the_incident_is_resolved(alertmanager, settings, manager):
    settings.ROUTES_ALLOW = ["127.0.0.0/8"]
    ada, job = make_user("ada", "engineer"), make_job("night-run")
    route = routes.route_save(by=manager, name="x", kind="alertmanager", url=alertmanager)

    def alerts():
        return json.loads(urlopen(f"{alertmanager}/api/v2/alerts", timeout=PATIENCE_S).read())

    incident = diagnosed(job)
    diagnosed(job, revision=2, headline="The switch failed.")
    (alert,) = alerts()
    assert alert["labels"] == {
        "alertname": "FaultlineIncident",
        "incident": str(incident.pk),
        "cluster": "default",
        "job": "night-run",
    }
    assert alert["annotations"]["summary"] == "The switch failed."
    assert (alert["status"]["state"], alert["annotations"]["accused"]) == ("active", "gpu-0412")
    over(incident, ada)
    assert alerts() == []
    assert {row.state for row in route.deliveries.all()} == {"delivered"}
