"""Physical lines of a log whose records have several lines each, such as JSON lines with a traceback.

Each line of a record's text is a row of ``columns.parquet``: its own line to every rule. The rows of one physical line
end at the same byte, and each begins one byte after the row before it, so offsets ascend and no two rows are equal.
People count physical lines, as editors and ``sed -n Np`` do: ``physical.parquet`` has one row for each of those, in
the same columns. Other logs have no such table: their rows are their physical lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from diagnosis.kinds.logs.columns.tables import COLUMNS, ROWS_PER_GROUP
from diagnosis.model import Parsed

#: The name of the table, which lies beside the columns.
NAME: Final = "physical.parquet"
#: Rows that are read at a time (about 50 bytes each).
_ROWS_AT_A_TIME: Final = 1 << 19
#: The fact with the number of physical lines.
_FACT: Final = "physical_lines"


def store(parsed: Parsed) -> None:
    """Writes the table of a log beside its columns and states its lines, if its rows are not its physical lines.
    O(rows); memory of some rows at a time, and of the physical lines.
    """
    assert parsed.columns is not None
    columns = pl.scan_parquet(parsed.columns)
    slices = [columns.slice(first, _ROWS_AT_A_TIME) for first in range(0, parsed.lines, _ROWS_AT_A_TIME)]
    end = pl.col("offset") + pl.col("length")
    ends = [rows.select(end.alias("end")).collect()["end"] for rows in slices]
    physical = _numbers_of_runs(ends)
    count = int(physical[-1]) if len(physical) else 0
    if count == parsed.lines:
        return
    found = []
    for number, rows in enumerate(slices):
        mine = physical.slice(number * _ROWS_AT_A_TIME, _ROWS_AT_A_TIME)
        found.append(_joined(rows.collect().with_columns(mine.alias("physical")), physical))
    table = _of_runs(pl.concat(found)).rename({"physical": "line"}).select(list(COLUMNS))
    table.write_parquet(parsed.columns.with_name(NAME), compression="lz4", row_group_size=ROWS_PER_GROUP)
    parsed.facts[_FACT] = table.height


def _numbers_of_runs(ends: Sequence[pl.Series]) -> pl.Series:
    """For each row the number, from 1 on, of its run of rows that end at one byte."""
    found, last, number = [pl.Series(dtype=pl.UInt32)], None, 0
    for end in ends:
        before = end.shift(1, fill_value=last) if last is not None else end.shift()
        numbers = (end != before).fill_null(True).cum_sum().cast(pl.UInt32) + number
        found.append(numbers)
        last, number = end[-1], int(numbers[-1])
    return pl.concat(found)


def _joined(rows: pl.DataFrame, physical: pl.Series) -> pl.DataFrame:
    """A row for each physical line of these rows; a record's number is the physical line of its first row."""
    record = physical.gather(rows["record"] - 1)
    return _of_runs(rows.with_columns(record.alias("record")).drop("line"))


def _of_runs(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by("physical", maintain_order=True).agg(
        pl.col(name).max() if name == "level" else pl.col(name).first() for name in COLUMNS if name != "line"
    )


def lines(parsed: Parsed) -> int:
    """The number of physical lines."""
    return int(parsed.facts.get(_FACT, parsed.lines))


def of(parsed: Parsed) -> Parsed:
    """The log with its physical lines as rows."""
    if _FACT not in parsed.facts or parsed.columns is None:
        return parsed
    return replace(parsed, columns=parsed.columns.with_name(NAME), lines=lines(parsed), occurrences=None)


def numbers(columns: Path, line: Sequence[int], offset: Sequence[int]) -> list[int]:
    """The physical lines of rows of a log with these columns, of which line and offset are given."""
    table = columns.with_name(NAME)
    if not table.exists():
        return list(line)
    begins = _begins(table, table.stat().st_mtime_ns)
    return [int(number) for number in np.searchsorted(begins, np.array(offset, np.uint64), "right")]


@lru_cache(4)
def _begins(table: Path, _: int) -> npt.NDArray[np.uint64]:
    return pl.read_parquet(table, columns=["offset"])["offset"].to_numpy()
