"""Another process holds the lock of SQLite: reading goes on, and what writes is told at once to come again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.backends.signals import connection_created

from ingest.models import Job, Token
from tests.factories import api_of, make_incident, make_user
from triage.server import short_waits
from triage.server.short_waits import ShortWaits

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL locks rows"),
]
JOB = {"name": "llama"}


@pytest.fixture
def clock() -> list[float]:
    """The time of the waits; the test moves it."""
    return [0.0]


@pytest.fixture
def waits(clock: list[float]) -> Iterator[ShortWaits]:
    """The connection of the test as in a web process, with waits of 10 ms."""
    waits = ShortWaits(10, lambda: clock[0])
    connection.ensure_connection()
    with connection.execute_wrapper(waits):
        yield waits


@contextmanager
def locked() -> Iterator[None]:
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


def last_wait_ms() -> int:
    with connection.cursor() as cursor:
        return int(cursor.execute("PRAGMA busy_timeout").fetchone()[0])


def test_pages_and_reads_answer_and_writes_get_503_with_retry_after(client: Any, waits: ShortWaits) -> None:
    incident, eve = make_incident(accused=("gpu-7",)), make_user("eve", "engineer", is_superuser=True)
    client.force_login(eve)
    client.raise_request_exception = False
    api = api_of(eve, "read", "upload")
    job = incident.job.slug
    pages = ("/", "/incidents/", f"/incidents/{incident.pk}/", "/jobs/", f"/jobs/{job}/", "/statistics/", "/nodes/")
    with locked():
        found = {path: client.get(path).status_code for path in (*pages, "/routes/", "/metrics")}
        found |= {path: api.get(path).status_code for path in ("/api/v1/incidents/", f"/api/v1/jobs/{job}/")}
        refused = [api.post("/api/v1/jobs/", JOB), client.post(f"/incidents/{incident.pk}/decide/", {"claim": "stage"})]
    assert set(found.values()) == {200}, found
    assert [(answer.status_code, answer.headers["Retry-After"]) for answer in refused] == [(503, "5")] * 2
    assert Token.objects.get().last_used_at is None
    assert api.post("/api/v1/jobs/", JOB).status_code == 201
    assert api.get("/api/v1/jobs/").status_code == 200
    assert Token.objects.get().last_used_at is not None


def test_while_the_lock_is_held_one_request_at_a_time_waits_for_it(waits: ShortWaits, clock: list[float]) -> None:
    waited: list[int] = []

    def write() -> None:
        try:
            Job.objects.all().delete()
        finally:
            waited.append(last_wait_ms())

    with locked():
        for at in (0.0, 0.0, 0.01, 0.02, 0.03):
            clock[0] = at
            with pytest.raises(OperationalError):
                write()
    write()
    write()
    assert waited == [10, 0, 0, 10, 0, 0, 10]


def test_every_connection_of_a_web_process_waits_shortly_and_those_of_workers_do_not(settings: Any) -> None:
    settings.SQLITE_WEB_TIMEOUT_MS = 7
    before = len(connection_created.receivers)
    short_waits.install()
    try:
        connection.close()
        Job.objects.all().delete()
        assert last_wait_ms() == 7
    finally:
        connection_created.disconnect(dispatch_uid="triage.short_waits")
        connection.execute_wrappers.clear()
        connection.close()
    assert len(connection_created.receivers) == before
    Job.objects.all().delete()
    assert last_wait_ms() > 1000
