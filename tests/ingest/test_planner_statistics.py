"""SQLite plans with statistics that workers refresh as the database grows."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ingest.services.planner_statistics import statistics_refresh

pytestmark = pytest.mark.django_db


def was_analysed() -> bool:
    with CaptureQueriesContext(connection) as queries:
        statistics_refresh()
    return any("ANALYZE" in query["sql"] for query in queries)


def test_statistics_are_made_once_and_again_when_sqlite_has_grown_by_a_quarter() -> None:
    is_sqlite = connection.vendor == "sqlite"  # PostgreSQL keeps its own
    cache.delete("planner-statistics")
    assert was_analysed() == is_sqlite
    assert not was_analysed()
    cache.set("planner-statistics", cache.get("planner-statistics", 0) * 0.79)
    assert was_analysed() == is_sqlite
