"""Repeated records are left out, and records are written as they come."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from diagnosis.kinds.flows.capture import records_in_order
from diagnosis.kinds.flows.read import flow_records
from diagnosis.kinds.flows.read.flow_records import RecordWriter


def records_of_instants(instants: int, rows: int) -> pl.DataFrame:
    """Records in order of start, many of them alike, some without bytes."""
    rng = np.random.default_rng(5)
    columns = {name: rng.integers(0, 2, rows).astype(kind) for name, kind in records_in_order._COLUMN_TYPES.items()}
    columns["start"] = np.sort(rng.integers(0, instants, rows))
    columns["bytes"] = np.where(columns["bytes"] > 0, 4096.0, np.nan)
    return pl.DataFrame(columns).with_columns(path=np.arange(rows, dtype=np.int32))


@pytest.mark.parametrize("instants", [400, 3], ids=["few of an instant", "many of an instant"])
def test_the_first_of_equal_records_stays_however_many_begin_at_one_instant(instants: int) -> None:
    table = records_of_instants(instants, 900)
    same = [name for name in records_in_order._KEY_COLUMNS if name != "bytes"]
    told = table.with_columns(moved=pl.col("bytes").fill_nan(-1.0))
    first = told.unique([*same, "moved"], keep="first", maintain_order=True)["path"]
    assert records_in_order._without_repeats(table)["path"].to_list() == first.to_list()
    assert len(first) < table.height


def test_records_are_written_in_the_order_in_which_they_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_records, "PART_ROWS", 10)
    with RecordWriter(tmp_path) as out:
        for begin in range(0, 70, 7):
            out.add(pl.DataFrame({"start": range(begin, begin + 7), "src": "a", "dst": "b"}))
        kept = pl.read_parquet(out.finish())
    assert kept["start"].to_list() == list(range(70))
    assert list(kept.schema) == list(flow_records.SCHEMA)


def test_records_that_cannot_be_written_are_an_error_and_no_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_records, "PART_ROWS", 10)
    folder = tmp_path / "columns.parquet"
    folder.mkdir()
    with pytest.raises(OSError, match="directory"), RecordWriter(tmp_path) as out:
        for begin in range(0, 70, 7):
            out.add(pl.DataFrame({"start": range(begin, begin + 7), "src": "a", "dst": "b"}))
        out.finish()
