"""Stamps without a year take that of the job: the year in which they lie nearest to its other stamps."""

import io
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from diagnosis import Kind, ParseHints, parse
from diagnosis.kinds.logs.columns.tables import YEARLESS
from diagnosis.kinds.logs.rows import events, line_counts
from diagnosis.model import Parsed


def _log(folder: Path, name: str, *lines: str) -> Parsed:
    stream = io.BytesIO("".join(f"{line}\n" for line in lines).encode())
    return parse(stream, f"{name}.log", ParseHints(kind=Kind.LOG), folder / name)


def _times(table: events.LogTable, file: int) -> list[str]:
    own = table.stamps(file)["own"].to_list()
    return [f"{datetime.fromtimestamp(at / 1e9, UTC):%Y-%m-%d}" for at in own]


def test_a_stamp_without_year_takes_the_year_of_another_file(tmp_path: Path) -> None:
    table = events.build(
        [
            _log(tmp_path, "a", "2026-01-02 08:00:00 step 1"),
            _log(tmp_path, "b", "Dec 31 23:59:59 n1 kernel: down", "Jan  2 08:00:01 n1 kernel: up"),
        ]
    )
    assert _times(table, 1) == ["2025-12-31", "2026-01-02"]


def test_nothing_is_moved_where_all_stamps_are_in_the_same_half_year(tmp_path: Path) -> None:
    """Moving a time costs more than all else that is done to a line, so it is not tried where it changes nothing."""
    table = events.build(
        [_log(tmp_path, "a", "2026-03-01 08:00:00 step 1", "Mar  1 08:00:01 n1 kernel: up", "Feb 27 01:00:00 n1 x: up")]
    )
    assert table.year_at is None
    assert _times(table, 0) == ["2026-03-01", "2026-03-01", "2026-02-27"]


def test_a_job_without_any_year_takes_that_in_which_its_evidence_was_taken(tmp_path: Path) -> None:
    log = _log(tmp_path, "b", "Dec 31 23:59:59 n1 kernel: down", "Jan  2 08:00:01 n1 kernel: up")
    as_of = int(datetime(2026, 1, 3, tzinfo=UTC).timestamp()) * 1_000_000_000
    assert _times(events.build([log], as_of=as_of), 0) == ["2025-12-31", "2026-01-02"]


def test_a_leap_day_moves_to_years_without_one() -> None:
    """A fake stamp must not end the diagnosis of all the other files."""
    at = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp()) * 10**9
    stamp = int(datetime(2024, 2, 29, 8, tzinfo=UTC).timestamp()) * 10**9
    rows = pl.DataFrame({"time": [stamp], "flags": [YEARLESS]})
    moved = rows.select(at=line_counts.own_time(at))["at"].item()
    assert datetime.fromtimestamp(moved / 1e9, UTC) == datetime(2026, 2, 28, 8, tzinfo=UTC)
