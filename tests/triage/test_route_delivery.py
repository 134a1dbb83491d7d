"""How messages of routes travel: claims of workers, tries, order, and receivers that fail."""

from __future__ import annotations

import subprocess
import uuid
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ingest import processes
from ingest.signals import swept
from tests.factories import make_incident
from tests.patience import wait_for
from tests.triage.receiver import verify
from triage.destinations import Request
from triage.models import Activity, Delivery, Route
from triage.services import delivering, outbound, outbox, recording, reviewing, routes
from triage.services.exchanging import Result, hold_send

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def allowed(settings):
    settings.ROUTES_ALLOW = ["127.0.0.0/8"]


def due_now():
    Delivery.objects.filter(state="waiting").update(due_at=timezone.now())
    Route.objects.update(resume_at=None, claimed_until=None)
    swept.send(sender=None)


def test_an_answer_that_no_database_keeps_is_kept_in_signs_and_the_message_is_done(route, receiver):
    receiver.answers = [(200, {}, b"a\0b \xff")]
    outbox.ping(route=route)
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempts[0]["said"]) == ("delivered", "a␀b \ufffd")


@pytest.fixture
def still(monkeypatch):
    """The site's clock stands, so that a slow machine changes no distance in time."""
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)
    return now


def test_a_failed_message_is_tried_again_later_and_then_arrives_under_the_same_id(route, receiver, still):
    receiver.answers = [(500, {}, b"down"), (503, {"Retry-After": "900"}, b"later"), (200, {}, b"thanks")]
    outbox.ping(route=route)
    delivery = Delivery.objects.get()
    assert delivery.state == "waiting"
    assert 4.5 <= (delivery.due_at - still).total_seconds() <= 5.5
    swept.send(sender=None)
    assert len(receiver.got) == 1, "not before its time"
    due_now()
    delivery.refresh_from_db()
    assert (delivery.due_at - still).total_seconds() == 900, "as the receiver asked"
    due_now()
    delivery.refresh_from_db()
    assert (delivery.state, [row["status"] for row in delivery.attempts]) == ("delivered", [500, 503, 200])
    assert delivery.attempts[0]["said"] == "down"
    assert len({headers["webhook-id"] for _, headers, _ in receiver.got}) == 1
    assert all(verify(route.opened("secret"), headers, body) for _, headers, body in receiver.got)


def test_a_claim_is_renewed_while_its_message_is_under_way_and_only_by_its_holder(route, monkeypatch):
    monkeypatch.setattr(delivering, "_RENEW_S", 0.0)
    claims = []

    def slow(hold, tell):
        wait_for(lambda: len(claims) >= 3)
        tell(Result(hold, hold.deliveries[0], outbound.Answer(200, "", "", 1)))
        tell(Result(hold, None))

    def renewed(held, renew=delivering._renew):
        renew(held)
        claims.append(Route.objects.get(pk=route.pk).claimed_until)

    monkeypatch.setattr(delivering, "hold_send", slow)
    monkeypatch.setattr(delivering, "_renew", renewed)
    outbox.ping(route=route)
    held = claims[:3]
    assert held == sorted(set(held)), "each renewal holds the route for longer"
    Route.objects.update(holder="another worker's")
    before = Route.objects.get(pk=route.pk).claimed_until
    delivering._renew({"mine": None})
    assert Route.objects.get(pk=route.pk).claimed_until == before


def test_a_worker_that_was_taken_for_dead_does_not_overrule_who_sent_the_message_since(route, receiver, monkeypatch):
    receiver.answers = [(500, {}, b""), (200, {}, b"")]
    outbox.ping(route=route)
    claimed = delivering._claim_routes
    Delivery.objects.update(due_at=timezone.now())

    def slow(*given, **more):
        holds = list(claimed(*given, **more))
        monkeypatch.setattr(delivering, "_claim_routes", claimed)
        due_now()  # as the sweep does once the claim has ended
        return [replace(hold, reasons={row.pk: "too late" for row in hold.deliveries}) for hold in holds]

    monkeypatch.setattr(delivering, "_claim_routes", slow)
    delivering.routes_send()
    delivery = Delivery.objects.get()
    assert (delivery.state, [row["status"] for row in delivery.attempts]) == ("delivered", [500, 200])


