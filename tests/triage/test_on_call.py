"""On-call and ticket systems: one alert or ticket an incident, which follows it, and never repeats it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from urllib.request import urlopen

import pytest
from django.core.management import CommandError, call_command

from tests.factories import api_of, make_attempt, make_job, make_user
from tests.patience import PATIENCE_S
from tests.triage.desks import open_desks
from tests.triage.report import sample
from triage.models import Reference
from triage.services import reviewing, routes
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db(transaction=True)
KEY = "k" * 32


@pytest.fixture
def desks(settings):
    settings.ROUTES_ALLOW = ["127.0.0.0/8"]
    with open_desks() as found:
        yield found


def diagnosed(job="night-run", *, revision=1, **changes):
    attempt = make_attempt(job if not isinstance(job, str) else make_job(job))
    diagnosis_store(attempt=attempt, revision=revision, report=sample() | changes)
    return attempt.incidents.get()


def over(incident, by):
    reviewing.decision_make(incident=incident, claim="category", word="confirm", by=by)
    reviewing.incident_act(incident=incident, act="resolved", by=by)


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


FIELDS = {
    "github": {"options": {"project": "o/r", "labels": "training, gpu"}},
    "gitlab": {"options": {"project": "g/p"}},
    "jira": {"options": {"user": "bot@example.org", "project": "OPS"}},
}
TICKETS = {
    "github": ("o/r#12", "https://github.example/o/r/issues/12", "open"),
    "gitlab": ("g/p#3", "https://gitlab.example/g/p/-/issues/3", "opened"),
    "jira": ("OPS-7", None, "created"),
}


@pytest.mark.parametrize("kind", FIELDS)
def test_a_ticket_is_made_by_hand_and_shown_with_its_state(client, desks, manager, kind):
    route = routes.route_save(by=manager, name="Tracker", kind=kind, url=desks.url, secret="t", **FIELDS[kind])
    incident = diagnosed()
    assert not desks.got, "nobody asked for a ticket"
    client.force_login(make_user("ada", "engineer"))
    page = client.get(f"/incidents/{incident.pk}/tickets/").content.decode()
    assert "No ticket yet" in page and "Make a ticket" in page
    client.post(f"/incidents/{incident.pk}/ticket/", {"route": route.pk})
    title, url, state = TICKETS[kind]
    made = Reference.objects.get()
    assert (made.title, made.url, made.state) == (title, url or f"{desks.url}/browse/OPS-7", state)
    page = client.get(f"/incidents/{incident.pk}/tickets/").content.decode()
    assert title in page and made.url in page and "Make a ticket" not in page
    again = client.post(f"/incidents/{incident.pk}/ticket/", {"route": route.pk}, follow=True)
    assert "made or requested before" in again.content.decode()
    assert len(desks.posts()) == 1


@pytest.mark.parametrize("kind", FIELDS)
def test_a_ticket_quotes_the_evidence_and_nothing_of_it_is_markdown(desks, manager, kind):
    routes.route_save(
        by=manager, name="x", kind=kind, url=desks.url, secret="t", events=["incident.opened"], **FIELDS[kind]
    )
    logs = sample()["logs"]
    logs["events"][0]["example"] = "Xid 79\n\n# @everyone [click](https://evil.example)"
    diagnosed(logs=logs)
    ((_, made),) = desks.posts()
    said = json.dumps(made)
    assert "logs/gpu-0412.log:812: Xid 79 # @everyone" in said
    if kind != "jira":
        (body,) = [made[name] for name in ("body", "description") if name in made]
        lines = [line for line in body.splitlines() if "@everyone" in line or "gpu-0412.log" in line]
        assert lines
        assert all(line.startswith("    ") for line in lines)


def test_programs_that_are_told_of_an_incident_get_no_evidence(receiver, manager):
    routes.route_save(by=manager, name="x", url=receiver.url, events=["incident.opened"])
    diagnosed()
    assert "evidence" not in json.loads(receiver.bodies()[0])["data"]


def test_the_api_and_the_command_line_make_tickets_and_show_them(desks, manager, capsys):
    made = [
        routes.route_save(by=manager, name=kind, kind=kind, url=desks.url, secret="t", **FIELDS[kind])
        for kind in ("github", "gitlab")
    ]
    incident, ada = diagnosed(), make_user("ada", "engineer")
    api, address = api_of(ada, "read", "review"), f"/api/v1/incidents/{incident.pk}/tickets/"
    assert [row["name"] for row in api.get(address).json()["routes"]] == ["gitlab", "github"]
    answer = api.post(address, {"route": made[0].pk})
    assert answer.status_code == 202
    assert [row["url"] for row in answer.json()["made"]] == [TICKETS["github"][1]]
    assert api.post(address, {"route": made[0].pk}).status_code == 422
    assert api.post(address, {"route": 99}).status_code == 422
    assert api_of(make_user("vic", "viewer"), "read", "review").post(address, {}).status_code == 403
    call_command("routes", "ticket", str(made[1].pk), str(incident.pk), "--by", "ada")
    assert "A ticket is made by gitlab" in capsys.readouterr().out
    assert {row["name"] for row in api.get(address).json()["made"]} == {"github", "gitlab"}
    with pytest.raises(CommandError, match="may not review"):
        call_command("routes", "ticket", str(made[1].pk), str(incident.pk), "--by", "vic")


@pytest.mark.parametrize("kind", FIELDS)
def test_what_happens_later_is_a_comment_also_if_the_failure_returns_in_another_job(desks, manager, kind):
    ada = make_user("ada", "engineer")
    route = routes.route_save(by=manager, name="Tracker", kind=kind, url=desks.url, secret="t", **FIELDS[kind])
    incident = diagnosed()
    routes.ticket_request(route=route, incident=incident, by=ada, data=_data(incident))
    over(incident, ada)
    desks.state = "closed"
    again = diagnosed("another")
    comments = [
        json.dumps(body) for path, body in desks.posts() if path.rpartition("/")[2] in ("comments", "notes", "comment")
    ]
    assert len(comments) == len(desks.posts()) - 1 == 3, "one ticket, three comments"
    assert f"/incidents/{again.pk}/" in comments[-1] and "It happened again" in comments[-1]
    assert Reference.objects.get(incident=again).data == Reference.objects.get(incident=incident).data
    if kind == "github":
        assert Reference.objects.get(incident=again).state == "closed"


def _data(incident):
    from triage.services.announcing import incident_payload

    return {"incident": incident_payload(incident), "job": routes.job_payload(incident.job)}


def test_a_test_of_a_tracker_makes_no_ticket(desks, manager):
    route = routes.route_save(by=manager, name="x", kind="github", url=desks.url, secret="t", **FIELDS["github"])
    routes.ping(route=route)
    assert [method for method, _, _ in desks.got] == ["GET"]
    assert route.deliveries.get().state == "delivered"


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
