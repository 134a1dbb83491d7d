"""Claims of routes: only the worker whose claim is the latest sends, and only its results count."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from tests.pages import page_text
from triage.models import Delivery, Route
from triage.services import delivering, outbound, outbox
from triage.services.exchanging import Hold, Result
from triage.services.recording import results_record

pytestmark = pytest.mark.django_db

ARRIVED = outbound.Answer(204, "", "", 1)
REFUSED = outbound.Answer(400, "wrong", "", 1)
GONE = outbound.Answer(410, "gone", "", 1)


@pytest.fixture(autouse=True)
def unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    """No message wakes a worker."""
    monkeypatch.setattr(outbox, "routes_wake", lambda: None)


def claimed() -> list[Hold]:
    return list(delivering._claim_routes(10, held=[]))


def lapse() -> None:
    Route.objects.update(claimed_until=timezone.now())


@pytest.fixture
def hold(route: Route) -> Hold:
    """A claim with two messages to send."""
    for number in range(2):
        outbox.messages_keep([route], "job.diagnosed", str(number), None, None, {"job": {"name": "x"}})
    (hold,) = claimed()
    return hold


def test_two_workers_that_see_a_free_route_at_the_same_time_claim_it_once(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox.ping(route=route)
    name, inner = delivering.processes.process_name, []

    def named_while_another_claims() -> str:
        monkeypatch.setattr(delivering.processes, "process_name", name)
        inner.extend(claimed())
        return name()

    monkeypatch.setattr(delivering.processes, "process_name", named_while_another_claims)
    assert claimed() == []
    assert len(inner) == 1
    assert Route.objects.get().holder == inner[0].claim


@pytest.mark.parametrize("answer", [ARRIVED, REFUSED, GONE])
def test_the_result_of_a_claim_that_another_worker_took_over_is_not_stored(hold: Hold, answer: outbound.Answer) -> None:
    lapse()
    (new_hold,) = claimed()
    first = hold.deliveries[0]
    results_record([Result(hold, first, answer), Result(hold, None)])
    row = Delivery.objects.get(pk=first.pk)
    assert (row.state, row.attempts, row.tries) == ("waiting", [], 0)
    route = Route.objects.get()
    assert (route.holder, route.is_active, route.resume_at) == (new_hold.claim, True, None)


def test_the_result_of_a_claim_that_has_lapsed_counts_while_nobody_took_it_over(hold: Hold) -> None:
    lapse()
    results_record([Result(hold, hold.deliveries[0], ARRIVED)])
    assert Delivery.objects.get(pk=hold.deliveries[0].pk).state == "delivered"


@pytest.mark.parametrize("answer", [ARRIVED, REFUSED, GONE])
def test_a_late_result_changes_no_message_that_is_finished(hold: Hold, answer: outbound.Answer) -> None:
    first = hold.deliveries[0]
    Delivery.objects.filter(pk=first.pk).update(state="replaced")
    results_record([Result(hold, first, answer)])
    row = Delivery.objects.get(pk=first.pk)
    assert (row.state, row.tries) == ("replaced", 0)
    assert Route.objects.get().is_active


def test_a_message_that_arrived_by_a_claim_that_was_lost_is_marked_and_counted(
    hold: Hold, client: Any, manager: Any
) -> None:
    lapse()
    claimed()
    Delivery.objects.update(is_repeated=False)
    results_record([Result(hold, hold.deliveries[0], ARRIVED), Result(hold, hold.deliveries[1], REFUSED)])
    first, second = Delivery.objects.order_by("created_at", "id")
    assert (first.is_repeated, second.is_repeated) == (True, False)
    assert "faultline_deliveries_repeated 1" in page_text(client.get("/metrics")).splitlines()
    client.force_login(manager)
    pages = [page_text(client.get(f"/routes/{row.route_id}/deliveries/{row.pk}/")) for row in (first, second)]
    assert ["may have arrived more than once" in page for page in pages] == [True, False]


def test_a_claim_that_was_released_leaves_no_doubt_about_its_messages(hold: Hold) -> None:
    results_record([Result(hold, hold.deliveries[0], ARRIVED), Result(hold, None)])
    (again,) = claimed()
    assert [row.pk for row in again.deliveries] == [hold.deliveries[1].pk]
    assert not Delivery.objects.filter(is_repeated=True).exists()


#: whether a receiver refuses this one message (later ones then pass it), by the status of its answer
_IS_REFUSED = {200: True, 400: True, 404: True, 408: False, 425: False, 429: False, 500: False, 502: False, 503: False}


@pytest.mark.parametrize(("status", "is_refused"), _IS_REFUSED.items())
def test_a_receiver_that_is_busy_or_broken_holds_up_the_route_and_one_that_refuses_a_message_does_not(
    hold: Hold, status: int, is_refused: bool
) -> None:
    first = hold.deliveries[0]
    first.tries = 2
    answer = outbound.Answer(status, "", "an error inside" if status == 200 else "", 1)
    results_record([Result(hold, first, answer), Result(hold, None)])
    row, route = Delivery.objects.get(pk=first.pk), Route.objects.get()
    assert (row.state, row.tries, row.is_in_order) == ("waiting", 3, not is_refused)
    assert route.resume_at == (None if is_refused else row.due_at)


@pytest.mark.parametrize(
    ("status", "asked_s", "least_s", "most_s"),
    [(429, 900, 900, 900), (503, 900, 900, 900), (500, 900, 4.5, 5.5), (429, 1, 4.5, 5.5), (400, 900, 4.5, 5.5)],
)
def test_a_receiver_is_given_the_pause_that_it_asks_for_if_it_says_that_it_is_busy(
    hold: Hold, monkeypatch: pytest.MonkeyPatch, status: int, asked_s: float, least_s: float, most_s: float
) -> None:
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)
    results_record([Result(hold, hold.deliveries[0], outbound.Answer(status, "", "", 1, asked_s))])
    due_at = Delivery.objects.get(pk=hold.deliveries[0].pk).due_at
    assert due_at is not None
    assert least_s <= (due_at - now).total_seconds() <= most_s
