"""What people do in PagerDuty: heard if it is signed, new and about an incident that PagerDuty was told of."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import timedelta

import pytest
from django.utils import timezone

from tests.factories import make_cluster, make_incident, make_job, make_team, make_user
from triage.models import Delivery, Reference
from triage.services import outbox, reviewing, routes

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "made by PagerDuty"


@pytest.fixture
def route(manager, receiver):
    return routes.route_save(
        by=manager,
        name="pages",
        kind="pagerduty",
        url=receiver.url,
        secret="k" * 32,
        options={"inbound_secret": SECRET},
    )


@pytest.fixture
def incident(route, receiver):
    """An incident that the route told of."""
    made = make_incident()
    outbox.messages_keep(
        [route], "incident.opened", "1", made.cluster_id, made, {"incident": {"number": made.pk}, "job": {}}
    )
    receiver.got.clear()
    return made


def event(kind, incident=None, **changes):
    data = {
        "id": "PGR0VU2",
        "type": "incident",
        "html_url": "https://acme.pagerduty.com/incidents/PGR0VU2",
        "number": 2,
        "status": kind,
        "incident_key": f"faultline/localhost:8000/{incident.pk}" if incident else None,
        "title": "GPU 5 fell off the bus",
        **changes.pop("data", {}),
    }
    person = {"id": "PLH1HKV", "summary": "Ada Lovelace", "type": "user_reference"}
    made = {
        "id": f"01{kind}",
        "event_type": f"incident.{kind}",
        "resource_type": "incident",
        "occurred_at": timezone.now().isoformat(),
        "agent": person,
        "data": data,
    }
    return made | changes


def send(client, route, said, *, secret=SECRET, signature=None):
    body = (said if isinstance(said, str) else json.dumps({"event": said})).encode()
    signed = "v1=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return client.post(
        f"/api/v1/routes/{route.pk}/pagerduty/",
        body,
        content_type="application/json",
        headers={"X-PagerDuty-Signature": signed if signature is None else signature.format(signed)},
    )


def kinds(incident):
    return list(incident.activities.values_list("kind", flat=True))


def judged(incident):
    reviewing.decision_make(incident=incident, claim="category", word="confirm", by=make_user("eve", "engineer"))


def test_an_acknowledgement_is_recorded_with_its_person_and_shown_with_its_state(client, route, incident, ada):
    assert send(client, route, event("acknowledged", incident)).status_code == 200
    row = incident.activities.get(kind="acknowledged")
    assert (row.actor, row.data["who"]) == (None, "Ada Lovelace (PagerDuty)")
    assert Reference.objects.get().state == "acknowledged"
    page = client.get(f"/incidents/{incident.pk}/tickets/").content.decode()
    assert "PagerDuty #2" in page
    assert "acknowledged" in page
    assert "https://acme.pagerduty.com/incidents/PGR0VU2" in page


def test_a_judged_incident_is_resolved_and_reopened_and_pagerduty_is_not_told_what_it_said(
    client, route, incident, receiver
):
    judged(incident)
    receiver.got.clear()
    send(client, route, event("resolved", incident))
    incident.refresh_from_db()
    assert incident.state == "resolved"
    send(client, route, event("reopened", incident))
    incident.refresh_from_db()
    assert incident.state == "confirmed"
    assert receiver.got == []


def test_other_routes_are_told_who_did_it(client, route, incident, receiver, manager):
    routes.route_save(by=manager, name="chat", url=receiver.url, events=["incident.moved"])
    send(client, route, event("acknowledged", incident))
    (said,) = [json.loads(body) for body in receiver.bodies()]
    assert said["data"]["act"] == {"kind": "acknowledged", "by": "Ada Lovelace (PagerDuty)"}


def test_an_incident_that_nobody_judged_stays_open_when_its_alert_is_resolved(client, route, incident):
    answer = send(client, route, event("resolved", incident))
    incident.refresh_from_db()
    assert (incident.state, kinds(incident)) == ("awaiting_review", ["resolved_elsewhere"])
    assert "stays open" in answer.json()["said"]


def test_without_a_key_the_end_of_the_title_names_the_incident(client, route, incident):
    send(client, route, event("acknowledged", data={"title": f"GPU 5 fell off [Faultline #{incident.pk}]"}))
    assert kinds(incident) == ["acknowledged"]
    elsewhere = {"title": f"x [Faultline #{incident.pk}]", "incident_key": f"faultline/other.example/{incident.pk}"}
    send(client, route, event("resolved", data=elsewhere))
    assert kinds(incident) == ["acknowledged"], "another site's incident"


@pytest.mark.parametrize("signature", ["", "v1=", "{0}0", "v2{0}", "v1=" + "0" * 64, "é"])
def test_a_wrong_signature_is_refused_like_a_missing_route(client, route, incident, signature):
    refused = send(client, route, event("acknowledged", incident), signature=signature)
    assert refused.status_code == 401
    assert kinds(incident) == []
    route.pk += 1
    assert send(client, route, event("acknowledged", incident)).json()["detail"] == refused.json()["detail"]


def test_one_of_several_signatures_is_enough_and_a_route_without_a_secret_hears_nothing(client, route, incident):
    assert send(client, route, event("acknowledged", incident), signature=f"v1={'0' * 64}, {{0}}").status_code == 200
    type(route).objects.update(inbound_secret="")
    assert send(client, route, event("resolved", incident), secret="").status_code == 401


def test_a_repeated_late_or_stale_event_does_nothing(client, route, incident):
    first = event("acknowledged", incident)
    later = event("unacknowledged", incident, occurred_at=(timezone.now() + timedelta(seconds=9)).isoformat())
    old = event("acknowledged", incident, id="2", occurred_at=(timezone.now() - timedelta(days=3)).isoformat())
    for said in (first, first, later, {**first, "id": "3"}, old):
        assert send(client, route, said).status_code == 200
    assert kinds(incident) == ["acknowledged"]


def test_what_a_program_did_changes_only_the_shown_state(client, route, incident):
    judged(incident)
    agent = {"type": "inbound_integration_reference", "summary": "Faultline"}
    send(client, route, event("resolved", incident, agent=agent))
    incident.refresh_from_db()
    assert (incident.state, Reference.objects.get().state) == ("confirmed", "resolved")
    send(client, route, event("resolved", incident, agent=None, id="9"))
    incident.refresh_from_db()
    assert incident.state == "confirmed"


def test_an_incident_that_the_route_was_not_told_of_or_may_not_see_is_left_alone(client, route, incident, receiver):
    other = make_incident(make_job("elsewhere", cluster=make_cluster("b")))
    make_team("others", clusters=[other.cluster])
    send(client, route, event("acknowledged", other))
    Delivery.objects.create(route=route, event="incident.opened", subject="x", incident=other, body="{}")
    answer = send(client, route, event("acknowledged", other))
    assert kinds(other) == []
    assert "has not sent this incident" in answer.json()["said"]
    unknown = send(client, route, event("acknowledged", data={"incident_key": "faultline/localhost:8000/" + "9" * 900}))
    assert unknown.status_code == 200


@pytest.mark.parametrize(
    "body", ["", "[]", "{}", '{"event": 1}', '{"event": {"event_type": "incident.resolved"}}', "[" * 9999, "\udcff"]
)
def test_what_is_signed_but_no_event_breaks_nothing(client, route, incident, body):
    assert send(client, route, body.encode("utf-8", "replace").decode()).status_code in (200, 422)


def test_another_kind_of_event_is_left_alone(client, route, incident):
    note = {"type": "incident_note", "content": "hello"}
    assert "nothing" in send(client, route, event("annotated", incident, data=note)).json()["said"]
    assert kinds(incident) == []


def test_the_secret_is_written_and_never_shown(client, route, manager):
    client.force_login(manager)
    page = client.get(f"/routes/{route.pk}/").content.decode()
    assert f"/api/v1/routes/{route.pk}/pagerduty/" in page
    assert SECRET not in page
    assert SECRET not in client.get(f"/api/v1/routes/{route.pk}/").content.decode()
    route.refresh_from_db()
    assert route.opened("inbound_secret") == SECRET
    assert "inbound_secret" not in route.options
