"""The lines of a log that was read in ranges: their files stay as whoever read each range wrote them.

Three columns of a range depend on the ranges before it: ``line`` and ``record`` need an offset, ``source`` other
numbers, and the first lines of some sources the record that they continue. A small table beside the files states it
(:data:`RANGES_SCHEMA`, a row a range), and :func:`scan` applies it to the rows that are read. So joining ranges looks
at none of their lines.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from diagnosis.kinds.logs.columns import records
from diagnosis.kinds.logs.columns.tables import COLUMNS, NO_YEAR, time_in_year
from diagnosis.model import Parsed

#: The name of the table; other files are columns themselves.
NAME: Final = "ranges.parquet"
_HEADS_SCHEMA: Final = {"source": pl.UInt16, "line": pl.UInt32, "bits": pl.UInt8}
_FOLLOWED_SCHEMA: Final = {"source": pl.UInt16, "line": pl.UInt32, "record": pl.UInt32}
RANGES_SCHEMA: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "file": pl.String,  # seen from the folder of the table
    "lines": pl.UInt32,
    "year": pl.Int32,  # of its stamps without one, null: there are none
    "into": pl.Int32,  # the year that they have in the whole log, null: as they are
    "number": pl.List(pl.UInt16),  # of each of its sources in the whole log
    "record": pl.List(pl.UInt32),
    "state": pl.List(pl.UInt8),
    "heads": pl.List(pl.Struct(_HEADS_SCHEMA)),
    "followed": pl.List(pl.Struct(_FOLLOWED_SCHEMA)),
}


class Range(msgspec.Struct, frozen=True):
    """A row of the table: ``before``: lines before it; ``followed``: of ``followed_records``."""

    file: str
    lines: int
    year: int | None
    number: Sequence[int]
    ends: records.Ends
    into: int | None = None
    before: int = 0
    followed: records.Heads | None = None


def ranges_of(p: Parsed, file: str, number: Sequence[int]) -> list[Range]:
    """The ranges of a log that is itself a range or several joined ones; ``file``: where its columns are, ``number``:
    the number of each of its sources in the whole log. Raises ``ValueError`` if it states no ends.
    """
    assert p.columns is not None
    if p.columns.name == NAME:
        folder = PurePosixPath(file).parent
        return [
            replace(one, file=os.path.normpath(folder / one.file), number=[number[n] for n in one.number])
            for one in stored_ranges(p.columns)
        ]
    if "ends" not in p.facts:
        raise ValueError(f"{p.path} was read as a range by an older version")
    ends = records.Ends.loaded(p.facts["ends"])
    year = (p.facts["used_year"] or NO_YEAR) if p.facts["has_yearless"] else None
    return [Range(os.path.normpath(file), p.lines, year, number, ends)]


def write(ranges: Sequence[Range], sources: int, year: int | None, target: Path) -> None:
    """Writes the table of consecutive ranges whose log has so many sources and, for stamps without one, this year."""
    before = list(itertools.accumulate((one.lines for one in ranges), initial=0))
    places = [(low, one.ends, one.number) for low, one in zip(before, ranges, strict=False)]
    rows = [
        {
            "file": one.file,
            "lines": one.lines,
            "year": one.year,
            "into": year,
            "number": one.number,
            "record": one.ends.record.tolist(),
            "state": one.ends.state.tolist(),
            "heads": [dict(zip(_HEADS_SCHEMA, row, strict=True)) for row in one.ends.heads.tolist()],
            "followed": [dict(zip(_FOLLOWED_SCHEMA, row, strict=True)) for row in followed.tolist()],
        }
        for one, followed in zip(ranges, records.followed_records(places, sources), strict=True)
    ]
    pl.DataFrame(rows, schema=RANGES_SCHEMA).write_parquet(target)


def files_of(table: Path) -> list[str]:
    """The columns of each range, seen from the folder of the table."""
    return [one.file for one in stored_ranges(table)]


def stored_ranges(table: Path) -> tuple[Range, ...]:
    """The ranges of a table."""
    status = table.stat()
    return _stored(table, status.st_mtime_ns, status.st_ino)


@lru_cache(maxsize=16)
def _stored(table: Path, *_: int) -> tuple[Range, ...]:
    found, before = [], 0
    for row in pl.read_parquet(table).to_dicts():
        ends = records.Ends.loaded(row | {"heads": [tuple(one.values()) for one in row["heads"]]})
        followed = np.array([tuple(one.values()) for one in row["followed"]], records.FOLLOWED_ROWS)
        found.append(Range(row["file"], row["lines"], row["year"], row["number"], ends, row["into"], before, followed))
        before += row["lines"]
    return tuple(found)


def scan(table: Path, first: int, size: int) -> pl.LazyFrame:
    """``size`` lines from row ``first`` (from 0 on) of a joined log, to be read. Looks at no other range."""
    found = []
    for one in stored_ranges(table):
        low, high = max(first - one.before, 0), min(first + size - one.before, one.lines)
        if low < high:
            rows = pl.scan_parquet(table.parent / one.file).slice(low, high - low)
            found.append(_as_whole_log(rows, one, low))
    return pl.concat(found) if found else pl.LazyFrame(schema=COLUMNS)


def _as_whole_log(rows: pl.LazyFrame, one: Range, low: int) -> pl.LazyFrame:
    """Rows of a range, from its row ``low`` on, as rows of the whole log."""
    before = pl.lit(one.before, pl.UInt32)
    changed = {"line": pl.col("line") + before, "record": pl.col("record") + before}
    if list(one.number) != list(range(len(one.number))):
        number = range(len(one.number))
        changed["source"] = pl.col("source").replace_strict(number, one.number, return_dtype=pl.UInt16)
    if one.year is not None and one.into is not None and one.into != one.year:
        changed["time"] = time_in_year(one.year, one.into)
    if one.followed is not None and low < _followed_until(one.followed, one.lines):
        places = pl.struct("source", "line", "record")
        changed["record"] = places.map_batches(partial(_record, one), pl.UInt32, is_elementwise=True)
    return rows.with_columns(**changed)


def _followed_until(followed: records.Heads, lines: int) -> int:
    """The last line of a range whose record may be another one: a source without a last row is followed to the end."""
    last = dict(zip(followed["source"].tolist(), followed.tolist(), strict=True))
    return max((line if record == 0 else lines for _, line, record in last.values()), default=0)


def _record(one: Range, rows: pl.Series) -> pl.Series:
    """The records of some rows of a range in the whole log."""
    assert one.followed is not None
    source, line, record = (rows.struct.field(name).to_numpy() for name in ("source", "line", "record"))
    known = _key(one.followed["source"], one.followed["line"])
    order = np.argsort(known)
    place = np.searchsorted(known[order], _key(source, line), "right") - 1
    row = one.followed[order[np.maximum(place, 0)]]
    is_other = (place >= 0) & (row["source"] == source) & (row["record"] != 0)
    return pl.Series(np.where(is_other, row["record"], record + np.uint32(one.before)), dtype=pl.UInt32)


def _key(source: npt.NDArray[Any], line: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Numbers in the order of sources, then lines."""
    return source.astype(np.int64) << 32 | line.astype(np.int64)
