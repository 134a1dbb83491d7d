"""``make test``: every check of this project; if one stage fails, the command fails.

Short stages run while what all tests share is made. Then the longest ones begin first, and each is one process, so that
nothing is loaded twice. As many take turns as there are processors. Browsers and servers leave a processor idle at
times, so stages that wait for such programs run beside them, and all others at a lower priority. The output of a stage
is shown when it has ended; the last line counts all tests, like pytest.
`python -m scripts.check NAME…` runs the named stages only.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from scripts.chromium import find_or_install
from scripts.services import postgres
from triage.places import ROOT
from triage.serve.children import ServiceError

PYTHON = sys.executable
#: The checks test only this checkout, so variables of the shell for another server must not change them. Nor may a
#: shell's variable make each of the hundred processes compile all modules again.
UNSET = frozenset({"DATABASE_URL", "REDIS_URL", "PYTHONDONTWRITEBYTECODE"})
#: They share the cores: more threads of polars for each stage only cost processor time.
_FOR_ALL = {"PYTHONUNBUFFERED": "1", "POLARS_MAX_THREADS": "1"}
#: CPU seconds, because many stages run at a time and durations would depend on the load
PYTEST = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.costs", "--costs=10"]
#: Tests of the engine, of logs and of pages are separate stages; all other tests are below ``tests`` too. A stage that
#: holds more would end after all others, alone on one of two cores; so the short ones come last.
_ENGINE = "tests/diagnosis"
_KINDS = "tests/diagnosis/kinds"
_LOGS = "tests/diagnosis/kinds/logs"
_FUZZERS = "tests/fuzz"
_PAGES = "tests/triage"
#: each plugin takes half a millisecond of each test
_WITHOUT_BROWSER = ("-p", "no:playwright", "-p", "no:anyio")
#: without it, its settings are an unknown option
_WITHOUT_DJANGO = ("-p", "no:django", "-W", "ignore::pytest.PytestConfigWarning")
#: added to the niceness of stages that wait for nothing
_NICENESS = 5
#: Of the stages that only compute so many run at a time. More displace each other's data from the caches, so that all
#: take more processor time.
PROCESSORS = os.cpu_count() or 1
#: the counts in pytest's last line
_TEST_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)")


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    argv: Sequence[str]
    #: a service that must run meanwhile; yields more environment variables
    service: Callable[[], contextlib.AbstractContextManager[dict[str, str]]] = contextlib.nullcontext  # type: ignore[assignment]
    #: the stage that must have ended before, if it was requested
    after: str = ""
    #: it takes no turn: it waits for programs that it starts
    is_beside: bool = False


@contextlib.contextmanager
def _postgres() -> Iterator[dict[str, str]]:
    # What tests insert is rolled back. A table that is vacuumed between two of them is planned as an empty one, and
    # a query on what the next test inserts takes minutes of the processor.
    with postgres("autovacuum=off") as url:
        yield {"DATABASE_URL": url}


@contextlib.contextmanager
def _deno() -> Iterator[dict[str, str]]:
    """Variables for deno: no check for a newer version, no files in the home directory, local time is not UTC."""
    with tempfile.TemporaryDirectory() as kept:
        yield {"DENO_DIR": kept, "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1", "TZ": "Asia/Kolkata"}


@contextlib.contextmanager
def _browser() -> Iterator[dict[str, str]]:
    yield {"FAULTLINE_CHROMIUM": find_or_install()}


def _tests(name: str, *arguments: str, service: Any = contextlib.nullcontext, is_beside: bool = False) -> Stage:
    """A run of pytest."""
    argv = [*PYTEST, *(() if service is _browser else _WITHOUT_BROWSER), *arguments]
    return Stage(name, argv, service, after=_PREPARED, is_beside=is_beside)


def _ignore_options(*paths: str) -> list[str]:
    return [f"--ignore={path}" for path in paths]


_PREPARED = "what all tests share"
_TEMPLATES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "templates").rglob("*.html"))
#: No change begins after so many seconds of CPU, so the stage takes little longer.
_MUTANTS = ("--changed", "recent", "--lines", "--seconds", "20", "--most", "8", "--check")
_SCRIPTS = ("static/js", "tests/page_scripts")
_DENO_TEST = ("deno", "test", "--no-check", "--no-remote", "--no-npm", "--allow-read=.", "--location=http://localhost")
#: Short ones first, while what all tests share is made; then the longest ones.
STAGES = (
    Stage(_PREPARED, [PYTHON, "-m", "tests.prepare"]),
    Stage("mypy", [PYTHON, "-m", "mypy"]),
    Stage("openapi", [PYTHON, "-m", "scripts.openapi", "--check"]),
    Stage("migrations", [PYTHON, "manage.py", "makemigrations", "--check", "--dry-run"]),
    Stage("layers", ["lint-imports"]),
    Stage("ruff", [PYTHON, "-m", "ruff", "check", "--output-format", "concise", "."]),
    Stage("format", [PYTHON, "-m", "ruff", "format", "--check", "--output-format", "concise", "."]),
    Stage("scripts of pages", ["oxlint", "--deny-warnings", *_SCRIPTS]),
    Stage("types of scripts of pages", ["deno", "check", "--no-remote", "--no-npm", "static/js"], service=_deno),
    # the types of tests would need deno's own library, which pages do not have
    Stage("unit tests of scripts of pages", [*_DENO_TEST, "tests/page_scripts"], service=_deno),
    Stage("format of scripts of pages", ["oxfmt", "--check", *_SCRIPTS]),
    Stage("lines of pages", [PYTHON, "-m", "scripts.lines"]),
    Stage("density", [PYTHON, "-m", "scripts.density"]),
    Stage("format of templates", ["djade", "--check", "--target-version", "6.0", *_TEMPLATES]),
    _tests("tests in the browser", "tests/e2e", "-m", "e2e", service=_browser, is_beside=True),
    _tests("tests of pages on SQLite", _PAGES),
    _tests(
        "tests of the rest on SQLite",
        "tests",
        *_ignore_options(_PAGES, _ENGINE, _FUZZERS),
        "-m",
        "not e2e",
        is_beside=True,
    ),
    _tests("tests on PostgreSQL", "tests/ingest", "tests/triage", service=_postgres),
    _tests("tests of logs", _LOGS, *_WITHOUT_DJANGO),
    _tests("tests of the engine", _ENGINE, *_ignore_options(_KINDS), *_WITHOUT_DJANGO),
    _tests("tests of other kinds of evidence", _KINDS, *_ignore_options(_LOGS), *_WITHOUT_DJANGO),
    Stage("mutants of changed lines", [PYTHON, "-m", "lab.measure", "mutants", *_MUTANTS], after=_PREPARED),
    # it waits for nothing, but would take the last turn alone
    _tests("tests of the lab and fuzzers", "lab", _FUZZERS, is_beside=True),
)


@dataclass(slots=True)
class Runner:
    """Runs stages, and ends their processes if it is ended itself."""

    ended: dict[str, threading.Event]
    failed: list[str] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    _running: set[subprocess.Popen[str]] = field(default_factory=set)
    _speaking: threading.Lock = field(default_factory=threading.Lock)
    _is_over: bool = False

    def run_stage(self, stage: Stage) -> None:
        """Run one stage and print its result; the output of a test stage or a failed stage is printed in full. Its
        service starts, and is installed if need be, while it waits for another stage.
        """
        try:
            with stage.service() as variables:
                if stage.after in self.ended:
                    self.ended[stage.after].wait()
                if not self._is_over:
                    self._run_stage(stage, variables or {})
        except ServiceError as error:
            self._tell(stage, 1, str(error), 0)
        finally:
            self.ended[stage.name].set()

    def _run_stage(self, stage: Stage, variables: Mapping[str, str]) -> None:
        self._say(f"begins {stage.name}")
        began = time.monotonic()
        status, output = self._run(stage, variables)
        self._tell(stage, status, output, time.monotonic() - began)

    def _tell(self, stage: Stage, status: int, output: str, took_s: float) -> None:
        is_test = stage.argv[: len(PYTEST)] == PYTEST
        if is_test:
            self.counted.update(count_tests(output))
        if status:
            self.failed.append(stage.name)
        ended = f"{'FAILED' if status else 'ok    '} {stage.name} ({took_s:.0f} s)"
        self._say(f"{output.rstrip()}\n{ended}\n" if (is_test or status) else ended)

    def end(self) -> None:
        """Begin nothing more and end all processes; each process ends its own children."""
        self._is_over = True
        for process in list(self._running):
            process.terminate()

    def _run(self, stage: Stage, variables: Mapping[str, str]) -> tuple[int, str]:
        kept = {name: value for name, value in os.environ.items() if name not in UNSET}
        path = f"{Path(PYTHON).parent}{os.pathsep}{kept.get('PATH', '')}"
        process = subprocess.Popen(
            stage.argv,
            cwd=ROOT,
            env={**_FOR_ALL, **kept, "PATH": path, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._running.add(process)
        if not stage.is_beside:
            os.setpriority(os.PRIO_PROCESS, process.pid, os.nice(0) + _NICENESS)
        try:
            output, _ = process.communicate()
        finally:
            self._running.discard(process)
        return process.returncode, output

    def _say(self, text: str) -> None:
        with self._speaking:
            print(text, flush=True)


def count_tests(output: str) -> Counter[str]:
    """The counts in pytest's last line, by word."""
    lines = output.rstrip().splitlines()
    return Counter({word: int(number) for number, word in _TEST_COUNT.findall(lines[-1] if lines else "")})


