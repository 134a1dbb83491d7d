"""Diagnoses and messages at the same time on a real PostgreSQL: nobody ends in a deadlock, nothing is sent twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError, connection

from tests.factories import make_attempt, make_job, make_user
from tests.triage.report import sample
from triage.models import Delivery, Route
from triage.services import delivering, recording
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db(transaction=True)

ROUTES, DIAGNOSING, NOTIFYING, JOBS_EACH = 7, 3, 2, 12


@pytest.fixture
def unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    """No message wakes a worker: the test's own threads send."""
    monkeypatch.setattr("triage.services.outbox.routes_wake", lambda: None)
    monkeypatch.setattr("triage.services.delivering.routes_wake", lambda: None)


def make_routes(count: int, url: str) -> None:
    owner = make_user("mona", "manager", is_superuser=True)
    for number in range(count):
        events = ["incident.opened"]
        Route.objects.create(
            owner=owner, name=f"chat {number}", url=f"{url}/{number}", events=events, secret="whsec_AAAA"
        )


def deadlocks() -> int:
    """How many the server has written to its log since it started."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT sum(deadlocks) FROM pg_stat_database")
        return int(cursor.fetchone()[0])


def apart(act: Callable[[], None]) -> None:
    """Do it in a thread, whose connection is closed at the end."""
    try:
        act()
    finally:
        connection.close()


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no locks of rows")
def test_diagnoses_and_messages_at_the_same_time_meet_no_deadlock_and_nothing_comes_twice(
    receiver: Any, unheard: None
) -> None:
    make_routes(ROUTES, receiver.url)
    attempts = [make_attempt(make_job()) for _ in range(DIAGNOSING * JOBS_EACH)]
    before, are_stored = deadlocks(), threading.Event()

    def diagnose(number: int) -> None:
        for attempt in attempts[number::DIAGNOSING]:
            diagnosis_store(attempt=attempt, revision=1, report=sample())

    def notify() -> None:
        while not are_stored.is_set() or delivering.is_due():
            delivering.routes_send()

    with ThreadPoolExecutor(DIAGNOSING + NOTIFYING) as pool:
        notifying = [pool.submit(apart, notify) for _ in range(NOTIFYING)]
        diagnosing = [pool.submit(apart, lambda number=number: diagnose(number)) for number in range(DIAGNOSING)]
        try:
            for work in diagnosing:
                work.result()
        finally:
            are_stored.set()
        for work in notifying:
            work.result()

    assert deadlocks() == before
    came = Counter((path, headers["webhook-id"]) for path, headers, _ in receiver.got)
    assert len(came) == ROUTES * len(attempts)
    assert {message: n for message, n in came.items() if n > 1} == {}
    assert not Delivery.objects.exclude(state="delivered", is_repeated=False).exists()


def test_a_deadlock_repeats_the_recording_and_never_the_sending(
    receiver: Any, unheard: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = iter(["deadlock detected", "could not serialize access", "the connection is closed"])
    kept = recording._store_references

    def refused_at_the_end(*given: Any) -> None:
        kept(*given)
        if refusal := next(refusals, ""):
            raise OperationalError(refusal)

    monkeypatch.setattr(recording, "_store_references", refused_at_the_end)
    monkeypatch.setattr(recording, "_RECORD_AGAIN_S", (0.0,) * 5)
    make_routes(1, receiver.url)
    diagnosis_store(attempt=make_attempt(), revision=1, report=sample())
    delivering.routes_send()
    delivery = Delivery.objects.get()
    assert len(receiver.got) == 1
    assert (delivery.state, delivery.tries, len(delivery.attempts)) == ("delivered", 1, 1)
    assert next(refusals, None) is None, "all were met"


def test_a_database_that_refuses_while_messages_are_under_way_loses_no_result(
    receiver: Any, unheard: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker looks for other routes meanwhile, and meets the same outage there."""
    claim, are_refused = delivering._claim_routes, []

    def refused_after_the_first(*given: Any, **more: Any) -> Any:
        yield from claim(*given, **more)
        if not are_refused:
            are_refused.append(True)
            raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(delivering, "_claim_routes", refused_after_the_first)
    make_routes(2, receiver.url)
    diagnosis_store(attempt=make_attempt(), revision=1, report=sample())
    delivering.routes_send()
    delivering.routes_send()
    assert len(receiver.got) == 2
    assert set(Delivery.objects.values_list("state", "is_repeated")) == {("delivered", False)}
