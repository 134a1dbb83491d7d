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
