"""Which tests may run on SQLite alone: with the address of a PostgreSQL, ``pytest -p tests.statements
--statements=tests/on_sqlite_alone.txt tests/ingest tests/triage`` adds to this file the tests that send a database
nothing but what other tests send it, too.

Statements count as equal if they differ in values alone. Tests in which other threads or processes use the database
stay, because they are about locks, and what others send is not seen. So do those with a word of :data:`SENSITIVE`, and
files about what databases do differently.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.costs import cpu_s

ROOT = Path(__file__).resolve().parent
#: Transactions, locks, constraints, budgets of queries, SQL of one's own, aggregates, and values that a column of one
#: database takes and one of the other refuses: a NUL in a text, not in bytes, which no column holds. Real transactions
#: alone are none: work on uploads begins at a commit.
SENSITIVE = re.compile(
    r"atomic|num_queries|IntegrityError|OperationalError|DataError|vendor|cursor\(|select_for_update|"
    r"\bCount\(|\bannotate\(|aggregate\(|RawSQL|SearchVector|test_query|(?<![\"\w])\"[^\"\n]*\\(?:x00|0)"
)
#: Seconds of CPU below which it is not worth a line.
MIN_S = 0.04
#: Files about what databases do differently: they sort, search, round, count, lock and migrate.
_OF_DATABASES = re.compile(
    r"search|sort|order|statistic|count|sums|lock|claim|migrat|planner|backup|odd_addresses|list|neighbours|deadlock|ends|queueing"
)
#: Fixtures with which other threads or processes use the database, too.
_OF_OTHER_CONNECTIONS = frozenset({"live_server", "queued", "start_worker", "worker", "broker"})
_VALUES = re.compile(r"'[^']*'|\b\d+\b|\bs\d+_x\d+\b")
_ROWS = re.compile(r"\((?:%s(?:, )?)+\)(?:, \((?:%s(?:, )?)+\))*")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--statements", default="", help="the file to which tests are added that may run on SQLite alone")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--statements"):
        config.pluginmanager.register(_Statements(Path(config.getoption("--statements"))))


def shape_of(sql: str) -> str:
    """The statement without its values, and without the number of rows or of values in a list."""
    return _ROWS.sub("(…)", _VALUES.sub("…", sql))


def repeats(sent: Mapping[str, set[str]], costs: Mapping[str, float]) -> list[str]:
    """The tests without which all statements are still sent, the costliest first; ``costs``: of those that may be left
    out. O(tests x statements of each).
    """
    senders = Counter(shape for shapes in sent.values() for shape in shapes)
    found = []
    for test in sorted(costs, key=lambda name: -costs[name]):
        if all(senders[shape] > 1 for shape in sent.get(test, ())):
            senders.subtract(sent.get(test, ()))
            found.append(test)
    return found


@cache
def _functions(path: Path) -> dict[str, str]:
    code = path.read_text(encoding="utf-8")
    parts = [part for part in ast.parse(code).body if isinstance(part, ast.FunctionDef)]
    return {part.name: ast.get_source_segment(code, part) or "" for part in parts}


def source_of(test: str) -> str:
    """The code of a test, ``ingest/test_x.py::test_y``; '' if there is none."""
    path, _, name = test.partition("::")
    return _functions(ROOT / path).get(name, "") if (ROOT / path).exists() else ""


class _Statements:
    def __init__(self, listed: Path) -> None:
        self._listed = listed
        self._sent: defaultdict[str, set[str]] = defaultdict(set)
        self._costs: Counter[str] = Counter()
        self._test = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        from django.db.backends.utils import CursorWrapper

        with pytest.MonkeyPatch.context() as patched:
            for name in ("execute", "executemany"):
                patched.setattr(CursorWrapper, name, self._noting(getattr(CursorWrapper, name)))
            return (yield)

    def _noting(self, execute: Any) -> Any:
        def noted(cursor: Any, sql: Any, params: Any = None) -> Any:
            self._sent[self._test].add(shape_of(str(sql)))
            return execute(cursor, sql, params)

        return noted

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._test = item.nodeid.removeprefix("tests/").partition("[")[0]
        began = cpu_s()
        result = yield
        if not _is_kept(self._test, item):
            self._costs[self._test] += cpu_s() - began
        return result

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        costs = {test: cost for test, cost in self._costs.items() if cost >= MIN_S}
        found = repeats(self._sent, costs)
        before = self._listed.read_text().split() if self._listed.exists() else []
        self._listed.write_text("".join(f"{test}\n" for test in sorted({*found, *filter(source_of, before)})))
        seconds = sum(costs[test] for test in found)
        terminalreporter.section(f"{len(found)} of {len(self._costs)} tests, {seconds:.0f} CPU s, send nothing new")


def _is_kept(test: str, item: pytest.Item) -> bool:
    """Whether a test runs on both databases whatever it sends."""
    fixtures = set(getattr(item, "fixturenames", ()))
    is_shared = bool(fixtures & _OF_OTHER_CONNECTIONS) or item.get_closest_marker("broker") is not None
    source = source_of(test)
    is_shared |= "Thread" in source
    return is_shared or not source or bool(_OF_DATABASES.search(test) or SENSITIVE.search(source))
