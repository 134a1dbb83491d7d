"""The records of all files of a capture, with small integers in place of addresses and paths.

All that a process needs to read any part of them is a :class:`Coded`: the files, and what all of them have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from diagnosis.flows import pieces
from diagnosis.flows.packing import sent
from diagnosis.flows.partitions import partition, spread
from diagnosis.flows.sharing import by_port, ranks_by_port

#: Bytes a packet below which a record has no relevant payload.
CONTROL = 250
#: A packet with up to this many bytes more than the smallest one has options, but no payload.
OPTIONS = 14


@sent
@dataclass(frozen=True, slots=True)
class Coded:
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
            control=(pl.col("bytes") < CONTROL * pl.col("packets")).fill_null(False),
            empty=(pl.col("bytes") <= (self.header + OPTIONS) * pl.col("packets")).fill_null(False),
        )


def coded_of(files: Sequence[str], disk: pieces.Disk | None) -> Coded:
    """What the files have in common. O(records)."""
    ranks = ranks_by_port(pl.concat([pl.scan_parquet(file) for file in files]))
    scan = _scan(files, ranks)
    total = int(scan.select(pl.len()).collect().item())
    parts = [(list(files), ranks, piece.start, piece.stop - piece.start) for piece in pieces.of(total)]
    found = list(spread(disk, _named, parts))
    names, paths = (sorted(set().union(*(part[at] for part in found))) for at in (0, 1))
    return Coded(list(files), names, paths, ranks, _header(scan), total)


def _scan(files: Sequence[str], ranks: pl.DataFrame) -> pl.LazyFrame:
    return by_port(pl.concat([pl.scan_parquet(file) for file in files]), ranks)


@partition
def _named(files: Sequence[str], ranks: pl.DataFrame, first: int, count: int) -> tuple[list[str], list[str]]:
    """The different addresses and paths of some records."""
    scan = _scan(files, ranks).slice(first, count)
    found = scan.select(
        pl.col("src").unique().implode().list.set_union(pl.col("dst").unique().implode()).alias("names"),
        pl.col("path").unique().implode().alias("paths"),
    ).collect(engine="streaming")
    return [x for x in found["names"][0] if x is not None], [x for x in found["paths"][0] if x is not None]


def _header(scan: pl.LazyFrame) -> float:
    """Bytes of a packet without payload as this capture counts them; if no record is that small, a number below all
    records.
    """
    each = pl.col("bytes") / pl.col("packets")
    low = scan.select(each.filter(each < CONTROL).quantile(0.01)).collect().item()
    return -float(OPTIONS) if low is None or not np.isfinite(low) else float(low)
