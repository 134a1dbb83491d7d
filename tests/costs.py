"""What tests cost in seconds of CPU: ``pytest -p tests.costs --costs=10`` lists the costliest tests, fixtures, files.

Unlike ``--durations`` the figures do not depend on what else the machine does, and processes that a test starts count:
workers, web servers and browsers, as long as they live or were waited for. A fixture of a module or session has a row
of its own, so that the first test that asks for it is not blamed. Costs of collecting are the row "collecting".
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", type=int, default=0, help="print that many of the costliest tests, fixtures and files")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--costs"):
        config.pluginmanager.register(_Costs(config.getoption("--costs")))


def cpu_s() -> float:
    """CPU seconds of this process, of the children that it waited for, and of all that lives below it."""
    times = os.times()
    return sum(times[:4]) + (_of_living() if _has_children() else 0.0)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _of_living() -> float:
    """CPU seconds of all descendants, with those of theirs that ended, where the system lists the children of each
    thread. To look at all processes of the machine after each test would cost more than many a test.
    """
    used, fresh = 0, _children(os.getpid())
    while fresh:
        pid = fresh.pop()
        with contextlib.suppress(OSError):  # it has ended meanwhile
            used += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
            fresh += _children(pid)
    return used / _TICKS


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has ended meanwhile, or there is no such folder
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  # a tenth of the time
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


class _Costs:
    def __init__(self, shown: int) -> None:
        self._shown = shown
        self._tests: Counter[str] = Counter()
        self._fixtures: Counter[str] = Counter()
        self._files: Counter[str] = Counter()
        self._apart = 0.0  # spent in wider fixtures, which the test that runs is not blamed for
        self._told = (
            0.0  # when the last test had ended: each reading looks at all processes, so that none is taken twice
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        result = yield
        self._fixtures["collecting"] = self._told = cpu_s()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        began, self._apart = self._told, 0.0
        result = yield
        self._told = cpu_s()
        # what ended without being waited for, as at the end of a session, takes its seconds along
        cost = max(0.0, self._told - began - self._apart)
        self._tests[item.nodeid] += cost
        self._files[item.nodeid.partition("::")[0]] += cost
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        if fixturedef.scope in ("function", "class"):  # pytest-django has one of a class for each function
            return (yield)
        began, inner = cpu_s(), self._apart
        result = yield
        cost = cpu_s() - began - (self._apart - inner)
        self._fixtures[f"{fixturedef.scope} {fixturedef.baseid}::{fixturedef.argname}"] += cost
        self._apart += cost
        return result

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for title, counted in (("tests", self._tests), ("fixtures", self._fixtures), ("files", self._files)):
            rows = [(name, cost) for name, cost in counted.most_common(self._shown) if cost >= 0.05]
            if rows:
                terminalreporter.section(f"costliest {title}, of {counted.total():.0f} CPU s")
            for name, cost in rows:
                terminalreporter.write_line(f"{cost:7.2f}  {name}")
