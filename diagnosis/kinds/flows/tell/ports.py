"""Switch port counters: bandwidth over time. A table for pages, a summary for the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from diagnosis.kinds.flows.read.port_rates import Bandwidth, PortRates
from diagnosis.kinds.flows.tell.report_rows import PortCaptureRow, PortRow
from diagnosis.model import Parsed
from diagnosis.plain import csv_cell

#: Ports drawn at once, the busiest first.
MAX_DRAWN = 64


def port_captures(parsed: Sequence[Parsed], tables: Path | None) -> list[PortCaptureRow]:
    """One row an artifact of port counters. Its table, a row a port and slice, is written into ``tables``."""
    rows: list[PortCaptureRow] = []
    for part in parsed:
        stored = part.facts.get("flow", {}).get("bandwidth")
        if part.skipped or not stored or not stored["ports"]:
            continue
        bandwidth = msgspec.convert(stored, Bandwidth)
        name = f"ports-{len(rows) + 1}"
        ports = [_summary(port) for port in bandwidth.ports]
        row = PortCaptureRow(
            bandwidth.t0, bandwidth.t1, bandwidth.slice_s, bandwidth.ports_total, name, part.path, ports
        )
        if tables is not None:
            tables.mkdir(parents=True, exist_ok=True)
            row.table = f"{name}.parquet"
            _long_table(bandwidth).write_parquet(tables / row.table, compression="lz4")
        rows.append(row)
    return rows


def _summary(port: PortRates) -> PortRow:
    inside = np.array(port.in_bps, dtype=float)
    outside = np.array(port.out_bps, dtype=float)
    idle = float(((inside + outside) == 0).mean())
    return PortRow(port.port, round(float(inside.mean())), round(float(outside.mean())), port.peak_bps, round(idle, 4))


def _long_table(bandwidth: Bandwidth) -> pl.DataFrame:
    """A row a port and slice: ``port``, ``time`` (epoch seconds, the slice's begin), ``in_bps``, ``out_bps``."""
    slices = len(bandwidth.ports[0].in_bps)
    time = bandwidth.t0 + bandwidth.slice_s * np.arange(slices)
    schema = {"port": pl.String, "time": pl.Float64, "in_bps": pl.Float64, "out_bps": pl.Float64}
    return pl.concat(
        pl.DataFrame(
            {"port": [p.port] * slices, "time": time, "in_bps": p.in_bps, "out_bps": p.out_bps},
            schema,
            strict=False,
        )
        for p in bandwidth.ports
    )


def ports_view(table: Path, t0: float, t1: float) -> dict[str, list[str] | list[float] | list[list[float | None]]]:
    """The busiest ``MAX_DRAWN`` ports in [t0, t1): ``ports``, ``times`` (epoch seconds) and ``bps`` [port][time], both
    directions together.
    """
    inside = pl.scan_parquet(table).filter(pl.col("time").is_between(t0, t1))
    rows = inside.select("port", "time", bps=pl.col("in_bps") + pl.col("out_bps")).collect()
    if rows.is_empty():
        return {"ports": [], "times": [], "bps": []}
    order = rows.group_by("port").agg(pl.col("bps").sum()).sort("bps", "port", descending=[True, False]).head(MAX_DRAWN)
    wide = rows.pivot("port", index="time", values="bps").sort("time")
    ports = order["port"].to_list()
    return {"ports": ports, "times": wide["time"].to_list(), "bps": [wide[p].to_list() for p in ports]}


def port_lines(table: Path, port: str) -> dict[str, list[float]]:
    """One port over time: ``times``, ``in_bps``, ``out_bps``; empty lists for an unknown port."""
    rows = pl.scan_parquet(table).filter(pl.col("port") == port).sort("time").collect()
    return {
        name: rows[column].to_list()
        for name, column in (("times", "time"), ("in_bps", "in_bps"), ("out_bps", "out_bps"))
    }


def write_csv(table: Path, target: Path) -> None:
    """The whole table as CSV, without names that act (:func:`diagnosis.plain.csv_cell`)."""
    rows = pl.scan_parquet(table)
    names = {name: csv_cell(name) for name in rows.select(pl.col("port").unique()).collect()["port"]}
    rows.with_columns(pl.col("port").replace(names)).sink_csv(target)
