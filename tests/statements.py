"""Which tests may run on SQLite alone: ``pytest -p tests.statements --statements=30 tests/ingest tests/triage`` lists
the costliest tests that send a database nothing but what other tests send it, too, with their seconds of CPU.

Statements count as equal if they differ in values alone. What the processes send that a test starts is not seen, and
what a test is about is not known: whoever puts one of the list into `TESTS_ON_SQLITE_ALONE` reads it first.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from tests.costs import cpu_s

_VALUES = re.compile(r"'[^']*'|\b\d+\b|\bs\d+_x\d+\b")
_ROWS = re.compile(r"\((?:%s(?:, )?)+\)(?:, \((?:%s(?:, )?)+\))*")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--statements", type=int, default=0, help="list that many tests that may run on SQLite alone")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--statements"):
        config.pluginmanager.register(_Statements(config.getoption("--statements")))


def shape_of(sql: str) -> str:
    """The statement without its values, and without the number of rows or of values in a list."""
    return _ROWS.sub("(…)", _VALUES.sub("…", sql))


def repeats(sent: Mapping[str, set[str]], costs: Mapping[str, float]) -> list[str]:
    """The tests without which all statements are still sent, the costliest first.
    O(tests x statements of each).
    """
    senders = Counter(shape for shapes in sent.values() for shape in shapes)
    found = []
    for test in sorted(costs, key=lambda name: -costs[name]):
        if all(senders[shape] > 1 for shape in sent.get(test, ())):
            senders.subtract(sent.get(test, ()))
            found.append(test)
    return found


class _Statements:
    def __init__(self, shown: int) -> None:
        self._shown = shown
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
        self._test = item.nodeid.partition("[")[0]
        began = cpu_s()
        result = yield
        self._costs[self._test] += cpu_s() - began
        return result

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        found = repeats(self._sent, self._costs)
        terminalreporter.section(f"{len(found)} of {len(self._costs)} tests send nothing of their own")
        for name in found[: self._shown]:
            terminalreporter.write_line(f"{self._costs[name]:7.2f}  {name}")
