"""The same decision or act again writes nothing: by the API, on pages, for many incidents, and at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.utils import timezone

from tests.factories import api_of, make_incident, make_user
from tests.pages import page_text
from triage.models import Activity, Decision, Delivery, Group, Incident, Route
from triage.services.reviewing import decision_make, decision_undo, incident_act
from triage.services.reviewing_many import incidents_decide

pytestmark = pytest.mark.django_db

CONFIRM = {"claim": "category", "word": "confirm"}


@pytest.fixture
def eve() -> Any:
    return make_user("eve", "engineer", is_superuser=True)


@pytest.fixture
def chat(eve: Any, monkeypatch: pytest.MonkeyPatch) -> Route:
    monkeypatch.setattr("triage.services.outbox.routes_wake", lambda: None)
    return Route.objects.create(
        owner=eve, name="chat", kind="webhook", url="https://chat.example/", events=["incident.decided"]
    )


def written() -> tuple[int, int, int]:
    acts = Activity.objects.filter(kind="decided")
    return Decision.objects.count(), acts.count(), Delivery.objects.count()


def test_the_api_answers_200_to_the_same_decision_and_nothing_is_written(eve: Any, chat: Route) -> None:
    incident, api = make_incident(), api_of(eve, "review")
    address = f"/api/v1/incidents/{incident.pk}/decisions/"
    first = api.post(address, {**CONFIRM, "reason": "DCGM says so"})
    again = [api.post(address, {**CONFIRM, "reason": reason}) for reason in ("", "DCGM says so")]
    assert [first.status_code, *(answer.status_code for answer in again)] == [201, 200, 200]
    assert all(answer.json() == first.json() for answer in again)
    assert written() == (1, 1, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"word": "reject"},
        {"word": "correct", "value": "hardware.gpu.ecc"},
        {"reason": "another reason"},
        {"claim": "suspect", "subject": "gpu-7"},
    ],
)
def test_another_decision_is_written(eve: Any, chat: Route, change: dict[str, str]) -> None:
    incident, api = make_incident(accused=("gpu-7",)), api_of(eve, "review")
    address = f"/api/v1/incidents/{incident.pk}/decisions/"
    answers = [api.post(address, CONFIRM | more) for more in ({}, change)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert written() == (2, 2, 2)


def test_the_decision_of_another_person_or_after_an_undo_is_written(eve: Any) -> None:
    incident = make_incident()
    decision_make(incident=incident, by=eve, **CONFIRM)
    decision = decision_make(incident=incident, by=make_user("ian", "engineer"), **CONFIRM)
    assert not decision.is_repeat
    decision_undo(decision=decision, by=eve)
    assert decision_make(incident=incident, by=eve, **CONFIRM).is_repeat, "what was said before counts again"
    assert Decision.objects.count() == 2


def test_the_same_decision_again_does_not_reopen_a_resolved_incident(eve: Any) -> None:
    incident = make_incident()
    decision_make(incident=incident, by=eve, **CONFIRM)
    incident_act(incident=incident, act="resolved", by=eve)
    decision_make(incident=incident, by=eve, **CONFIRM)
    assert Incident.objects.get().state == "resolved"


def test_pages_say_that_nothing_changed(client: Any, eve: Any, chat: Route) -> None:
    incident = make_incident(accused=("gpu-7",))
    client.force_login(eve)
    form = {"suspect": "gpu-7", "claim": "category"}
    pages = [client.post(f"/incidents/{incident.pk}/decide/", form, follow=True) for _ in range(3)]
    said = ["You decided this already" in page_text(page) for page in pages]
    assert said == [False, True, True]
    assert written() == (2, 2, 2), "the category and the suspect"


def test_of_many_incidents_those_judged_so_before_stay_as_they_are(client: Any, eve: Any, chat: Route) -> None:
    first, second = make_incident(), make_incident()
    incidents_decide(incidents=[first], word="confirm", by=eve)
    client.force_login(eve)
    form = {"act": "confirm", "id": [first.pk, second.pk], "expected": "2"}
    pages = [page_text(client.post("/incidents/bulk/", form, follow=True)) for _ in range(2)]
    assert "1 of 2 incidents. You had already judged the other 1 in this way." in pages[0]
    assert "You had already judged 2 incidents in this way: nothing changed." in pages[1]
    assert written() == (2, 2, 2)


@pytest.mark.django_db(transaction=True)
def test_the_same_decision_many_times_at_once_is_one_decision_and_one_message(eve: Any, chat: Route) -> None:
    incident = make_incident()

    def decide(_: int) -> bool:
        try:
            return decision_make(incident=incident, by=eve, **CONFIRM).is_repeat
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        repeats = list(pool.map(decide, range(16)))
    assert repeats.count(False) == 1
    assert written() == (1, 1, 1)


ACTS = {
    "act": [{"act": "snoozed", "hours": "24"}, {"act": "resolved"}],
    "assign": [{"assignee": "me"}, {"assignee": ""}],
    "comment": [{"body": "DCGM says so"}, {"body": "It says more"}],
}


@pytest.mark.parametrize("name", ACTS)
def test_an_act_that_is_sent_twice_within_seconds_is_written_once(eve: Any, client: Any, name: str) -> None:
    incident = make_incident()
    decision_make(incident=incident, by=eve, **CONFIRM)
    client.force_login(eve)
    address, count = f"/incidents/{incident.pk}/{name}/", Activity.objects.count()
    one, other = ACTS[name]
    with time_machine.travel(timezone.now(), tick=False) as clock:
        for form, expected in ((one, 1), (one, 1), (other, 2), (one, 3)):
            clock.shift(timedelta(seconds=1))
            client.post(address, form)
            assert Activity.objects.count() == count + expected
        clock.shift(timedelta(minutes=1))
        client.post(address, one)
        assert Activity.objects.count() == count + 4, "a minute later it is meant"


def test_the_second_click_offers_to_undo_the_first(eve: Any, client: Any) -> None:
    incident = make_incident()
    client.force_login(eve)
    for _ in range(2):
        page = page_text(client.post(f"/incidents/{incident.pk}/assign/", {"assignee": "me"}, follow=True))
    act = Activity.objects.get(kind="assigned")
    assert str(act.request_id) in page


@pytest.mark.parametrize("act", ["assign", "merge"])
def test_an_act_on_many_that_is_sent_twice_is_written_once_and_offers_the_same_undo(
    eve: Any, client: Any, act: str
) -> None:
    form = {"act": act, "id": [make_incident().pk, make_incident().pk], "expected": "2"}
    client.force_login(eve)
    pages = [page_text(client.post("/incidents/bulk/", form, follow=True)) for _ in range(2)]
    acts = Activity.objects.exclude(kind="diagnosed")
    assert acts.count() == 2
    assert Group.objects.count() == (act == "merge")
    assert all(str(acts[0].request_id) in page for page in pages)


def test_what_somebody_has_already_is_not_assigned_again(eve: Any, client: Any) -> None:
    mine, other = make_incident(assignee=eve), make_incident()
    client.force_login(eve)
    client.post("/incidents/bulk/", {"act": "assign", "id": [mine.pk, other.pk], "expected": "2"})
    assert Activity.objects.get(kind="assigned").incident == other
    later = {"act": "assign", "id": [mine.pk], "expected": "1"}
    assert "eve had #" in page_text(client.post("/incidents/bulk/", later, follow=True))
