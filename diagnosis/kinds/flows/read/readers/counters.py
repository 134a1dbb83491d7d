"""Switch port counters over time: no flows, but bandwidth for each port."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.kinds.flows.read.port_rates import Bandwidth, PortRates
from diagnosis.kinds.flows.read.readers.column_names import plain
from diagnosis.values.extremes import middle

type Floats = npt.NDArray[np.float64]

TIMES = ("savetimeutc", "time", "timestamp", "ts")
PORTS = ("portname", "port", "interface", "ifname")
IN_BYTES = ("inoctets", "inbytes", "rxbytes", "ifhcinoctets")
OUT_BYTES = ("outoctets", "outbytes", "txbytes", "ifhcoutoctets")
#: Number of points for each port, and of ports, the busiest first.
MAX_POINTS = 600
MAX_PORTS = 256


def find_columns(names: Iterable[str]) -> dict[str, str] | None:
    """The columns of time, port, bytes in and out; None if the table is no counter table."""
    have = {plain(name): name for name in names}
    found: dict[str, str] = {}
    for role, aliases in (("time", TIMES), ("port", PORTS), ("in", IN_BYTES), ("out", OUT_BYTES)):
        name = next((have[a] for a in aliases if a in have), None)
        if name is None:
            return None
        found[role] = name
    return found


def bandwidth(table: pl.LazyFrame, columns: dict[str, str]) -> Bandwidth:
    """Mean rates in ``MAX_POINTS`` equal slices.

    Values that never fall are running counters and are differenced; others are bytes since the previous reading.
    """
    data = table.select(
        t=pl.col(columns["time"]).cast(pl.Float64),
        port=pl.col(columns["port"]).cast(pl.String),
        inside=pl.col(columns["in"]).cast(pl.Float64),
        outside=pl.col(columns["out"]).cast(pl.Float64),
    ).collect()
    typical = middle(data["t"])
    unit = 1.0 if typical < 1e11 else 1e3 if typical < 1e14 else 1e6 if typical < 1e17 else 1e9
    data = data.with_columns(t=pl.col("t") / unit).sort("port", "t")
    falling = (
        data.select(((pl.col("inside").diff() < 0) & (pl.col("port") == pl.col("port").shift(1))).mean()).item() or 0.0
    )
    if falling < 0.001:
        data = data.with_columns(pl.col("inside", "outside").diff().over("port").clip(lower_bound=0.0))
    t0, t1 = float(data["t"].min()), float(data["t"].max())  # type: ignore[arg-type]
    width = max((t1 - t0) / MAX_POINTS, 1e-9)
    edges = np.linspace(t0, t1, MAX_POINTS + 1)
    total = (
        data.group_by("port")
        .agg((pl.col("inside") + pl.col("outside")).sum().alias("bytes"))
        .sort("bytes", "port", descending=[True, False])
    )
    chosen = total["port"].head(MAX_PORTS).to_list()
    readings = data.filter(pl.col("port").is_in(chosen)).partition_by("port", as_dict=True)
    ports = [_rates(port, readings[port,], edges, width) for port in chosen]
    return Bandwidth(t0, t1, width, ports, total.height)


def _rates(port: str, readings: pl.DataFrame, edges: Floats, slice_s: float) -> PortRates:
    """The rates of one port between the edges of the slices (epoch seconds)."""
    inside = _bits_per_s(readings, "inside", edges, slice_s)
    outside = _bits_per_s(readings, "outside", edges, slice_s)
    return PortRates(port, inside, outside, max(*inside, *outside))


def _bits_per_s(readings: pl.DataFrame, column: str, edges: Floats, slice_s: float) -> list[float]:
    """A reading counts since the previous one: after a gap it is spread over the whole gap."""
    passed = readings[column].fill_null(0.0).to_numpy().copy()
    passed[0] = 0.0
    until_edges = np.interp(edges, readings["t"].to_numpy(), np.cumsum(passed))
    bits: list[float] = np.round(np.diff(until_edges) * 8 / slice_s).tolist()
    return bits