def test_a_route_of_a_killed_worker_is_served_at_once_and_one_of_a_worker_elsewhere_is_left_alone(route, receiver):
    ended = subprocess.Popen(["true"])
    name = f"{processes.machine()}#{ended.pid}:1"
    ended.wait()
    until = timezone.now() + timedelta(hours=1)
    with transaction.atomic():
        Route.objects.update(holder=f"{name}/claim", claimed_until=until)
        outbox.ping(route=route)
    assert len(receiver.got) == 1
    assert Delivery.objects.get().is_repeated, "whoever held the route may have sent it"
    for alive in (f"elsewhere#{ended.pid}:1/claim", f"{processes.process_name()}/claim"):
        Route.objects.update(holder=alive, claimed_until=until)
        outbox.ping(route=route)
        swept.send(sender=None)
        assert len(receiver.got) == 1


def test_receivers_that_never_answer_take_no_turn_from_one_that_does(route, receiver, manager, monkeypatch):
    dead = [routes.route_save(by=manager, name=f"dead {n}", url=receiver.url, events=routes.EVENTS) for n in range(6)]
    for name, value in {"MAX_FAST_HOLDS": 2, "_SLOW_S": 0.0, "HOLD_S": 0.0, "LIMIT_S": 1e9, "_POLL_S": 0.01}.items():
        monkeypatch.setattr(delivering, name, value)

    def send(hold, tell):
        if hold.route.name.startswith("dead"):
            wait_for(lambda: len(receiver.got) == 3)
            tell(Result(hold, hold.deliveries[0], outbound.Answer(0, "", "No answer.", 1)))
            tell(Result(hold, None))
        else:
            hold_send(hold, tell)

    monkeypatch.setattr(delivering, "hold_send", send)
    with monkeypatch.context() as patched:
        patched.setattr(outbox, "routes_wake", lambda: None)
        for n in range(3):
            outbox.messages_keep([*dead, route], "job.diagnosed", str(n), None, None, {"job": {"name": "x"}})
    delivering.routes_send()
    assert route.deliveries.filter(state="delivered").count() == 3
    assert all([len(row.attempts) for row in one.deliveries.order_by("id")].count(1) == 1 for one in dead)


def test_the_messages_of_one_route_are_sent_in_order_in_few_queries(route, receiver, monkeypatch):
    incident = make_incident()

    def queries(count):
        receiver.got.clear()
        body = {"incident": {"number": incident.pk}, "job": {"name": "x", "cluster": "default"}}
        with monkeypatch.context() as patched:
            patched.setattr(outbox, "routes_wake", lambda: None)
            for n in range(count):
                outbox.messages_keep([route], "incident.opened", f"{count} {n}", incident.cluster_id, incident, body)
        for name in ("HOLD_S", "SLICE_S", "_POLL_S", "_RENEW_S", "_FREE_CLAIMS_EVERY_S", "_SLOW_S"):
            monkeypatch.setattr(delivering, name, 1e6)  # the time that sending takes adds no query
        with CaptureQueriesContext(connection) as captured:
            delivering.routes_send()
        ids = [f"msg_{row.pk.hex}" for row in route.deliveries.order_by("-created_at", "-id")[:count]]
        assert [headers["webhook-id"] for _, headers, _ in receiver.got] == ids[::-1]
        return len(captured)

    for count in (1, 4, 12):  # results that come together are recorded together: fewer
        assert queries(count) <= 10 + 5 * count, "each message at most: one read, two writes, one transaction"


def test_a_route_with_many_messages_lets_others_have_a_turn(route, receiver, manager, monkeypatch):
    other = routes.route_save(by=manager, name="other", url=receiver.url, events=["incident.opened"])
    monkeypatch.setattr(delivering, "MAX_FAST_HOLDS", 1)
    monkeypatch.setattr(delivering, "HOLD_S", 0.0)
    monkeypatch.setattr(delivering, "SLICE_S", 1e9)
    with monkeypatch.context() as patched:
        patched.setattr(outbox, "routes_wake", lambda: None)
        for n in range(3):
            outbox.messages_keep([route, other], "job.diagnosed", str(n), None, None, {"job": {"name": "x"}})
    delivering.routes_send()
    sent = dict(Delivery.objects.values_list("id", "route__name"))
    turns = [sent[uuid.UUID(headers["webhook-id"].removeprefix("msg_"))] for _, headers, _ in receiver.got]
    assert turns in ([route.name, "other"] * 3, ["other", route.name] * 3)


