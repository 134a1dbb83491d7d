"""The two tables of a parsed log: their schemas, and how parts of them are put together."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from diagnosis.logs import records

#: Schema of ``columns.parquet``: one row a physical line.
COLUMNS: dict[str, pl.DataType] = {
    "line": pl.UInt32(),  # 1-based
    "offset": pl.UInt64(),  # of its first byte
    "length": pl.UInt32(),  # bytes without the newline
    "record": pl.UInt32(),  # first line of the multi-line record that it belongs to
    "time": pl.Int64(),  # ns UTC, null where the line states none
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
#: The year of stamps that name none, until a year is known: a leap year.
NO_YEAR = 1972


def write_columns(parts: list[Path], target: Path, year: int | None) -> None:
    """Puts column parts together, streaming, and moves year-less stamps into ``year``; the parts are gone afterwards."""
    if not parts:
        pl.DataFrame(schema=COLUMNS).write_parquet(target)
    elif len(parts) == 1 and year is None:
        parts[0].replace(target)
        return
    else:
        rows = pl.scan_parquet(parts)
        if year is not None:
            moved = pl.col("time").cast(pl.Datetime("ns")).dt.replace(year=year).cast(pl.Int64)
            rows = rows.with_columns(
                time=pl.when((pl.col("flags") & records.YEARLESS) != 0).then(moved).otherwise(pl.col("time"))
            )
        rows.sink_parquet(target, compression="lz4")
    for part in parts:
        part.unlink()


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
