"""The table of lines of a diagnosis that removes its tables when it ends."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from diagnosis.files.parse_pool import Task, parse_all, read_together
from diagnosis.kinds.logs.columns import unpacked
from diagnosis.kinds.logs.columns.tables import COLUMNS
from diagnosis.kinds.logs.rows import events, stored_rows
from diagnosis.kinds.logs.rows.stored_rows import Rows
from diagnosis.model import Parsed, ParseHints

LINE = "2026-03-01 12:00:{0:02d} INFO node {1} step {0} loss 2.5 lr 0.0003 grad norm 1.25\nno time here, line {0}\n"


def _logs(folder: Path, count: int = 3) -> list[Task]:
    tasks = []
    for number in range(count):
        file = folder / f"gpu-{number}.log"
        file.write_text("".join(LINE.format(second, number) for second in range(20)))
        tasks.append(Task(file, file.name, ParseHints(), folder / "work" / str(number), file.stat().st_size))
    return tasks


def _table(folder: Path) -> tuple[Path, pl.DataFrame]:
    (parsed, *_) = read_together(_logs(folder)).values()
    assert parsed.columns is not None
    rows = pl.read_parquet(parsed.columns)
    return unpacked.write(rows, folder), rows


@pytest.mark.parametrize(("first", "size"), [(0, 120), (0, 1), (39, 5), (119, 1), (5, 0)])
def test_any_run_of_rows_comes_back_as_it_was_with_lines_that_state_no_time(
    first: int, size: int, tmp_path: Path
) -> None:
    path, rows = _table(tmp_path)
    assert_frame_equal(unpacked.read(path, first, size, COLUMNS), rows.slice(first, size))
    assert rows["time"].null_count() == 60


def test_the_last_run_ends_with_the_table(tmp_path: Path) -> None:
    path, rows = _table(tmp_path)
    assert_frame_equal(unpacked.read(path, 110, 500, ("masked", "time")), rows.select("masked", "time").tail(10))
    assert unpacked.read(path, 500, 5, ["line"]).height == 0


def test_the_lines_of_a_job_are_the_same_from_both_tables(tmp_path: Path) -> None:
    tasks = _logs(tmp_path)
    brief = [one for one in parse_all(tasks, workers=1) if isinstance(one, Parsed)]
    kept = list(read_together(tasks).values())
    assert {one.columns.name for one in brief if one.columns} == {unpacked.NAME}
    assert {one.columns.suffix for one in kept if one.columns} == {".parquet"}
    for names in (COLUMNS, ["masked"]):
        first, second = (stored_rows.read(_lines(one, [2, 0]), names) for one in (brief, kept))
        assert_frame_equal(first, second)
    read, again = (events.build(one).stamps(1) for one in (brief, kept))
    assert_frame_equal(read, again)


def _lines(logs: list[Parsed], order: list[int]) -> list[Rows]:
    return [stored_rows.lines_of(logs[number]) for number in order]


def test_logs_of_little_more_than_line_ends_are_packed(tmp_path: Path) -> None:
    tasks = _logs(tmp_path, 2)
    for task in tasks:
        task.file.write_text("\n\nstep 1\n" * 500)
    packed = [one for one in parse_all(tasks, workers=1) if isinstance(one, Parsed)]
    assert {one.columns.suffix for one in packed if one.columns} == {".parquet"}
