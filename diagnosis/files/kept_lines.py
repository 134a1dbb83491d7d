"""The table of the lines that are kept of an old job, in few bytes.

Numbers of lines and times are stored as what follows the kept line before in the file, and messages as small numbers:
a tenth less than as they are.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import polars as pl

#: Schema of the kept lines, in the order of files and lines; ``masked``: a number of the message, in this table alone.
KEPT_SCHEMA: Final = {
    "path": pl.String(),
    "line": pl.UInt32(),
    "time": pl.Int64(),
    "who": pl.String(),
    "level": pl.UInt8(),
    "masked": pl.UInt64(),
    "text": pl.Binary(),
}
_STORED_SCHEMA: Final = {
    "path": pl.String(),
    "skipped": pl.UInt32(),
    "passed_ms": pl.Int64(),
    "who": pl.String(),
    "level": pl.UInt8(),
    "message": pl.UInt32(),
    "text": pl.Binary(),
}
_NS_PER_MS: Final = 1_000_000


def write(kept: pl.DataFrame, out: Path) -> None:
    """Store kept lines (``KEPT_SCHEMA``); times of them to a millisecond."""
    line, ms = pl.col("line").cast(pl.Int64), pl.col("time") // _NS_PER_MS
    before = ms.forward_fill().shift().over("path")
    number = {masked: n for n, masked in enumerate(kept["masked"].unique(maintain_order=True))}
    columns = {
        "skipped": line - line.shift(fill_value=0).over("path") - 1,
        "passed_ms": ms - before.fill_null(0),
        "message": pl.col("masked").replace_strict(number, return_dtype=pl.UInt32),
    }
    _write(kept.with_columns(**columns).select(pl.col(name).cast(kind) for name, kind in _STORED_SCHEMA.items()), out)


def read(data: bytes) -> pl.DataFrame:
    """The kept lines (``KEPT_SCHEMA``) of a stored table."""
    table = pl.read_parquet(io.BytesIO(data))
    if "masked" in table.columns:  # stored by version 0.1
        return table
    line, time = pl.col("skipped").cast(pl.Int64) + 1, pl.col("passed_ms") * _NS_PER_MS
    columns = {"line": line.cum_sum().over("path"), "time": time.cum_sum().over("path"), "masked": pl.col("message")}
    return table.with_columns(**columns).select(pl.col(name).cast(kind) for name, kind in KEPT_SCHEMA.items())


def write_without(data: bytes, path: str, out: Path) -> None:
    """Store a stored table again, without the lines of one file."""
    _write(pl.read_parquet(io.BytesIO(data)).filter(pl.col("path") != path), out)


def _write(table: pl.DataFrame, out: Path) -> None:
    """A table that is stored for long and read whole: smaller than with zstd 19 and written in less time, without the
    statistics that help to skip parts of a large one.
    """
    table.write_parquet(out, compression="brotli", compression_level=11, statistics=False)
