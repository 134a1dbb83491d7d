"""A small log is diagnosed with few operations on tables, each of which costs the same for one row as for a hundred,
and with few patterns, whose preparation costs more: most of their literals are stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from diagnosis import pipeline
from diagnosis.kinds.logs.text import patterns, stored_literals
from tests.diagnosis.synthetic import read_files

STEPS = [f"2026-03-01 08:00:{n:02d} INFO [rank0] iteration {n + 1}/500 loss 2.{n}" for n in range(40)]
END = "2026-03-01 08:01:00 ERROR [rank0] RuntimeError: CUDA error: an illegal memory access was encountered"
#: A little more than today's numbers: lower them with these, and raise them for no step that could ask once.
MAX_OPERATIONS, MAX_PATTERNS, MAX_LITERALS = 465, 54, 50


def counted(spent: Counter[str], what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        spent[what] += 1
        return function(*args, **kwargs)

    return call


def test_a_small_log_takes_few_operations_on_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spent: Counter[str] = Counter()
    for name in ("collect", "_collect_eager"):  # all that is asked of a table ends in one of them
        monkeypatch.setattr(pl.LazyFrame, name, counted(spent, "operations", getattr(pl.LazyFrame, name)))
    monkeypatch.setattr(patterns.Haystack, "form", counted(spent, "patterns", patterns.Haystack.form))
    monkeypatch.setattr(stored_literals, "ways", counted(spent, "literals", stored_literals.ways))
    parsed, read = read_files({"train.log": "\n".join([*STEPS, END, ""]).encode()}, tmp_path)

    spent.clear()
    stored_literals.ways_of.cache_clear()
    found = pipeline.diagnose(parsed, read=read)

    assert found.logs is not None and found.logs.is_failure
    assert spent["operations"] <= MAX_OPERATIONS
    assert spent["patterns"] <= MAX_PATTERNS
    assert spent["literals"] <= MAX_LITERALS
