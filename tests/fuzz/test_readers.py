"""A short run of the coverage-guided fuzzer (`python -m tests.fuzz readers` runs longer), and a check that it notices
what it looks for."""

from pathlib import Path

import polars as pl
import pytest

from diagnosis.kinds.logs.read import reader
from tests.fuzz import readers as fuzz


def test_readers_keep_their_promises_whatever_the_bytes() -> None:
    found = fuzz.run(seed=7, rounds=110)
    assert [(broken, name, data[:80]) for name, data, broken in found.failures] == []
    assert found.kept > len(fuzz.SEEDS)  # it was guided: changed inputs reached what the seeds did not


def test_the_same_seed_makes_the_same_inputs() -> None:
    import random

    one, other = ([fuzz.mutated(random.Random(seed), b"abc" * 30, b"xyz") for seed in range(20)] for _ in range(2))
    assert one == other
    assert len(set(one)) > 10


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (pl.col("offset") + 1, "begins at"),
        (pl.col("length") + 1, "newline"),
        (pl.col("line") + 1, "numbered"),
        (pl.col("masked").reverse(), "messages"),
    ],
)
def test_a_broken_promise_is_noticed(
    change: pl.Expr, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = reader.redate

    def wrong(rows: pl.DataFrame, *moves: object) -> pl.DataFrame:
        return usual(rows.with_columns(change), *moves)  # type: ignore[arg-type]

    monkeypatch.setattr(reader, "redate", wrong)
    data = b"first line\nsecond\nthird thing\nfirst line\n"
    assert broken in fuzz.complaint("x.log", data, 0.5, tmp_path)[0]


def test_what_an_engine_raises_is_a_complaint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("gone")

    monkeypatch.setattr(reader.LogReader, "finish", fail)
    assert "KeyError" in fuzz.complaint("x.log", b"a line\n", 0.5, tmp_path)[0]
