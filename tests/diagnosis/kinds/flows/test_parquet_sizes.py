"""A Parquet file that states too much is refused before a reader takes memory for it."""

import io
from pathlib import Path

import polars as pl
import pytest

from diagnosis import ParseHints, parse
from diagnosis.kinds.flows.read.readers import parquet_sizes
from diagnosis.kinds.flows.read.readers.parquet_sizes import Unreadable, check_sizes
from tests.hostile_files import nested_parquet

FLOWS = {"start_time": [1.0, 2.0], "duration": [1.0, 1.0], "dst": ["a", "b"], "bytes": [1, 2]}


def written(text: str = "10.0.0.1", **options: object) -> bytes:
    out = io.BytesIO()
    pl.DataFrame({**FLOWS, "src": [text, "10.0.0.2"]}).write_parquet(out, **options)
    return out.getvalue()


def test_one_text_of_a_page_that_unfolds_to_much_costs_one_sentence(tmp_path: Path) -> None:
    data = written("x" * 80_000_000, compression="zstd")
    assert len(data) < 10_000
    told = parse(io.BytesIO(data), "flows.parquet", ParseHints(), tmp_path).skipped
    assert told == "The Parquet file cannot be read: a page of it unfolds to 76 MiB. Export it again."


@pytest.mark.parametrize("compression", ["uncompressed", "zstd", "snappy", "gzip", "lz4"])
def test_usual_files_pass(compression: str) -> None:
    check_sizes(io.BytesIO(written(compression=compression)))
    check_sizes(io.BytesIO(written(compression=compression, row_group_size=1)))


@pytest.mark.parametrize("cut", [0, 4, 11, 60, 200])
def test_a_damaged_description_is_unreadable(cut: int) -> None:
    data = written()
    with pytest.raises(Unreadable):
        check_sizes(io.BytesIO(data[: len(data) - cut - 8] + b"\xff" * cut + data[-8:-4] + b"PAR2"))


def test_any_bytes_are_read_or_refused() -> None:
    data = bytearray(written())
    for at in range(len(data) - 8):
        for value in (0, 0x7F, 0xFF):
            changed = bytes(data[:at]) + bytes([value]) + bytes(data[at + 1 :])
            try:
                check_sizes(io.BytesIO(changed))
            except Unreadable as error:
                assert str(error)


def test_a_description_of_very_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(parquet_sizes.LIMITS), "values", 10)
    with pytest.raises(Unreadable, match="too large"):
        check_sizes(io.BytesIO(written()))


def test_columns_that_nest_deeply_are_refused() -> None:
    check_sizes(io.BytesIO(nested_parquet(90)))
    with pytest.raises(Unreadable, match="nest too deeply"):
        check_sizes(io.BytesIO(nested_parquet(5_000)))


def test_of_rows_that_take_no_space_only_so_many_are_read_as_the_bytes_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(parquet_sizes.LIMITS), "rows", 1_000)
    out = io.BytesIO()
    row = {"start_time": 1.0, "duration": 0.5, "src": "10.0.0.1", "dst": "10.0.0.2", "bytes": 9}
    pl.select(**{name: pl.repeat(value, 200_000) for name, value in row.items()}).write_parquet(out)
    found = parse(io.BytesIO(out.getvalue()), "flows.parquet", ParseHints(), tmp_path)
    assert found.lines == 1_000 + len(out.getvalue()) // 2
    assert found.notes[0].startswith(f"The file states 200,000 rows in {len(out.getvalue()):,} bytes")
