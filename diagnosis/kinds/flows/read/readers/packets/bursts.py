"""Packets to flow records: packets of one connection that follow each other closely are one transfer."""

from __future__ import annotations

import polars as pl

from diagnosis.kinds.flows.read.flow_records import RecordWriter

#: A pause this long ends a transfer (as seen by the receiver's next packet).
MIN_PAUSE_NS = 2_000_000
KEY = ["src", "dst", "src_port", "dst_port", "proto", "path"]
COLUMNS = [*KEY, "start", "end", "bytes", "packets"]


class Bursts:
    """Joins packets over block borders; memory holds one block and the transfers still open."""

    def __init__(self, out: RecordWriter) -> None:
        self._out = out
        self._open: pl.DataFrame | None = None

    def add(self, packets: pl.DataFrame) -> None:
        """Takes packets (``KEY``, start, end, bytes, packets), in any order within a block."""
        if not packets.height:
            return
        packets = packets.select(COLUMNS)
        part = packets if self._open is None else pl.concat([self._open, packets], how="vertical_relaxed")
        joined = self._join(part)
        newest = joined["end"].max()
        done = pl.col("end") < pl.lit(newest) - MIN_PAUSE_NS
        self._out.add(joined.filter(done))
        self._open = joined.filter(~done)

    def finish(self) -> None:
        """Writes what is still open."""
        if self._open is not None:
            self._out.add(self._open)
            self._open = None

    @staticmethod
    def _join(part: pl.DataFrame) -> pl.DataFrame:
        part = part.sort([*KEY, "start"], nulls_last=True)
        other = pl.any_horizontal(pl.col(c).ne_missing(pl.col(c).shift(1)) for c in KEY)
        fresh = other | (pl.col("start") - pl.col("end").shift(1) > MIN_PAUSE_NS)
        part = part.with_columns(burst=fresh.fill_null(True).cum_sum())
        return (
            part.group_by("burst", maintain_order=True)
            .agg(pl.col(KEY).first(), pl.col("start").min(), pl.col("end").max(), pl.col("bytes", "packets").sum())
            .select(COLUMNS)
        )
