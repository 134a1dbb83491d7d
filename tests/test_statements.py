"""Which tests repeat on a database what other tests send it, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection

from tests.statements import _Statements, repeats, shape_of


def test_statements_that_differ_in_values_alone_are_one() -> None:
    assert shape_of("SELECT a FROM t WHERE b IN (%s, %s) LIMIT 21") == shape_of(
        "SELECT a FROM t WHERE b IN (%s) LIMIT 5"
    )
    assert shape_of("INSERT INTO t (a) VALUES (%s), (%s)") == shape_of("INSERT INTO t (a) VALUES (%s)")
    assert shape_of("SAVEPOINT s139_x7") == shape_of("SAVEPOINT s140_x12")
    assert shape_of("SELECT a FROM t WHERE b = 'x'") != shape_of("SELECT a FROM t WHERE c = 'x'")


def test_of_tests_that_send_the_same_one_stays() -> None:
    sent = {"dear": {"a", "b"}, "cheap": {"a", "b"}, "alone": {"a", "c"}}
    assert repeats(sent, {"cheap": 1.0, "dear": 5.0, "alone": 9.0}) == ["dear"]


@pytest.mark.django_db
def test_what_a_test_sends_is_noted(tmp_path: Path) -> None:
    noting = _Statements(tmp_path / "listed.txt")
    loop = noting.pytest_runtestloop()
    next(loop)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 41")
    loop.close()
    assert noting._sent[""] == {"SELECT …"}
