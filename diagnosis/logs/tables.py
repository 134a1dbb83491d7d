"""The two tables of a parsed log: their schemas, and how their parts are joined."""

from __future__ import annotations

import calendar
import datetime
import io
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from diagnosis.logs import records

#: Schema of ``columns.parquet``: one row a physical line.
COLUMNS: dict[str, pl.DataType] = {
    "line": pl.UInt32(),  # 1-based
    "offset": pl.UInt64(),  # of its first byte
    "length": pl.UInt32(),  # bytes without the newline
    "record": pl.UInt32(),  # first line of its multi-line record
    "time": pl.Int64(),  # ns UTC, null if the line states none
    "source": pl.UInt16(),  # index into Parsed.sources
    "level": pl.UInt8(),  # model.Level
    "flags": pl.UInt8(),  # records.INDENTED | ...
    "masked": pl.UInt64(),  # id of the masked message
}

#: Schema of ``uniques.parquet``: one row a distinct masked message.
UNIQUES: dict[str, pl.DataType] = {
    "masked": pl.UInt64(),
    "text": pl.String(),
    "count": pl.UInt64(),
    "level": pl.UInt8(),  # the worst
    "first_line": pl.UInt32(),
    "first_offset": pl.UInt64(),
    "example": pl.String(),  # the first line itself, at most EXAMPLE_CHARS
}
EXAMPLE_CHARS = 2_000
_DAY = 86_400_000_000_000
_TO_LEAP_DAY = 59 * _DAY
#: The year of stamps that name none, until a year is known: a leap year.
NO_YEAR = 1972


def write_small(columns: pl.DataFrame, uniques: pl.DataFrame, targets: tuple[Path, Path]) -> None:
    """Writes both tables of a small log. Encoding them together, in memory, costs half of what two files cost."""
    out = [io.BytesIO(), io.BytesIO()]
    pl.collect_all(
        [
            table.lazy().sink_parquet(buffer, compression="lz4", statistics=False, lazy=True)
            for table, buffer in zip((columns, uniques), out, strict=True)
        ]
    )
    for buffer, target in zip(out, targets, strict=True):
        target.write_bytes(buffer.getbuffer())


def write_part(rows: pl.DataFrame, target: Path) -> None:
    """Stores rows of ``COLUMNS`` in a part file until :func:`write_columns`, at the speed of the disk."""
    rows.write_ipc(target, compression="uncompressed")


def write_columns(
    parts: Sequence[Path] | Sequence[pl.DataFrame],
    target: Path,
    year: int | None = None,
    moved: Sequence[pl.Expr] = (),
) -> None:
    """Joins column parts, streaming, applies ``moved`` (expressions over the times) and then moves year-less
    stamps into ``year``; part files are gone afterwards.
    """
    files = [part for part in parts if isinstance(part, Path)]
    if files:
        rows = pl.scan_ipc(files).with_columns(*moved)
        if year is not None:
            rows = rows.with_columns(time=in_year(NO_YEAR, year))
        rows.sink_parquet(target, compression="lz4")
        for file in files:
            file.unlink()
        return
    columns_of([part for part in parts if isinstance(part, pl.DataFrame)], year, moved).write_parquet(
        target, compression="lz4"
    )


def columns_of(parts: Sequence[pl.DataFrame], year: int | None = None, moved: Sequence[pl.Expr] = ()) -> pl.DataFrame:
    """Column parts joined in memory, as :func:`write_columns` does in a file."""
    frame = pl.concat(parts) if len(parts) > 1 else parts[0] if parts else pl.DataFrame(schema=COLUMNS)
    if moved:
        frame = frame.with_columns(*moved)
    if year is not None:
        frame = frame.with_columns(time=in_year(NO_YEAR, year))
    return frame


def since_boot(boot: int | None) -> tuple[pl.Expr, pl.Expr]:
    """The columns ``time`` and ``flags`` with stamps that count from boot moved to ``boot`` (ns), or removed if it is
    not known. A boot time from year-less stamps makes year-less stamps.
    """
    is_since = (pl.col("flags") & records.SINCE_BOOT) != 0
    yearless = 0 if boot is None or boot >= _new_year(NO_YEAR + 1) else records.YEARLESS
    moved = None if boot is None else pl.col("time") + boot
    return (
        pl.when(is_since).then(moved).otherwise(pl.col("time")).alias("time"),
        pl.when(is_since).then(pl.col("flags") | yearless).otherwise(pl.col("flags")).cast(pl.UInt8).alias("flags"),
    )


def in_year(before: int, after: int) -> pl.Expr:
    """The column ``time`` with year-less stamps moved from one year to another; 29 February becomes 1 March if there is
    none.
    """
    since = pl.col("time") - _new_year(before)
    if not calendar.isleap(before):
        since = pl.when(since >= _TO_LEAP_DAY).then(since + _DAY).otherwise(since)
    if not calendar.isleap(after):
        since = pl.when(since >= _TO_LEAP_DAY + _DAY).then(since - _DAY).otherwise(since)
    is_yearless = (pl.col("flags") & records.YEARLESS) != 0
    return pl.when(is_yearless).then(since + _new_year(after)).otherwise(pl.col("time"))


def _new_year(year: int) -> int:
    return (datetime.date(year, 1, 1) - datetime.date(1970, 1, 1)).days * _DAY


def combine(tables: list[pl.DataFrame]) -> pl.DataFrame:
    """One table of unique masked messages out of several of one artifact (line numbers comparable), by first line."""
    return (
        pl.concat(tables)
        .sort("first_line", "masked", maintain_order=True)
        .group_by("masked", maintain_order=True)
        .agg(
            pl.col("text", "first_line", "first_offset", "example").first(),
            pl.col("count").sum(),
            pl.col("level").max(),
        )
        .select([pl.col(name).cast(kind) for name, kind in UNIQUES.items()])
        .sort("first_line", "masked")
    )