@pytest.mark.parametrize(
    ("after", "least_s", "most_s"),
    [
        ("²", 4.5, 5.5),
        ("-9", 4.5, 5.5),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 4.5, 5.5),
        ("9" * 5000, 4.5, 5.5),
        ("999999", 72_000, 72_000),
    ],
)
def test_a_receiver_that_asks_for_an_odd_or_endless_pause_gets_the_usual_or_the_longest(
    route, receiver, still, after, least_s, most_s
):
    receiver.answers = [(503, {"Retry-After": after}, b"")]
    outbox.ping(route=route)
    delivery = Delivery.objects.get()
    assert delivery.state == "waiting"
    assert least_s <= (delivery.due_at - still).total_seconds() <= most_s


def test_after_the_last_try_a_message_is_given_up_and_can_be_sent_again_by_hand(route, receiver):
    receiver.answers = [(500, {}, b"")]
    outbox.ping(route=route)
    for _ in recording.BACKOFF_S:
        due_now()
    delivery = Delivery.objects.get()
    assert (delivery.state, len(receiver.got)) == ("given_up", len(recording.BACKOFF_S) + 1)
    receiver.answers = [(200, {}, b"")]
    outbox.redeliver(delivery=delivery)
    delivery.refresh_from_db()
    assert delivery.state == "delivered"


def test_two_workers_send_one_message_once(route, receiver, monkeypatch):
    outbox.ping(route=route)
    Delivery.objects.update(state="waiting", due_at=timezone.now(), tries=0)
    claimed = delivering._claim_routes

    def meanwhile(*given, **more):
        holds = list(claimed(*given, **more))
        monkeypatch.setattr(delivering, "_claim_routes", claimed)
        delivering.routes_send()
        return holds

    monkeypatch.setattr(delivering, "_claim_routes", meanwhile)
    delivering.routes_send()
    assert len(receiver.got) == 2, "the ping and one more"


def test_a_receiver_that_is_missing_or_never_answers_switches_its_route_off_with_a_reason(route, receiver, manager):
    receiver.answers = [(410, {}, b"")]
    reviewing.incident_assign(incident=make_incident(), assignee=manager, by=manager)
    route.refresh_from_db()
    assert (route.is_active, route.problem) == (False, "The receiver answered 410 Gone.")
    routes.route_save(by=manager, existing=route, name=route.name, url=route.opened("url"), events=route.events)
    Route.objects.update(given_up=recording.MAX_GIVEN_UP - 1)
    receiver.answers = [(500, {}, b"")]
    reviewing.incident_assign(incident=make_incident(), assignee=manager, by=manager)
    for _ in recording.BACKOFF_S:
        due_now()
    route.refresh_from_db()
    assert not route.is_active
    assert "did not arrive" in route.problem


def test_only_messages_given_up_in_a_row_count(route, receiver, manager):
    Route.objects.update(given_up=recording.MAX_GIVEN_UP - 1)
    reviewing.incident_assign(incident=make_incident(), assignee=manager, by=manager)
    route.refresh_from_db()
    assert (route.given_up, route.is_active) == (0, True)


def test_for_a_day_after_a_rotation_both_secrets_verify(route, receiver, manager):
    old = route.opened("secret")
    new = routes.secret_rotate(route=route, by=manager)
    outbox.ping(route=route)
    Route.objects.update(former_until=timezone.now() - timedelta(seconds=1))
    outbox.ping(route=route)
    checks = [(verify(old, h, b), verify(new, h, b)) for _, h, b in receiver.got]
    assert checks == [(True, True), (False, True)]
    assert old not in str(list(Activity.objects.values("data"))) + str(list(Activity.objects.values("kind")))


def test_redirects_are_not_followed(route, receiver):
    receiver.answers = [(307, {"Location": f"{receiver.url}/elsewhere"}, b"")]
    outbox.ping(route=route)
    assert [path for path, _, _ in receiver.got] == ["/hook"]
    assert "not followed" in Delivery.objects.get().attempts[0]["error"]


def test_an_answer_that_drips_or_floods_holds_no_worker(route, receiver, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(outbound, "TIMEOUT_S", 0.4)
        receiver.drip_s = 0.05
        outbox.ping(route=route)
    assert "No answer within" in Delivery.objects.get().attempts[0]["error"]
    assert receiver.dripped < 1000, "eight bytes are due by then, and ten thousand would come"
    receiver.drip_s, receiver.answers = 0, [(200, {}, b"x" * (1 << 20))]
    answer = outbound.send(Request(receiver.url, b"{}"))
    assert (answer.status, len(answer.text)) == (200, outbound.MAX_ANSWER_BYTES)
    outbox.ping(route=route)
    assert [len(one.attempts[0]["said"]) for one in Delivery.objects.filter(state="delivered")] == [500]
