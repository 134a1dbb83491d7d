"""Volume and rates of the switches that large records cross."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Capture, Flows, Group, Ints32, join_group
from diagnosis.kinds.flows.capture.partitions import partition, run_parts

THRESHOLDS: Final = thresholds.of("switch_rates")


class SwitchRate(msgspec.Struct, frozen=True):
    """What crossed one switch: records and bytes of large records; their usual rate, and that of their slowest tenth,
    in bytes a second.
    """

    switch: str
    records: int
    bytes: int
    typical_bytes_per_s: int
    slow_tenth_bytes_per_s: int


@dataclass(slots=True)
class _Sums:
    """Over the paths of one switch: records, bytes, and rates weighted by records."""

    records: int = 0
    bytes: float = 0.0
    rates: float = 0.0
    slow_rates: float = 0.0


def switch_rates(capture: Capture) -> Callable[[], list[SwitchRate]]:
    """Begins the volume and rates of every switch, busiest first. O(records)."""
    flows = capture.flows
    if not capture.paths or flows.path.max(initial=-1) < 0:
        return list
    groups = flows.grouped(flows.column(np.int32, _path_of_large), len(capture.paths))

    def found() -> list[SwitchRate]:
        parts = [(group, max(capture.resolution_s, 1e-6)) for group in groups()]
        return _by_switch(pl.concat(run_parts(flows.disk, _path_rates, parts)), capture)

    return found


def _by_switch(per_path: pl.DataFrame, capture: Capture) -> list[SwitchRate]:
    sums_of: dict[str, _Sums] = {}
    for path, records, size, middle, low in per_path.sort("path").iter_rows():
        for switch in capture.paths[path]:
            sums = sums_of.setdefault(switch, _Sums())
            sums.records += records
            sums.bytes += size
            sums.rates += middle * records
            sums.slow_rates += low * records
    busiest_first = sorted(sums_of.items(), key=lambda item: (-item[1].bytes, item[0]))
    return [
        SwitchRate(
            switch,
            sums.records,
            int(sums.bytes),
            round(sums.rates / sums.records),
            round(sums.slow_rates / sums.records),
        )
        for switch, sums in busiest_first
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
