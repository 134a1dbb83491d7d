"""What the results of tries leave behind: the pauses of a route, its failures, and what its destinations made."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.utils import timezone

from ingest.models import Node
from tests.factories import make_cluster, make_incident
from triage.destinations.base import Reading
from triage.models import Delivery, Incident, Reference, Route
from triage.services import delivering, outbound, outbox
from triage.services.exchanging import Hold, Result
from triage.services.recording import MAX_GIVEN_UP, results_record

pytestmark = pytest.mark.django_db

ARRIVED = outbound.Answer(204, "", "", 1)
BROKEN = outbound.Answer(500, "", "", 1)
REFUSED = outbound.Answer(400, "wrong", "", 1)
MADE = Reading(reference={"ts": "1"}, url="http://chat/1", title="one", state="open")


@pytest.fixture(autouse=True)
def unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    """No message wakes a worker."""
    monkeypatch.setattr(outbox, "routes_wake", lambda: None)


def claimed(route: Route, event: str, *about: Incident | Node | None) -> Hold:
    """A claim with a message about each."""
    for number, one in enumerate(about):
        outbox.messages_keep([route], event, str(number), None, one, {"job": {"name": "x"}})
    Route.objects.update(claimed_until=timezone.now(), resume_at=None)
    (hold,) = delivering._claim_routes(10, held=[])
    return hold


def held_up(hold: Hold, given_up: int = 3) -> Hold:
    """The hold of a route that waits after failures."""
    hold.route.resume_at, hold.route.given_up = timezone.now(), given_up
    Route.objects.update(resume_at=hold.route.resume_at, given_up=given_up)
    return hold


def standing() -> tuple[bool, int]:
    route = Route.objects.get()
    return route.resume_at is not None, route.given_up


@pytest.mark.parametrize(
    ("event", "is_in_order", "left"),
    [("job.diagnosed", True, (False, 0)), ("job.diagnosed", False, (True, 0)), (outbox.PING, True, (False, 3))],
)
def test_a_message_that_arrives_ends_the_pause_that_it_waited_for_and_a_ping_forgives_no_failure(
    event: str, is_in_order: bool, left: tuple[bool, int], route: Route, django_capture_on_commit_callbacks: Any
) -> None:
    hold = held_up(claimed(route, event, None))
    hold.deliveries[0].is_in_order = is_in_order
    with django_capture_on_commit_callbacks(execute=True):
        results_record([Result(hold, hold.deliveries[0], ARRIVED)])
    assert standing() == left
    assert (hold.route.resume_at is not None, hold.route.given_up) == left


def test_a_route_that_nothing_holds_up_is_not_written(route: Route, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = claimed(route, "job.diagnosed", None, None)
    changed: list[Any] = []
    monkeypatch.setattr("triage.services.recording._route_change", lambda *_, **values: changed.append(values))
    results_record([Result(hold, hold.deliveries[0], ARRIVED)])
    assert changed == []


@pytest.mark.parametrize("is_held_up", [False, True])
def test_a_failure_of_a_message_out_of_order_changes_no_pause(is_held_up: bool, route: Route) -> None:
    hold = claimed(route, "job.diagnosed", None)
    if is_held_up:
        held_up(hold, given_up=0)
    hold.deliveries[0].is_in_order = False
    results_record([Result(hold, hold.deliveries[0], BROKEN)])
    assert standing() == (is_held_up, 0)
    assert not Delivery.objects.get().is_in_order


def test_messages_that_arrive_by_no_lost_claim_are_not_called_repeated(
    route: Route, caplog: pytest.LogCaptureFixture
) -> None:
    hold = claimed(route, "job.diagnosed", None)
    claimed(route, "job.diagnosed", None)
    with caplog.at_level(logging.WARNING):
        results_record([Result(hold, hold.deliveries[0], REFUSED), Result(hold, None)])
    assert caplog.messages == []


def test_what_a_destination_made_of_an_incident_is_kept_and_an_answer_without_address_changes_only_its_key(
    route: Route,
) -> None:
    incident = make_incident()
    hold = claimed(route, "incident.opened", incident, None)
    first, other = hold.deliveries
    results_record([Result(hold, first, ARRIVED, MADE), Result(hold, other, ARRIVED, MADE)])
    row = Reference.objects.get()
    assert (row.incident, row.data, row.url, row.title, row.state) == (
        incident,
        {"ts": "1"},
        "http://chat/1",
        "one",
        "open",
    )
    results_record([Result(hold, first, ARRIVED, Reading(reference={"ts": "2"}))])
    row.refresh_from_db()
    assert (row.data, row.url, row.state) == ({"ts": "2"}, "http://chat/1", "open")
    results_record([Result(hold, first, ARRIVED, Reading())])
    row.refresh_from_db()
    assert row.data == {"ts": "2"}


def test_what_a_destination_made_of_a_node_is_kept_beside_that_of_incidents(route: Route) -> None:
    node = Node.objects.create(cluster=make_cluster(), name="n1")
    hold = claimed(route, "node.drained", node, make_incident())
    results_record([Result(hold, one, ARRIVED, MADE) for one in hold.deliveries])
    assert {(row.node, row.incident is not None) for row in Reference.objects.all()} == {(node, False), (None, True)}


def test_nothing_is_kept_of_an_incident_that_was_deleted_meanwhile(route: Route) -> None:
    hold = claimed(route, "incident.opened", make_incident())
    delivery = hold.deliveries[0]
    Incident.objects.all().delete()
    results_record([Result(hold, delivery, ARRIVED, MADE)])
    assert not Reference.objects.exists()


@pytest.mark.parametrize(("error", "why"), [("no route to host", "no route to host"), ("", "500")])
def test_a_route_is_switched_off_after_many_messages_in_a_row_with_the_reason_of_the_last(
    error: str, why: str, route: Route, caplog: pytest.LogCaptureFixture
) -> None:
    hold = held_up(claimed(route, "job.diagnosed", None), MAX_GIVEN_UP - 1)
    delivery = hold.deliveries[0]
    delivery.tries = 100
    with caplog.at_level(logging.WARNING):
        results_record([Result(hold, delivery, outbound.Answer(500, "", error, 1))])
    off = Route.objects.get()
    assert (off.is_active, off.problem) == (
        False,
        f"{MAX_GIVEN_UP} messages in a row did not arrive, the last one: {why}",
    )
    assert f"route {off.pk} is switched off: {off.problem}" in caplog.messages
