"""SQLite plans with statistics that workers refresh as the database grows; a small database has none."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ingest.services import planner_statistics
from ingest.services.planner_statistics import statistics_refresh

pytestmark = pytest.mark.django_db
SIZE_THEN = "planner-statistics-bytes"


@pytest.fixture(autouse=True)
def no_earlier_statistics() -> None:
    cache.delete(SIZE_THEN)


def sent() -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        statistics_refresh()
    return [query["sql"] for query in queries if not query["sql"].startswith(("PRAGMA", "SELECT"))]


def test_statistics_are_made_once_and_again_when_sqlite_has_grown_by_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_statistics, "LEAST_BYTES", 0)
    made = ["ANALYZE"] if connection.vendor == "sqlite" else []  # PostgreSQL keeps its own
    assert sent() == made
    assert sent() == []
    cache.set(SIZE_THEN, cache.get(SIZE_THEN, 0) * 0.79)
    assert sent() == made


def test_a_small_database_has_no_statistics() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL keeps its own")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        statistics_refresh()
        cursor.execute("SELECT count(*) FROM sqlite_stat1")
        assert cursor.fetchone() == (0,)
