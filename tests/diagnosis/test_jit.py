"""Compiled loops: the same answers as the interpreter, and no cost for a process that never runs one."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.kinds.logs.columns import records
from diagnosis.kinds.logs.text import hashing, scan, stamps
from diagnosis.processing import jit, machine_code
from diagnosis.processing.jit import compiled


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


LINES = (
    "2026-03-01 08:00:00,123 INFO [rank3]: step 12 of 0x1f2e3d loss 3.5",
    "node-7:2100:2400 [0] NCCL INFO comm 123e4567-e89b-12d3-a456-426614174000",
    "  12: worker-3: 2026-02-30T25:00:00Z ünïcode",
    "I0301 08:00:00.5 x",
    "Mar  1 08:00:00 node-7 kernel: x",
    "[default1]:Traceback (most recent call last):",
    "",
)


@given(st.lists(st.sampled_from(LINES) | st.text("a0f:[ -\t", max_size=30), min_size=1, max_size=6))
@settings(max_examples=60)
def test_the_interpreter_gives_what_compiled_code_gives(rows: list[str]) -> None:
    data = np.frombuffer("\n".join([*rows, ""]).encode(), np.uint8)
    size, classes = len(rows), scan._CLASS
    end, key = np.zeros(size, np.int64), np.zeros(size, np.uint64)
    scan.keys(data, end, key)
    start, every = np.append(0, end[:-1] + 1), np.arange(size)
    places = (data, start, end, every)
    tag, level, line = np.frombuffer(b"[rank", np.uint8), np.arange(size, dtype=np.uint8), every.astype(np.uint32)

    def numbers(count: int, kind: type = np.int64) -> list[np.ndarray]:
        return [np.zeros(size + 1, kind) for _ in range(count)]

    known = (*numbers(1, np.uint32), *numbers(1, np.uint8), *numbers(1, np.bool_))
    cases: list[tuple[Any, tuple[Any, ...]]] = [
        (scan._keys, (data, classes, *numbers(1), *numbers(1, np.uint64))),
        (scan.gather, (*places, 20, np.zeros(len(data) + size, np.uint8))),
        (stamps.iso_times, (*places, 100, True, *numbers(1))),
        (stamps.glog_times, (*places, 100, *numbers(1))),
        (stamps._syslog_times, (*places, 100, stamps._MONTHS, *numbers(1))),
        (scan.tagged, (*places, tag, 100, *numbers(1))),
        (scan.leading, (*places, *numbers(1))),
        (scan.hosts, (*places, 100, *numbers(2), *numbers(1, np.uint64))),
        (scan.labels, (*places, *numbers(2), *numbers(1, np.uint64))),
        (hashing._number, (key, 0, np.zeros(64, np.uint64), np.full(64, -1), 0, *numbers(2))),
        (hashing.tally, (every, level, *numbers(1), *numbers(1, np.uint8))),
        (records._assign_records, (line, line * 0, level, *known, line.copy(), *numbers(1, np.uint8))),
    ]
    for loop, taken in cases:
        kinds = machine_code.kinds_of(taken)
        for compiled_loop in (loop.load(), loop.codes.get(kinds) or loop.compile(kinds)):
            one, other = _copied(taken), _copied(taken)
            assert loop._interpret(*one) == compiled_loop(*other)
            for a, b in zip(one, other, strict=True):
                assert np.array_equal(a, b), loop.__name__


def test_many_elements_are_left_to_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_MAX_INTERPRETED", 10)
    monkeypatch.setattr(jit, "_MAX_BEFORE_NUMBA", 10)
    monkeypatch.setattr(jit._Loop, "interpreted", 0)
    monkeypatch.setattr(jit._Loop, "is_any_loaded", False)
    monkeypatch.setattr(jit, "_numba", functools.cache(jit._numba.__wrapped__))
    loop: Any = compiled(_total)
    calls = [(loop(np.arange(4)), len(loop.codes)) for _ in range(4)]
    assert calls == [(6, 0), (6, 0), (6, 1), (6, 1)]


@pytest.mark.parametrize("module", ["diagnosis.pipeline", "triage.asgi"])
def test_a_process_that_runs_no_loop_does_not_load_numba(module: str) -> None:
    code = f"import sys, {module}; sys.exit('numba' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_small_log_needs_no_numba(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"2026-03-01 08:00:{n:02d} INFO step {n} loss 2.5\n" for n in range(60)), "utf-8")
    code = f"import sys; from diagnosis.__main__ import main; main([{str(log)!r}]); sys.exit('numba' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def _copied(taken: tuple[Any, ...]) -> list[Any]:
    """Arrays that a loop only reads stay read-only, as in a log's reader, whose compiled loops these are then."""
    return [arg.copy() if isinstance(arg, np.ndarray) and arg.flags.writeable else arg for arg in taken]


def _total(values: np.ndarray) -> int:
    total = 0
    for value in values:
        total += value
    return total


def _plain(value: int) -> int:
    """One more."""
    return value + 1
