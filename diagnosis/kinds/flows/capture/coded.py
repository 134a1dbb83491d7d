"""The records of all files of a capture, with small integers in place of addresses and paths.

All that a process needs to read any part of them is a :class:`CodedRecords`: the files, and what all of them have in
common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.packing import packable
from diagnosis.kinds.flows.capture.partitions import partition, run_parts
from diagnosis.kinds.flows.capture.sharing import ranks_by_port, split_by_port

#: Bytes a packet below which a record has no relevant payload.
MAX_CONTROL_BYTES = 250
#: A packet with up to this many bytes more than the smallest one has options, but no payload.
MAX_OPTION_BYTES = 14


@packable
@dataclass(frozen=True, slots=True)
class CodedRecords:
    """``files`` (Parquet, as parsing wrote them) with ``total`` records; the ``names`` of addresses and ``paths`` in
    the order of their numbers; ``ranks`` that share an address (:func:`ranks_by_port`); ``header``: bytes of a packet
    without payload as the capture counts them.
    """

    files: list[str]
    names: list[str]
    paths: list[str]
    ranks: pl.DataFrame
    header: float
    total: int

    def scan(self) -> pl.LazyFrame:
        """The records: start, end, src, dst, bytes, port, high, path, control, empty."""
        codes = pl.Enum(self.names)
        return _scan(self.files, self.ranks).select(
            "start",
            "end",
            pl.col("src", "dst").cast(codes).to_physical().cast(pl.Int32),
            pl.col("bytes").cast(pl.Float64),
            pl.min_horizontal("src_port", "dst_port").fill_null(0).cast(pl.Int32).alias("port"),
            pl.max_horizontal("src_port", "dst_port").fill_null(0).cast(pl.Int32).alias("high"),
            pl.col("path").cast(pl.Enum(self.paths)).to_physical().cast(pl.Int32).fill_null(-1),
            control=(pl.col("bytes") < MAX_CONTROL_BYTES * pl.col("packets")).fill_null(False),
            empty=(pl.col("bytes") <= (self.header + MAX_OPTION_BYTES) * pl.col("packets")).fill_null(False),
        )


def code_records(files: Sequence[str], disk: pieces.Disk | None) -> CodedRecords:
    """What the files have in common. O(records)."""
    ranks = ranks_by_port(pl.concat([pl.scan_parquet(file) for file in files]))
    scan = _scan(files, ranks)
    total = int(scan.select(pl.len()).collect().item())
    parts = [(list(files), ranks, piece.start, piece.stop - piece.start) for piece in pieces.pieces_of(total)]
    found = list(run_parts(disk, _distinct_names, parts))
    names = sorted(set().union(*(part[0] for part in found)))
    paths = sorted(set().union(*(part[1] for part in found)))
    return CodedRecords(list(files), names, paths, ranks, _header_bytes(scan), total)


def _scan(files: Sequence[str], ranks: pl.DataFrame) -> pl.LazyFrame:
    return split_by_port(pl.concat([pl.scan_parquet(file) for file in files]), ranks)


@partition
def _distinct_names(files: Sequence[str], ranks: pl.DataFrame, first: int, count: int) -> tuple[list[str], list[str]]:
    """The different addresses and paths of some records."""
    scan = _scan(files, ranks).slice(first, count)
    found = scan.select(
        pl.col("src").unique().implode().list.set_union(pl.col("dst").unique().implode()).alias("names"),
        pl.col("path").unique().implode().alias("paths"),
    ).collect(engine="streaming")
    return [x for x in found["names"][0] if x is not None], [x for x in found["paths"][0] if x is not None]


def _header_bytes(scan: pl.LazyFrame) -> float:
    """Bytes of a packet without payload as this capture counts them; if no record is that small, a number below all
    records.
    """
    each = pl.col("bytes") / pl.col("packets")
    low = scan.select(each.filter(each < MAX_CONTROL_BYTES).quantile(0.01)).collect().item()
    return -float(MAX_OPTION_BYTES) if low is None or not np.isfinite(low) else float(low)
