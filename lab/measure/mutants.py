"""Changes of deciding modules that tests notice: `python -m lab.measure mutants [MODULE…] [--changed REVISION]`.

``--changed recent --lines --seconds 20 --check`` is the gate of ``make test``: of the lines that differ from where the
branch left main (on main, from some commits ago), as many changes as that CPU time allows. Modules with the most such
lines come first. Without that history it says so and passes.

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
import math
import os
import random
import resource
import signal
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import pytest

from lab.measure import changes
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
    #: changes of its sample are not made, because the time was over
    is_late: bool = False


@dataclass(slots=True)
class _Run:
    """A test: its seconds, and the lines of the module that it ran."""

    place: int
    seconds: float
    lines: set[int]


@dataclass(frozen=True, slots=True)
class Sample:
    """Which changes of a module are made. ``lines``: of these lines alone; without: of all. No change begins after
    so many CPU ``seconds`` of its process and their forks: they depend little on the load.
    """

    most: int
    seed: int
    lines: frozenset[int] | None = None
    seconds: float = math.inf

    def choose(self, module: str, source: str) -> list[Mutation]:
        """All changes of these lines, in the order of the seed."""
        every = [change for change in mutations(source) if self._holds(change)]
        random.Random(f"{self.seed} {module}").shuffle(every)
        return every

    def _holds(self, change: Mutation) -> bool:
        own = range(change.first_line, change.last_line + 1)
        return self.lines is None or not self.lines.isdisjoint(own)


class Mutating:
    """A plugin of pytest that runs the collected tests once a change instead of once."""

    def __init__(self, path: Path, sample: Sample) -> None:
        self.path, self.sample = path, sample
        self.result = Result(path.relative_to(_ROOT).as_posix())
        self._on_failure: Callable[[], None] = lambda: None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._on_failure()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        source = self.path.read_text(encoding="utf-8")
        chosen = self.sample.choose(self.result.module, source)
        self.result.changes = len(chosen)
        runs = self._usual_runs(session.items)
        for change in chosen[: self.sample.most]:
            if _cpu_s() >= self.sample.seconds:
                self.result.is_late = True
                break
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


def judge(module: str, tests: list[str], sample: Sample) -> Result:
    """Make the changes of one module, given as its path, in this process and its forks."""
    os.chdir(_ROOT)
    plugin = Mutating(_ROOT / module, sample)
    apps = [] if module.startswith(("ingest/", "triage/")) else ["-p", "no:django"]
    quiet = ["-q", "--no-header", "--capture=no", "-p", "no:cacheprovider", "-p", "no:playwright", "-p", "no:xdist"]
    quiet += ["-W", "ignore:This process:DeprecationWarning", "--disable-warnings"]  # each fork has one thread
    with suppress(SystemExit):
        code = pytest.main(["-o", "addopts=--import-mode=importlib", *quiet, *apps, *tests], plugins=[plugin])
        if not (plugin.result.made or plugin.result.error or plugin.result.is_late):
            plugin.result.error = f"its tests cannot be collected: pytest ends with {int(code)}"
    plugin.result.cpu_s = _cpu_s()
    return plugin.result


def _cpu_s() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def _samples(table: dict[str, Any], chosen: argparse.Namespace) -> dict[str, Sample]:
    """The modules to change, those with the most changed lines first."""
    whole = Sample(chosen.most, chosen.seed)
    every = [
        module for module in table["tests"] if not chosen.modules or any(part in module for part in chosen.modules)
    ]
    if not chosen.changed:
        return dict.fromkeys(every, whole)
    if not chosen.lines:
        paths = changes.changed_paths(chosen.changed)
        differing = [module for module in every if not paths.isdisjoint([module, *table["tests"][module]])]
        return dict.fromkeys(differing, whole)
    lines = changes.changed_lines(chosen.changed)
    changed = sorted((module for module in every if lines.get(module)), key=lambda module: -len(lines[module]))
    return {module: replace(whole, lines=lines[module]) for module in changed}


def _results(table: dict[str, Any], samples: dict[str, Sample], chosen: argparse.Namespace) -> Iterator[Result]:
    """Of each module; where time is limited, of one after the other until it is over."""
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        if math.isinf(chosen.seconds):
            given = [processes.submit(judge, module, table["tests"][module], samples[module]) for module in samples]
            yield from (future.result() for future in given)
            return
        left = chosen.seconds
        for module, sample in samples.items():
            if left > 0:
                bounded = replace(sample, seconds=left)
                result = processes.submit(judge, module, table["tests"][module], bounded).result()
                yield result
                left -= result.cpu_s


def _print(result: Result) -> None:
    for place, *lines in result.diffs:
        print(f"\n{place}")
        print("\n".join(f"  {line}" for line in lines))
    share = result.noticed / max(1, result.made)
    print(
        f"\n{result.module}: {result.noticed} of {result.made} noticed ({share:.0%}; {result.changes} possible), "
        f"{result.cpu_s:.0f} s of CPU {result.error}{' the time is over' if result.is_late else ''}",
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
    options.add_argument("--changed", metavar="REVISION", help="only modules that differ from it; recent: from main")
    options.add_argument("--lines", action="store_true", help="of those modules, only the lines that differ")
    options.add_argument("--seconds", type=float, default=math.inf, help="of CPU; no change begins later")
    chosen = options.parse_args()
    try:
        samples = _samples(table, chosen)
    except changes.NoHistory as error:
        print(error)
        return 0
    results: list[Result] = []
    for result in _results(table, samples, chosen):
        results.append(result)
        _print(result)
    made, noticed = sum(one.made for one in results), sum(one.noticed for one in results)
    cpu_s = sum(one.cpu_s for one in results)
    print(f"\nall: {noticed} of {made} noticed ({noticed / max(1, made):.0%}), {cpu_s:.0f} s of CPU")
    if chosen.lines:  # of few changes a share says little
        is_low = made - noticed > max(table["unnoticed"], (1 - table["least"]) * made)
    else:
        is_low = any(one.noticed < table["least"] * one.made for one in results)
    return int(chosen.check and (is_low or any(one.error for one in results)))
