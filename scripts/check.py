"""``make test``: every check of this project, one stage after the other; a stage that fails fails the whole.

The cheap static checks come first and run side by side. The tests come last, so that pytest's own summary is the
last line of a good run. `python -m scripts.check NAME…` runs the named stages only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from scripts.chromium import find_or_install
from scripts.services import ROOT, ServiceError, postgres

PYTHON = sys.executable
#: The checks speak of this checkout alone: what a shell has set for a server of its own must not steer them. Nor do
#: the hundred processes that they start compile each module anew where a shell asks for that.
UNSET = frozenset({"DATABASE_URL", "REDIS_URL", "PYTHONDONTWRITEBYTECODE"})
PYTEST = [PYTHON, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "--durations=10", "--durations-min=1"]


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    argv: Sequence[str]
    #: what must run beside it; yields more environment variables
    beside: Callable[[], contextlib.AbstractContextManager[dict[str, str]]] = contextlib.nullcontext  # type: ignore[assignment]


@contextlib.contextmanager
def _postgres() -> Iterator[dict[str, str]]:
    with postgres() as url:
        yield {"DATABASE_URL": url}


@contextlib.contextmanager
def _browser() -> Iterator[dict[str, str]]:
    yield {"FAULTLINE_CHROMIUM": find_or_install()}


STATIC = (
    Stage("ruff", [PYTHON, "-m", "ruff", "check", "--output-format", "concise", "."]),
    Stage("format", [PYTHON, "-m", "ruff", "format", "--check", "--output-format", "concise", "."]),
    Stage("scripts of pages", ["oxlint", "--deny-warnings", "static/js"]),
    Stage("format of scripts of pages", ["oxfmt", "--check", "static/js"]),
    Stage("lines of pages", [PYTHON, "-m", "scripts.lines"]),
    Stage("mypy", [PYTHON, "-m", "mypy"]),
    Stage("layers", ["lint-imports"]),
    Stage("migrations", [PYTHON, "manage.py", "makemigrations", "--check", "--dry-run"]),
    Stage("openapi", [PYTHON, "-m", "scripts.openapi", "--check"]),
)
TESTS = (
    Stage("tests on PostgreSQL", [*PYTEST, "tests/ingest", "tests/triage"], _postgres),
    Stage("tests on SQLite and in the browser", PYTEST, _browser),
)


def run(stage: Stage, *, capture: bool) -> tuple[int, str]:
    """Run one stage; returns its status and, when captured, its output."""
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    env = {**kept, "PATH": f"{Path(PYTHON).parent}{os.pathsep}{kept.get('PATH', '')}", "PYTHONUNBUFFERED": "1"}
    with stage.beside() as more:
        done = subprocess.run(
            stage.argv,
            cwd=ROOT,
            env={**env, **(more or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if capture else None,
            stderr=subprocess.STDOUT if capture else None,
            text=True,
            check=False,
        )
    return done.returncode, done.stdout or ""


def main(wanted: Sequence[str]) -> int:
    failed: list[str] = []
    started = time.monotonic()

    def report(stage: Stage, status: int, began: float, output: str = "") -> None:
        print(f"{'ok    ' if status == 0 else 'FAILED'} {stage.name} ({time.monotonic() - began:.0f} s)", flush=True)
        if status:
            failed.append(stage.name)
            print(output, flush=True)

    def captured(stage: Stage) -> None:
        began = time.monotonic()
        status, output = run(stage, capture=True)
        report(stage, status, began, output)

    names = [stage.name for stage in STATIC + TESTS]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        print(f"No stage is called {unknown[0]!r}; there are: {', '.join(names)}", file=sys.stderr)
        return 2
    shutil.rmtree(ROOT / "test-results", ignore_errors=True)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(captured, [stage for stage in STATIC if not wanted or stage.name in wanted]))
    for stage in TESTS:
        if wanted and stage.name not in wanted:
            continue
        print(f"\n{stage.name}", flush=True)
        began = time.monotonic()
        try:
            status, _ = run(stage, capture=False)
        except ServiceError as error:
            print(error, flush=True)
            status = 1
        if status:
            report(stage, status, began)
    if failed:
        print(f"\nFAILED after {time.monotonic() - started:.0f} s: {', '.join(failed)}", flush=True)
        return 1
    return 0


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit("Ended by a signal.")  # by an exception, so that what runs beside is stopped on the way out


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main(sys.argv[1:]))
