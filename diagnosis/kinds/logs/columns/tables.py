"""The two tables of a parsed log: their schemas, and how their parts are joined."""

from __future__ import annotations

import calendar
import datetime
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl

#: Schema of ``columns.parquet``: one row a line; of a wrapped log one a line of a record (:mod:`physical`).
COLUMNS: dict[str, pl.DataType] = {
    "line": pl.UInt32(),  # 1-based
    "offset": pl.UInt64(),  # of its first byte
    "length": pl.UInt32(),  # bytes without the newline
    "record": pl.UInt32(),  # first line of its multi-line record
    "time": pl.Int64(),  # ns UTC, null if the line states none
    "source": pl.UInt16(),  # index into Parsed.sources
    "level": pl.UInt8(),  # model.Level
    "flags": pl.UInt8(),  # INDENTED | ...
    "masked": pl.UInt64(),  # id of the masked message
}

#: Bits of the column ``flags``.
INDENTED = 1  # begins with white space and states no time of its own
OPENER = 2  # begins a record that indented lines continue: "Traceback …", "Call Trace:"
CLOSER = 4  # may end a traceback: "ValueError: …"
BLANK = 8
YEARLESS = 16  # its time stamp names no year
SINCE_BOOT = 32  # its time stamp counts from boot
OF_DAY = 64  # its time stamp names no date

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
#: Rows that are encoded together. A few lines of a large log are read three times as fast as with four times as many
#: rows; writing and reading all of them costs the same.
ROWS_PER_GROUP: Final = 1 << 16
_DAY = 86_400_000_000_000
_TO_LEAP_DAY = 59 * _DAY
#: A forward jump that is nearly a day is the step back of two lines in wrong order around midnight.
_NEARLY_A_DAY = 23 * 3_600_000_000_000
#: The year of stamps that name none, until a year is known: a leap year.
NO_YEAR = 1972


def write_tables(tables: Mapping[str, pl.DataFrame], folder: Path) -> list[Path]:
    """Writes tables by name into ``folder`` and returns their paths. Encoding them together, in
    memory, costs half of what a file each costs.
    """
    out = [io.BytesIO() for _ in tables]
    pl.collect_all(
        [
            table.lazy().sink_parquet(
                buffer, compression="lz4", statistics=False, row_group_size=ROWS_PER_GROUP, lazy=True
            )
            for table, buffer in zip(tables.values(), out, strict=True)
        ]
    )
    targets = [folder / f"{name}.parquet" for name in tables]
    for buffer, target in zip(out, targets, strict=True):
        target.write_bytes(buffer.getbuffer())
    return targets


def write_part(rows: pl.DataFrame, target: Path) -> None:
    """Stores rows of ``COLUMNS`` in a part file until :func:`write_columns`, at the speed of the disk."""
    rows.write_ipc(target, compression="uncompressed")


def write_columns(
    parts: Sequence[Path],
    target: Path,
    year: int | None = None,
    is_since: bool = False,
    boot: int | None = None,
    is_whole: bool | None = None,
) -> None:
    """Joins column parts, streaming, with their times :func:`redate`; part files are gone afterwards."""
    redate(pl.scan_ipc(list(parts)), year, is_since, boot, is_whole).sink_parquet(
        target, compression="lz4", row_group_size=ROWS_PER_GROUP
    )
    for part in parts:
        part.unlink()


def redate[Rows: (pl.DataFrame, pl.LazyFrame)](
    rows: Rows, year: int | None, is_since: bool = False, boot: int | None = None, is_whole: bool | None = None
) -> Rows:
    """Rows of ``COLUMNS``; if ``is_since``, stamps that count from boot are moved to ``boot`` (ns), or removed if it is
    not known; stamps without a date get one if these are all rows of one log (``is_whole``), or are removed (False);
    then year-less stamps are moved into ``year``.
    """
    if is_since:
        rows = rows.with_columns(since_boot(boot))
    if is_whole is not None:
        rows = rows.with_columns(with_dates() if is_whole else without_undated())
    return rows if year is None else rows.with_columns(time=time_in_year(NO_YEAR, year))


def since_boot(boot: int | None) -> tuple[pl.Expr, pl.Expr]:
    """The columns ``time`` and ``flags`` with stamps that count from boot moved to ``boot`` (ns), or removed if it is
    not known. A boot time from year-less stamps makes year-less stamps.
    """
    is_since = (pl.col("flags") & SINCE_BOOT) != 0
    yearless = 0 if boot is None or boot >= _new_year(NO_YEAR + 1) else YEARLESS
    moved = None if boot is None else pl.col("time") + boot
    return (
        pl.when(is_since).then(moved).otherwise(pl.col("time")).alias("time"),
        pl.when(is_since).then(pl.col("flags") | yearless).otherwise(pl.col("flags")).cast(pl.UInt8).alias("flags"),
    )


def without_undated() -> pl.Expr:
    """The column ``time`` without stamps that name no date."""
    return pl.when((pl.col("flags") & OF_DAY) == 0).then("time").alias("time")


def with_dates() -> tuple[pl.Expr, pl.Expr]:
    """The columns ``time`` and ``flags`` with dates for stamps that name none, of all lines of a log in order: the date
    of the stamp with one before them, else after them, and the next day where the clock runs back by half a day. Where
    no stamp has a date, they are year-less ones of 1 January.
    """
    is_bare, clock = (pl.col("flags") & OF_DAY) != 0, (pl.col("time") % _DAY).forward_fill()
    days = ((clock.diff() < -_DAY // 2).cast(pl.Int64) - (clock.diff() > _NEARLY_A_DAY)).fill_null(0).cum_sum()
    since = pl.when(~is_bare).then(pl.col("time") // _DAY - days).forward_fill().backward_fill()
    time = pl.when(is_bare).then(clock + (days + since.fill_null(_new_year(NO_YEAR) // _DAY)) * _DAY)
    is_yearless = is_bare & (time < _new_year(NO_YEAR + 1))
    flags = pl.when(is_yearless).then(pl.col("flags") | YEARLESS).otherwise(pl.col("flags"))
    return pl.coalesce(time, "time").alias("time"), flags.cast(pl.UInt8).alias("flags")


def time_in_year(before: int, after: int) -> pl.Expr:
    """The column ``time`` moved from one year to another; 29 February may become 1 March."""
    since = pl.col("time") - _new_year(before)
    if not calendar.isleap(before):
        since = pl.when(since >= _TO_LEAP_DAY).then(since + _DAY).otherwise(since)
    if not calendar.isleap(after):
        since = pl.when(since >= _TO_LEAP_DAY + _DAY).then(since - _DAY).otherwise(since)
    is_yearless = (pl.col("flags") & YEARLESS) != 0
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
