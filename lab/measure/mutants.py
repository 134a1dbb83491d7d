"""Changes of deciding modules that tests notice: `python -m lab.measure mutants [MODULE…] [--changed REVISION]`.

A seeded sample of the changes of :mod:`lab.measure.mutations` is made in each module of ``mutants.toml``, one at a
time, and the tests that are listed there run until one fails. Printed is each change that none notices, and the share
of those that one does. ``--check`` fails below the share that ``mutants.toml`` states.

The tests are collected once for each module; each change is made in a fork, which replaces the code of the changed
function, so that a change costs no start of Python. Only tests that run the changed lines are run, the fast ones first.
No file is written. A change that makes the tests run ten times as long counts as noticed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import pytest

from lab.measure.mutations import Mutation, mutations

_ROOT: Final = Path(__file__).resolve().parents[2]
_TABLE: Final = Path(__file__).with_suffix(".toml")
#: Seconds that a fork gets at least, and how many times the usual time of its tests.
_LEAST_S, _TIMES = 20.0, 10.0
_NOTICED, _UNNOTICED = 1, 0


@dataclass(slots=True)
class Result:
    """Of one module: the number of its changes, of those in the sample and noticed, and the others as ``diffs``."""

    module: str
    changes: int = 0
    made: int = 0
    noticed: int = 0
    diffs: list[list[str]] = field(default_factory=list)
    cpu_s: float = 0.0
    error: str = ""


@dataclass(slots=True)
class _Run:
    """A test: its seconds, and the lines of the module that it ran."""

    place: int
    seconds: float
    lines: set[int]


class Mutating:
    """A plugin of pytest that runs the collected tests once a change instead of once."""

    def __init__(self, path: Path, most: int, seed: int) -> None:
        self.path, self.most, self.seed = path, most, seed
        self.result = Result(path.relative_to(_ROOT).as_posix())
        self._on_failure: Callable[[], None] = lambda: None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._on_failure()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        source = self.path.read_text(encoding="utf-8")
        every = list(mutations(source))
        runs = self._usual_runs(session.items)
        chosen = random.Random(f"{self.seed} {self.result.module}").sample(every, min(self.most, len(every)))
        self.result.changes = len(every)
        for change in sorted(chosen, key=lambda one: one.begin):
            changed_lines = range(change.first_line, change.last_line + 1)
            telling = sorted((run for run in runs if run.lines.intersection(changed_lines)), key=lambda r: r.seconds)
            items = [session.items[run.place] for run in telling]
            limit_s = _LEAST_S + _TIMES * sum(run.seconds for run in telling)
            if items and self._is_noticed(items, source, change, limit_s):
                self.result.noticed += 1
            else:
                place = f"{self.result.module}:{change.first_line} {change.operator}"
                self.result.diffs.append([place, *change.diff(source)])
            self.result.made += 1
        return True

    def _usual_runs(self, items: list[pytest.Item]) -> list[_Run]:
        """The tests without a change, in a fork, so that this process stays as it is."""
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            _silence()
            with os.fdopen(writer, "w") as file:
                for row in self._watched_runs(items):
                    file.write(json.dumps(row) + "\n")
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as file:
            rows = [json.loads(line) for line in file]
        os.waitpid(pid, 0)
        if len(rows) < len(items):
            self.result.error = f"{len(items) - len(rows)} of its {len(items)} tests fail without a change"
        return [_Run(place, seconds, set(lines)) for place, seconds, lines in rows]

    def _watched_runs(self, items: list[pytest.Item]) -> Iterator[tuple[int, float, list[int]]]:
        """Place, seconds and lines of each test that passes."""
        lines: set[int] = set()
        failed: list[bool] = []
        self._on_failure = lambda: failed.append(True)
        watch = sys.monitoring
        watch.use_tool_id(watch.COVERAGE_ID, "mutants")
        watch.register_callback(watch.COVERAGE_ID, watch.events.LINE, lambda _, line: lines.add(line))
        # a lambda of one line has no event of its line
        watch.register_callback(
            watch.COVERAGE_ID, watch.events.PY_START, lambda code, _: lines.add(code.co_firstlineno)
        )
        for function in _functions_of(self.path):
            for code in _nested(function.__code__):
                watch.set_local_events(watch.COVERAGE_ID, code, watch.events.LINE | watch.events.PY_START)
        for place in range(len(items)):
            lines.clear()
            failed.clear()
            begun = time.perf_counter()
            _run(items, place)
            if not failed:
                yield place, time.perf_counter() - begun, sorted(lines)

    def _is_noticed(self, items: list[pytest.Item], source: str, change: Mutation, limit_s: float) -> bool:
        pid = os.fork()
        if not pid:
            _silence()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(int(limit_s) + 1)
            self._on_failure = lambda: os._exit(_NOTICED)
            _replace_code(self.path, change.apply(source))
            for place in range(len(items)):
                _run(items, place)
            os._exit(_UNNOTICED)
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status) != _UNNOTICED


def _run(items: list[pytest.Item], place: int) -> None:
    following = items[place + 1] if place + 1 < len(items) else None
    items[place].config.hook.pytest_runtest_protocol(item=items[place], nextitem=following)


def _silence() -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)


def _functions_of(path: Path) -> list[FunctionType]:
    """The functions that live in this process and come from the file, also those that decorators hold."""
    gc.unfreeze()  # frozen objects are not listed
    functions = (one for one in gc.get_objects() if isinstance(one, FunctionType))
    return [function for function in functions if function.__code__.co_filename == str(path)]


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _replace_code(path: Path, source: str) -> None:
    """Give each function of the file the code of the changed source, found by its name and line."""
    codes = {(code.co_qualname, code.co_firstlineno): code for code in _nested(compile(source, str(path), "exec"))}
    for function in _functions_of(path):
        own = function.__code__
        code = codes.get((own.co_qualname, own.co_firstlineno))
        if code is not None and code.co_freevars == own.co_freevars:
            function.__code__ = code


def judge(module: str, tests: list[str], most: int, seed: int) -> Result:
    """Make the changes of one module, given as its path, in this process and its forks."""
    os.chdir(_ROOT)
    plugin = Mutating(_ROOT / module, most, seed)
    apps = [] if module.startswith(("ingest/", "triage/")) else ["-p", "no:django"]
    quiet = ["-q", "--no-header", "--capture=no", "-p", "no:cacheprovider", "-p", "no:playwright", "-p", "no:xdist"]
    quiet += ["-W", "ignore:This process:DeprecationWarning", "--disable-warnings"]  # each fork has one thread
    with suppress(SystemExit):
        code = pytest.main(["-o", "addopts=--import-mode=importlib", *quiet, *apps, *tests], plugins=[plugin])
        if not plugin.result.made and not plugin.result.error:
            plugin.result.error = f"its tests cannot be collected: pytest ends with {int(code)}"
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    plugin.result.cpu_s = sum(one.ru_utime + one.ru_stime for one in spent)
    return plugin.result


def _changed_paths(revision: str) -> set[str]:
    """The files that differ from a revision of git, and the folders that hold one."""
    command = ["git", "diff", "--name-only", revision]
    found = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True).stdout.split()
    return {*found, *(str(folder) for path in found for folder in Path(path).parents)}


def _print(result: Result) -> None:
    for place, *lines in result.diffs:
        print(f"\n{place}")
        print("\n".join(f"  {line}" for line in lines))
    share = result.noticed / max(1, result.made)
    print(
        f"\n{result.module}: {result.noticed} of {result.made} noticed ({share:.0%}; {result.changes} possible), "
        f"{result.cpu_s:.0f} s of CPU {result.error}",
        flush=True,
    )


def main() -> int:
    """Print the changes that no test notices, and the shares."""
    table: dict[str, Any] = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("modules", nargs="*", help="paths of modules, or parts of them; without: all of mutants.toml")
    options.add_argument("--most", type=int, default=table["changes"], help="changes of each module")
    options.add_argument("--seed", type=int, default=1, help="of the sample")
    options.add_argument("--jobs", type=int, default=1, help="modules at a time")
    options.add_argument("--check", action="store_true", help="fail below the share of mutants.toml")
    options.add_argument("--changed", metavar="REVISION", help="only modules that differ from it, or whose tests do")
    chosen = options.parse_args()
    wanted: dict[str, list[str]] = {
        module: tests
        for module, tests in table["tests"].items()
        if not chosen.modules or any(part in module for part in chosen.modules)
    }
    if chosen.changed:
        paths = _changed_paths(chosen.changed)
        wanted = {module: tests for module, tests in wanted.items() if not paths.isdisjoint([module, *tests])}
    results: list[Result] = []
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        given = [processes.submit(judge, module, tests, chosen.most, chosen.seed) for module, tests in wanted.items()]
        for future in given:
            results.append(future.result())
            _print(results[-1])
    made, noticed = sum(one.made for one in results), sum(one.noticed for one in results)
    cpu_s = sum(one.cpu_s for one in results)
    print(f"\nall: {noticed} of {made} noticed ({noticed / max(1, made):.0%}), {cpu_s:.0f} s of CPU")
    is_low = any(one.error or one.noticed < table["least"] * one.made for one in results)
    return int(chosen.check and is_low)
