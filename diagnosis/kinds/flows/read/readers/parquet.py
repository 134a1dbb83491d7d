"""Flow records in Parquet, with the same column names as the delimited form."""

from __future__ import annotations

import shutil
import tempfile
from typing import BinaryIO

import polars as pl

from diagnosis.kinds.flows.read.flow_records import RecordWriter
from diagnosis.kinds.flows.read.readers import counters, parquet_sizes
from diagnosis.kinds.flows.read.readers.base import Reading, UnusableFlows
from diagnosis.kinds.flows.read.readers.columns import Columns
from diagnosis.model import ParseHints

#: rows that are read at a time: a row of equal values takes no space in the file, and some hundred bytes here
SLICE_ROWS = 250_000


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
            total = scan.select(pl.len()).collect().item()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise UnusableFlows(f"The Parquet file cannot be read ({_first_line(error)}). Export it again.") from error
        ports = counters.find_columns(names)
        if ports is not None:
            return _counters(scan, ports, total)
        columns = Columns.of(names)
        reading = Reading("canonical-parquet", lines=total)
        for offset in range(0, total, SLICE_ROWS):
            table = scan.slice(offset, SLICE_ROWS).collect()
            out.add(columns.normalise(table, hints.time_zone, reading))
    return reading


def _counters(scan: pl.LazyFrame, ports: dict[str, str], rows: int) -> Reading:
    """Port counters: no steps, only bandwidth over time."""
    reading = Reading("port-counters", lines=rows)
    reading.bandwidth = counters.bandwidth(scan, ports)
    reading.notes.append("Switch port counters: they show bandwidth over time, not which machines exchange data.")
    return reading


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
