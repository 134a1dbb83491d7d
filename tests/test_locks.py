"""Rows are locked by one function, in one way: a rule over the syntax of all code that runs on the database."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.locks import lock_rows
from ingest.models import Job

ROOT = Path(__file__).resolve().parent.parent
HELPER = ROOT / "ingest" / "locks.py"
_SQL_LOCK = re.compile(r"\bFOR\s+(NO\s+KEY\s+)?(UPDATE|SHARE)\b|\bLOCK\s+TABLE\b")


def own_locks(tree: ast.AST) -> Iterator[int]:
    """The lines that lock rows without :func:`ingest.locks.lock_rows`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "select_for_update":
            yield node.lineno
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _SQL_LOCK.search(node.value):
            yield node.lineno


def test_rows_are_locked_by_one_function_alone() -> None:
    files = [path for folder in ("ingest", "triage") for path in (ROOT / folder).rglob("*.py") if path != HELPER]
    assert len(files) > 100
    found = [f"{path.relative_to(ROOT)}:{line}" for path in files for line in own_locks(ast.parse(path.read_text()))]
    assert not found, "lock rows with ingest.locks.lock_rows: its docstring has the order of locks"


@pytest.mark.parametrize(
    "code",
    [
        "Job.objects.select_for_update().get(pk=1)",
        "lock = Job.objects.select_for_update\nlock()",
        "cursor.execute('SELECT 1 FROM ingest_job FOR UPDATE')",
    ],
)
def test_a_lock_of_its_own_is_found(code: str) -> None:
    assert list(own_locks(ast.parse(code))) == [1]


def test_a_lock_waits_for_no_foreign_key_and_takes_no_row_of_another_table() -> None:
    query = lock_rows(Job.objects.select_related("cluster")).query
    assert (query.select_for_update, query.select_for_update_of) == (True, ("self",))
    assert query.select_for_no_key_update
    assert query.order_by == ("pk",)
