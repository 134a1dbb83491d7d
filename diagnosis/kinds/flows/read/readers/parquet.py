"""Flow records in Parquet, with the same column names as the delimited form."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import BinaryIO, Final

import polars as pl

from diagnosis import thresholds
from diagnosis.facts import operations
from diagnosis.kinds.flows.read.flow_records import RecordWriter
from diagnosis.kinds.flows.read.readers import counters, parquet_sizes
from diagnosis.kinds.flows.read.readers.base import Reading, UnusableFlows
from diagnosis.kinds.flows.read.readers.columns import Columns
from diagnosis.model import ParseHints

LIMITS: Final = thresholds.limits("parquet")
#: rows that are read at a time: a row of equal values takes no space in the file, and some hundred bytes here
SLICE_ROWS = 250_000
#: Sums of one operation of one worker in one step that are read.
MAX_OPERATIONS: Final = 500_000
_MANY_ROWS: Final = (
    "The file states {stated:,} rows in {size:,} bytes, so most of them are equal: only the first {total:,} were read."
)


def read_parquet(stream: BinaryIO, path: str, hints: ParseHints, out: RecordWriter) -> Reading:
    """Reads a Parquet file slice by slice. The footer lies at the end, so the stream is spooled to disk first."""
    with tempfile.NamedTemporaryFile(suffix=".parquet") as spool:
        shutil.copyfileobj(stream, spool, 1 << 20)
        spool.flush()
        try:
            parquet_sizes.check_sizes(spool.file)
        except parquet_sizes.Unreadable as error:
            raise UnusableFlows(f"The Parquet file cannot be read: {error}. Export it again.") from error
        try:
            scan = pl.scan_parquet(spool.name)
            names = scan.collect_schema().names()
            stated = scan.select(pl.len()).collect().item()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise UnusableFlows(f"The Parquet file cannot be read ({_first_line(error)}). Export it again.") from error
        size = Path(spool.name).stat().st_size
        total = min(stated, LIMITS.rows + size // LIMITS.row_bytes)
        reading = _reading(scan.head(total), names, total)
        if total < stated:
            reading.notes.append(_MANY_ROWS.format(stated=stated, size=size, total=total))
        if reading.bandwidth is not None:
            return reading
        operation_columns = operations.find_columns(names)
        if operation_columns is not None and not Columns.are_enough(names):
            reading.operations = _sums(scan.head(total), operation_columns)
            return reading
        columns = Columns.of(names)
        for offset in range(0, total, SLICE_ROWS):
            table = scan.slice(offset, SLICE_ROWS).collect()
            out.add(columns.normalise(table, hints.time_zone, reading))
    return reading


def _reading(scan: pl.LazyFrame, names: list[str], rows: int) -> Reading:
    """What is known of a file before its records; of port counters all: no steps, only bandwidth over time."""
    ports = counters.find_columns(names)
    if ports is None:
        return Reading("canonical-parquet", lines=rows)
    reading = Reading("port-counters", lines=rows)
    reading.bandwidth = counters.bandwidth(scan, ports)
    reading.notes.append("Switch port counters: they show bandwidth over time, not which machines exchange data.")
    return reading


def _sums(scan: pl.LazyFrame, columns: operations.Columns) -> tuple[operations.Sum, ...]:
    """What each worker did in each step. Polars adds the rows, so that few are left to read."""
    stage = pl.col(columns.stage) if columns.stage else pl.lit("")
    table = scan.select(
        worker=pl.format("rank {}", pl.col(columns.rank)),
        stage=stage.cast(pl.String),
        step=pl.col(columns.step).cast(pl.Int64, strict=False),
        name=pl.col(columns.name).cast(pl.String),
        seconds=pl.col(columns.duration).cast(pl.Float64, strict=False) / columns.per_second,
    ).drop_nulls()
    rows = table.group_by("worker", "stage", "step", "name").agg(pl.col("seconds").sum()).head(MAX_OPERATIONS)
    return tuple(operations.sums(operations.Operation(*row) for row in rows.collect().sort(pl.all()).iter_rows()))


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
