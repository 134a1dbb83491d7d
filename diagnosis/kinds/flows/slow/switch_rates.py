"""Volume and rates of the switches that large records cross."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Capture, Flows, Group, Ints32, join_group
from diagnosis.kinds.flows.capture.partitions import partition, run_parts

THRESHOLDS: Final = thresholds.of("switch_rates")


def switch_rates(capture: Capture) -> Callable[[], list[dict[str, Any]]]:
    """Begins the volume and rates (bytes a second) of every switch, busiest first. O(records)."""
    flows = capture.flows
    if not capture.paths or flows.path.max(initial=-1) < 0:
        return list
    groups = flows.grouped(flows.column(np.int32, _path_of_large), len(capture.paths))

    def found() -> list[dict[str, Any]]:
        parts = [(group, max(capture.resolution_s, 1e-6)) for group in groups()]
        return _by_switch(pl.concat(run_parts(flows.disk, _path_rates, parts)), capture)

    return found


def _by_switch(per_path: pl.DataFrame, capture: Capture) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, float]] = {}
    for path, records, size, middle, low in per_path.sort("path").iter_rows():
        for switch in capture.paths[path]:
            row = rows.setdefault(switch, {"records": 0, "bytes": 0.0, "rate": 0.0, "low": 0.0})
            row["records"] += records
            row["bytes"] += size
            row["rate"] += middle * records
            row["low"] += low * records
    return [
        {
            "switch": name,
            "records": int(r["records"]),
            "bytes": int(r["bytes"]),
            "typical_bytes_per_s": round(r["rate"] / r["records"]),
            "slow_tenth_bytes_per_s": round(r["low"] / r["records"]),
        }
        for name, r in sorted(rows.items(), key=lambda item: (-item[1]["bytes"], item[0]))
    ]


@partition
def _path_of_large(part: Flows) -> Ints32:
    """The path of each large record, -1 of the others."""
    return np.asarray(np.where(part.size > 1e6, part.path, -1))


@partition
def _path_rates(group: Group, least_s: float) -> pl.DataFrame:
    """The records, bytes and rates of each path, of all records of some paths."""
    path, part = join_group(group)
    rate = pl.col("size") / (pl.col("end") - pl.col("start")).clip(lower_bound=least_s)
    table = pl.DataFrame({"path": path, "start": part.start, "end": part.end, "size": part.size})
    return table.group_by("path").agg(
        pl.len().alias("records"),
        pl.col("size").sum(),
        rate.median().alias("rate"),
        rate.quantile(THRESHOLDS.slow_part).alias("low"),
    )
