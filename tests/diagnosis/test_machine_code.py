"""Loops are compiled once on a machine; later processes load their code alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from diagnosis.processing import machine_code
from diagnosis.processing.jit import compiled

_LOOP = """
import sys
import numpy as np
from diagnosis.processing import jit
from diagnosis.processing.jit import compiled

STEP = %d

@compiled
def twice(value: int) -> int:
    return 2 * value

@compiled
def grown(values, least):
    total = 0
    for value in values:
        if value >= least:
            total += twice(value) + STEP
    return total, len(values)

jit.load()
print(grown(np.array([1, 2, 3]), 2), grown(np.array([1, 2, 3])[::2], 2), "numba" in sys.modules)
"""


def _run(folder: Path, step: int = 1) -> str:
    module = folder / "looping.py"
    module.write_text(_LOOP % step, "utf-8")
    code = f"import runpy; runpy.run_path({str(module)!r})"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_only_the_first_process_needs_numba(tmp_path: Path) -> None:
    assert _run(tmp_path) == "(12, 3) (7, 2) True"
    stored = list((tmp_path / "__pycache__").glob("*.loop"))
    assert len(stored) == 2
    assert {one.stat().st_mode for one in stored} == {(tmp_path / "looping.py").stat().st_mode}
    assert _run(tmp_path) == "(12, 3) (7, 2) False"


def test_another_text_or_a_damaged_file_is_compiled_again(tmp_path: Path) -> None:
    assert _run(tmp_path) == "(12, 3) (7, 2) True"
    assert _run(tmp_path, step=2) == "(14, 3) (8, 2) True"
    for stored in (tmp_path / "__pycache__").glob("*.loop"):
        stored.write_bytes(stored.read_bytes()[:-1])
    assert _run(tmp_path, step=2) == "(14, 3) (8, 2) True"


def test_where_nothing_can_be_stored_a_loop_runs_too(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").write_text("no folder", "utf-8")
    assert _run(tmp_path) == "(12, 3) (7, 2) True"


def test_other_arguments_than_arrays_and_whole_numbers_are_left_to_numba() -> None:
    assert machine_code.kinds_of([np.zeros(2), 3, np.uint64(4), True]) == ("<f8 1 C", "int64", "uint64", "int64")
    assert machine_code.kinds_of([np.zeros(2), 3.5]) is None
    assert compiled(_half)(3.5) == 1.75


@pytest.mark.parametrize("value", [0, 7, 2**64 - 1])
def test_large_numbers_keep_their_value(value: int) -> None:
    assert compiled(_more)(np.array([value], np.uint64), np.uint64(0)) == value


def _half(value: float) -> float:
    return value / 2


def _more(values: np.ndarray, more: np.uint64) -> np.uint64:
    word: np.uint64 = values[0] + more
    return word
