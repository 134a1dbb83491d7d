"""Compiled loops: the same answers as the interpreter, and no cost for a process that never runs one."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from diagnosis.jit import compiled


@compiled
def _double(value: int) -> int:
    return 2 * value


@compiled
def _sum_of_doubles(values: np.ndarray) -> int:
    total = 0
    for value in values:
        total += _double(value)
    return total


def test_a_loop_may_call_another_one() -> None:
    assert _sum_of_doubles(np.arange(5)) == 20
    assert _double(4) == 8


def test_a_loop_keeps_its_name_and_its_text() -> None:
    loop = compiled(_plain)

    assert (loop.__name__, loop.__doc__) == ("_plain", "One more.")


def test_threads_that_call_a_loop_first_all_get_its_answer() -> None:
    loop = compiled(_plain)
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(loop(1))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [2, 2, 2, 2]


@pytest.mark.parametrize("module", ["diagnosis.pipeline", "triage.asgi"])
def test_a_process_that_runs_no_loop_does_not_load_numba(module: str) -> None:
    code = f"import sys, {module}; sys.exit('numba' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _plain(value: int) -> int:
    """One more."""
    return value + 1
