"""The common format of flow records for all exporters: readers write it, the analysis reads it.

Times are nanoseconds since 1970 UTC (or since the capture's own zero where the source is relative). In a record,
between ``start`` and ``end`` the endpoint ``src`` sent ``bytes`` to ``dst``; ``path`` lists the switches it crossed,
joined by ``;``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Full, Queue
from threading import Thread
from typing import Any, Self

import polars as pl
from polars.io.plugins import register_io_source

SCHEMA: dict[str, type[pl.DataType]] = {
    "start": pl.Int64,
    "end": pl.Int64,
    "src": pl.String,
    "dst": pl.String,
    "src_port": pl.Int32,
    "dst_port": pl.Int32,
    "proto": pl.Int16,
    "bytes": pl.Int64,
    "packets": pl.Int64,
    "path": pl.String,
}

PROTOCOLS = {
    "ICMP": 1,
    "IGMP": 2,
    "TCP": 6,
    "UDP": 17,
    "GRE": 47,
    "ICMP6": 58,
    "ICMPV6": 58,
    "IPV6-ICMP": 58,
    "SCTP": 132,
}

#: More than this in one record is a wrapped counter, not a transfer (800 Gb/s for three hours).
MAX_BYTES = 10**15

#: Nanoseconds since 1970 (the year 2096) after which a time is a broken field.
MAX_TIME_NS = 4 * 10**18

PART_ROWS = 500_000

#: Grids of times from a millisecond on, in milliseconds, the coarsest first.
_COARSE_GRIDS_MS = (1000, 500, 200, 100, 50, 20, 10, 5, 2, 1)
#: Share of the times that lie on their grid.
_ON_GRID = 0.99


class RecordWriter:
    """Collects normalised tables and writes one Parquet file. Of more than ``PART_ROWS`` rows, a thread writes them as
    they come; memory stays below four times that. O(rows).
    """

    def __init__(self, work: Path) -> None:
        self._target = work / "columns.parquet"
        self._open: list[pl.DataFrame] = []
        self._rows = 0
        self._full: Queue[pl.DataFrame | None] = Queue(1)
        self._failed: list[BaseException] = []
        self._thread: Thread | None = None
        self.rows = 0
        self.dropped = 0
        self.reversed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_thread()

    def add(self, table: pl.DataFrame) -> None:
        """Takes rows of ``SCHEMA``; leaves out and counts those without time or address."""
        if not table.height:
            return
        wanted = [
            (pl.col(name) if name in table.columns else pl.lit(None)).cast(kind, strict=False).alias(name)
            for name, kind in SCHEMA.items()
        ]
        table = table.select(wanted)
        whole = pl.all_horizontal(pl.col("start", "src", "dst").is_not_null()) & pl.col("start").is_between(
            0, MAX_TIME_NS
        )
        whole &= pl.col("end").is_null() | pl.col("end").is_between(-MAX_TIME_NS, MAX_TIME_NS)
        kept = table.filter(whole & (pl.col("bytes").is_null() | pl.col("bytes").is_between(0, MAX_BYTES)))
        self.dropped += table.height - kept.height
        back = kept.select((pl.col("end") < pl.col("start")).sum()).item()
        self.reversed += int(back or 0)
        kept = kept.with_columns(end=pl.max_horizontal("start", pl.col("end").fill_null(pl.col("start"))))
        self._open.append(kept)
        self._rows += kept.height
        self.rows += kept.height
        if self._rows >= PART_ROWS:
            self._flush()

    def finish(self) -> Path:
        """Ends ``columns.parquet`` and returns its path. Raises what writing raised (``OSError``: the disk is full)."""
        if self._thread is None:
            table = pl.concat(self._open) if self._open else pl.DataFrame(schema=SCHEMA)
            table.write_parquet(self._target, compression="lz4", statistics=False)
            return self._target
        if self._open:
            self._flush()
        self._end_thread()
        if self._failed:
            raise self._failed[0]
        return self._target

    def _end_thread(self) -> None:
        if self._thread is not None:
            self._hand_over(None)
            self._thread.join()

    def _flush(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._write, daemon=True)
            self._thread.start()
        table, self._open, self._rows = pl.concat(self._open), [], 0
        self._hand_over(table)

    def _hand_over(self, table: pl.DataFrame | None) -> None:
        """Gives the thread a table, or word of the end; nothing if it has failed."""
        assert self._thread is not None
        while self._thread.is_alive():
            with suppress(Full):
                self._full.put(table, timeout=1.0)
                return

    def _write(self) -> None:
        try:
            source = register_io_source(self._tables, schema=SCHEMA)
            source.sink_parquet(self._target, compression="lz4", statistics=False)
        except BaseException as error:  # whoever finishes raises it
            self._failed.append(error)

    def _tables(self, *_: object) -> Iterator[pl.DataFrame]:
        while (table := self._full.get()) is not None:
            yield table


def quality(columns: Path) -> dict[str, Any]:
    """The quality of a capture: counts, span, time resolution, record lengths, direction, gaps. Two lazy
    passes: what needs all values of a column at once would load the others with it.

    ``resolution_s`` is the grid that 99 % of the start times lie on: from 1e-9 s on, from a millisecond on in finer
    distances (exporters round to 10 or 100 ms too).
    """
    scan = pl.scan_parquet(columns)
    length = pl.col("end") - pl.col("start")
    row = (
        scan.select(
            records=pl.len(),
            t0=pl.col("start").min(),
            t1=pl.col("end").max(),
            on_milli=(pl.col("start") % 1_000_000 == 0).mean(),
            on_micro=((pl.col("start") + 120) % 1_000 <= 240).mean(),
            longest_s=length.max() / 1e9,
            without_bytes=pl.col("bytes").is_null().mean(),
            without_path=pl.col("path").is_null().mean(),
            without_port=pl.col("src_port").is_null().mean(),
            bytes=pl.col("bytes").sum(),
            sources=pl.col("src").approx_n_unique(),
            targets=pl.col("dst").approx_n_unique(),
        )
        .collect(engine="streaming")
        .row(0, named=True)
    )
    if not row["records"]:
        return {"records": 0}
    usual = pl.col("length").median() / 1e9, pl.col("length").quantile(0.95) / 1e9
    median_s, p95_s = scan.select(length=length).select(median=usual[0], p95=usual[1]).collect().row(0)
    fine = 1e-6 if row["on_micro"] > _ON_GRID else 1e-9
    grid = _coarse_grid(scan) if row["on_milli"] > _ON_GRID else fine
    return {
        "records": row["records"],
        "t0": row["t0"] / 1e9,
        "t1": row["t1"] / 1e9,
        "resolution_s": grid,
        "longest_s": row["longest_s"],
        "median_s": median_s,
        "p95_s": p95_s,
        "without_bytes": round(row["without_bytes"], 6),
        "without_path": round(row["without_path"], 6),
        "without_port": round(row["without_port"], 6),
        "bytes": int(row["bytes"] or 0),
        "sources": row["sources"],
        "targets": row["targets"],
    }


def _coarse_grid(scan: pl.LazyFrame) -> float:
    """The coarsest grid of times in whole milliseconds, in seconds."""
    start = pl.col("start")
    on = scan.select((start % (ms * 1_000_000) == 0).mean().alias(str(ms)) for ms in _COARSE_GRIDS_MS)
    shares = on.collect(engine="streaming").row(0)
    fit = (ms for ms, share in zip(_COARSE_GRIDS_MS, shares, strict=True) if share > _ON_GRID)
    return next(fit, 1) / 1000
