"""Ranges of a log are joined without their lines: what is read of the joined log is what is read of the whole one."""

from __future__ import annotations

import io
import shutil
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis import Parsed, ParseHints, merge, parse
from diagnosis.files import parsed
from diagnosis.kinds.logs import log_parsing
from diagnosis.kinds.logs.columns import joined
from diagnosis.kinds.logs.columns.tables import COLUMNS
from diagnosis.kinds.logs.rows import stored_rows
from diagnosis.model import Kind

PATH = "logs/node-1/all.log"
WRITERS = ("", "[rank0]: ", "[rank1]: ", "[rank2]: ", "node-7: ", "node7-1: ")
SAID = (
    "2026-03-01 08:00:01 INFO started",
    "Mar  1 08:00:02 node-7 kernel: ready",
    "Traceback (most recent call last):",
    '  File "x.py", line 1, in <module>',
    "    raise ValueError",
    "ValueError: no",
    "  Backtrace:",
    "Backtrace:",
    "plain words",
    "",
)
lines = st.builds(lambda who, said: who + said, st.sampled_from(WRITERS), st.sampled_from(SAID))


def in_ranges(data: bytes, cuts: list[int], work: Path) -> list[Parsed]:
    return [
        parse(io.BytesIO(data[low:high]), PATH, ParseHints(kind=Kind.LOG, offset=low), work / str(low))
        for low, high in pairwise(cuts)
    ]


def rows_of(p: Parsed) -> pl.DataFrame:
    return stored_rows.read([stored_rows.lines_of(p)], COLUMNS)


def cut_at(data: bytes, places: list[int]) -> list[int]:
    """Line starts near these bytes, and both ends."""
    starts = [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)]
    return sorted({0, len(data), *(starts[place % len(starts)] for place in places)})


@settings(max_examples=60, deadline=None)
@given(st.lists(lines, min_size=2, max_size=40), st.lists(st.integers(0, 99), max_size=6), st.integers(0, 5))
def test_every_line_has_the_record_the_writer_and_the_time_of_the_whole_log(
    said: list[str], places: list[int], tree: int
) -> None:
    data = "".join(line + "\n" for line in said).encode()
    with TemporaryDirectory() as folder:
        work = Path(folder)
        whole = parse(io.BytesIO(data), PATH, ParseHints(kind=Kind.LOG), work / "whole")
        parts = in_ranges(data, cut_at(data, places), work)
        first = tree % len(parts) + 1  # some are joined before the rest
        parts = [merge(parts[:first], work / "first"), *parts[first:]]
        one = merge(parts, work / "joined")
        assert one.sources == whole.sources
        assert rows_of(one).equals(rows_of(whole))


def log_of(count: int) -> bytes:
    return "".join(
        f"[rank{n % 3}]: 2026-03-01 08:00:{n % 60:02d} step {n}\n" if n % 5 else '[rank1]:   File "x.py", line 1\n'
        for n in range(count)
    ).encode()


def test_a_few_lines_are_read_from_their_range_alone(tmp_path: Path) -> None:
    data = log_of(200)
    whole = parse(io.BytesIO(data), PATH, ParseHints(kind=Kind.LOG), tmp_path / "whole")
    parts = in_ranges(data, cut_at(data, [40, 80, 81, 150]), tmp_path)
    one = merge(parts, tmp_path / "joined")
    for part in (parts[0], parts[3]):
        assert part.columns
        part.columns.unlink()
    near = stored_rows.scan(stored_rows.lines_of(one).part(45, 30))
    found = near.collect()
    assert found.equals(rows_of(whole).slice(45, 30))
    wanted = pl.col("masked") == found["masked"][1]
    assert near.filter(wanted).collect().equals(found.filter(wanted))


def test_a_joined_log_can_be_kept_elsewhere_with_its_ranges(tmp_path: Path) -> None:
    data = log_of(60)
    parts = in_ranges(data, cut_at(data, [20, 40]), tmp_path / "parts")
    one = merge(parts, tmp_path / "new", files=[f"{n:05d}/columns.parquet" for n in range(3)])
    expected = rows_of(merge(parts, tmp_path / "here"))
    kept = tmp_path / "kept"
    parsed.save(one, kept)
    for number, part in enumerate(parts):
        assert part.columns
        shutil.move(part.columns.parent, kept / f"{number:05d}")
    assert rows_of(parsed.load(kept)).equals(expected)


def test_a_range_without_its_ends_is_not_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = log_of(60)
    parts = in_ranges(data, cut_at(data, [20]), tmp_path)
    del parts[1].facts["ends"]
    with pytest.raises(ValueError, match="older version"):
        merge(parts, tmp_path / "joined")


def test_joining_reads_no_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = log_of(300)
    hints: dict[str, Any] = {"kind": Kind.LOG, "bytes_total": len(data)}
    parts = [
        parse(io.BytesIO(data[low:high]), PATH, ParseHints(offset=low, **hints), tmp_path / str(low))
        for low, high in pairwise(cut_at(data, [100, 200]))
    ]
    for part in parts:
        assert part.columns
        part.columns.unlink()
    one = merge(parts, tmp_path / "joined")
    assert one.columns and one.columns.name == joined.NAME
    assert one.lines == 300
    assert one.occurrences and pl.read_parquet(one.occurrences)["n"].sum() == 300
    assert one.lines < log_parsing.MIN_COUNTED_LINES
