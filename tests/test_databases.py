"""Which tests run on SQLite alone, and what keeps a file from being one of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ON_SQLITE_ALONE

TESTS = Path(__file__).parent
#: Transactions, locks, constraints, budgets of queries, SQL of one's own, aggregates, and values that a column of one
#: database takes and one of the other refuses.
SENSITIVE = re.compile(
    r"transaction=True|transactional_db|num_queries|IntegrityError|OperationalError|DataError|vendor|cursor\(|"
    r"select_for_update|\bCount\(|\bannotate\(|aggregate\(|RawSQL|SearchVector|test_query|\\x00|\\0"
)


@pytest.mark.parametrize("name", sorted(ON_SQLITE_ALONE))
def test_a_file_that_runs_on_sqlite_alone_asks_nothing_that_depends_on_the_database(name: str) -> None:
    assert sorted(set(SENSITIVE.findall((TESTS / name).read_text()))) == []