def main(wanted: Sequence[str]) -> int:
    started = time.monotonic()
    names = [stage.name for stage in STAGES]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        print(f"No stage is called {unknown[0]!r}; there are: {', '.join(names)}", file=sys.stderr)
        return 2
    shutil.rmtree(ROOT / "test-results", ignore_errors=True)
    chosen = [stage for stage in STAGES if not wanted or stage.name in wanted]
    runner = Runner({stage.name: threading.Event() for stage in chosen})
    with ThreadPoolExecutor(len(chosen)) as beside, ThreadPoolExecutor(PROCESSORS) as in_turn:
        try:
            pools = [(beside if stage.is_beside else in_turn, stage) for stage in chosen]
            results = [pool.submit(runner.run_stage, stage) for pool, stage in pools]
            for result in results:
                result.result()
        except BaseException:  # a signal
            runner.end()
            raise
    took = time.monotonic() - started
    if runner.failed:
        print(f"\nFAILED after {took:.0f} s: {', '.join(runner.failed)}", flush=True)
        return 1
    del runner.counted["deselected"]  # another stage runs the tests that one stage leaves out
    counts = ", ".join(f"{number} {word}" for word, number in runner.counted.items())
    print(f"\n{counts or 'no tests, all checks passed'} in {took:.2f}s", flush=True)
    return 0


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit("Ended by a signal.")  # by an exception, so that services are stopped


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main(sys.argv[1:]))
