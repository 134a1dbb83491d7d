"""All usable flow artifacts of a job as arrays, for every later phase.

Addresses and paths become small integers; times become seconds from the capture's first record, so that a float keeps
a nanosecond.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.flows.sharing import by_port, endpoint, host_of
from diagnosis.model import Parsed

Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

#: Bytes a packet below which a record has no relevant payload.
CONTROL = 250
#: A packet with up to this many bytes more than the smallest one has options, but no payload.
OPTIONS = 14
#: A few records further than this many seconds from the middle do not belong to this capture.
FAR_S = 30 * 86_400


@dataclass(frozen=True, slots=True)
class Flows:
    """Records as columns of equal length, sorted by start.

    ``start``/``end`` seconds from ``Capture.t0``; ``src``/``dst`` address ids; ``size`` bytes (NaN where unknown);
    ``port`` the smaller port of the two (services listen on small ones; 0 unknown); ``path`` path id (-1 unknown);
    ``control`` marks records of small packets only: acknowledgements, handshakes, barriers; ``empty`` those of them
    without payload (bare acknowledgements): the kernel sent them, not the program.
    """

    start: Floats
    end: Floats
    src: Small
    dst: Small
    size: Floats
    port: Small
    path: Small
    control: Bools
    empty: Bools

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Bools | Ints) -> Flows:
        """The chosen rows, in their order."""
        return Flows(
            self.start[rows],
            self.end[rows],
            self.src[rows],
            self.dst[rows],
            self.size[rows],
            self.port[rows],
            self.path[rows],
            self.control[rows],
            self.empty[rows],
        )


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an address in the inventory; empty strings if unknown. ``ranks``: those of its machine."""

    node: str = ""
    gpu: str = ""
    switch: str = ""
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Offset:
    """One collector's clock against the others' median; ``exact`` if it comes from a common ring (see ``clocks``)."""

    collector: str
    seconds: float
    exact: bool


@dataclass(slots=True)
class Capture:
    """Records, names and their places. ``t0`` seconds UTC of ``Flows`` time zero."""

    flows: Flows
    names: list[str]
    paths: list[tuple[str, ...]]
    t0: float
    resolution_s: float = 1e-6
    has_bytes: bool = True
    duplicates: int = 0
    places: dict[int, Place] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    clocks: list[Offset] = field(default_factory=list)

    @property
    def span_s(self) -> float:
        """Seconds from the first start to the last end."""
        return float(self.flows.end.max()) if len(self.flows) else 0.0

    def machine(self, member: int) -> str:
        """The name of a member's machine, or its address if the inventory has none."""
        place = self.places.get(member)
        return place.node if place is not None and place.node else self.names[member]

    def labels(self, members: Iterable[int]) -> dict[str, str]:
        """How to show members whose machine is known: its name, with the rank if it has only one, with port, GPU or
        address if several members are on it.
        """
        own = {m: place for m in members if (place := self.places.get(m)) is not None and place.node}
        count = Counter(place.node for place in own.values())
        found: dict[str, str] = {}
        for m, place in own.items():
            name = self.names[m]
            if count[place.node] > 1:
                by_port = f":{name.rpartition(':')[2]}" if host_of(name) else ""
                more = by_port or (f" gpu {place.gpu}" if place.gpu else f" {name}")
            else:
                more = f" rank {place.ranks[0]}" if len(place.ranks) == 1 else ""
            found[name] = f"{place.node}{more}"
        return found

    def at(self, seconds: float) -> float:
        """Epoch seconds of a time relative to the capture."""
        return round(self.t0 + float(seconds), 6)


def load(parsed: Sequence[Parsed], inventory: Sequence[Mapping[str, Any]] = ()) -> Capture | None:
    """Reads all artifacts' records at once, drops exact duplicates, sorts by start. None if nothing is usable. Memory:
    about 60 bytes a record in addition to the Parquet reader's own.
    """
    usable = [p for p in parsed if p.columns is not None and p.skipped is None and p.lines != 0]
    if not usable:
        return None
    scans = [pl.scan_parquet(p.columns) for p in usable if p.columns is not None]
    scan, shared = by_port(pl.concat(scans))
    names = _distinct(scan, "src", "dst")
    paths = _distinct(scan, "path")
    codes = pl.Enum(names)
    table = scan.select(
        "start",
        "end",
        pl.col("src", "dst").cast(codes).to_physical().cast(pl.Int32),
        pl.col("bytes").cast(pl.Float64),
        pl.min_horizontal("src_port", "dst_port").fill_null(0).cast(pl.Int32).alias("port"),
        pl.max_horizontal("src_port", "dst_port").fill_null(0).cast(pl.Int32).alias("high"),
        pl.col("path").cast(pl.Enum(paths)).to_physical().cast(pl.Int32).fill_null(-1),
        control=(pl.col("bytes") < CONTROL * pl.col("packets")).fill_null(False),
        empty=(pl.col("bytes") <= (_header(scan) + OPTIONS) * pl.col("packets")).fill_null(False),
    ).collect()
    if not table.height:
        return None
    table, astray = _of_one_time(table)
    before = table.height
    resolution = max((float(p.facts.get("flow", {}).get("resolution_s", 1e-6)) for p in usable), default=1e-6)
    table = _without_duplicates(table.sort("start", maintain_order=True), resolution)
    t0 = int(table["start"].item(0))
    flows = Flows(
        start=(table["start"] - t0).to_numpy() / 1e9,
        end=(table["end"] - t0).to_numpy() / 1e9,
        src=table["src"].to_numpy(),
        dst=table["dst"].to_numpy(),
        size=table["bytes"].fill_null(float("nan")).to_numpy(),
        port=table["port"].to_numpy(),
        path=table["path"].to_numpy(),
        control=table["control"].to_numpy(),
        empty=table["empty"].to_numpy(),
    )
    capture = Capture(
        flows,
        names,
        [tuple(part for part in p.split(";") if part) for p in paths],
        t0 / 1e9,
        resolution_s=resolution,
        has_bytes=bool(np.isfinite(flows.size).mean() > 0.5),
        duplicates=before - table.height,
    )
    capture.places = _places(names, inventory)
    if astray:
        capture.notes.append(
            f"{astray} record{'s lie' if astray > 1 else ' lies'} more than {FAR_S // 86_400} days from all others (a "
            "clock that was not set): left out."
        )
    if shared:
        capture.notes.append(
            f"{shared} addresses are shared by several ranks, which use a port of their own each; members are named "
            "address:port."
        )
    return capture


def _distinct(scan: pl.LazyFrame, *columns: str) -> list[str]:
    """The different values of some text columns, sorted."""
    parts = [scan.select(pl.col(c).alias("x").drop_nulls().unique()) for c in columns]
    return [str(x) for x in pl.concat(parts).unique().sort("x").collect(engine="streaming")["x"].to_list()]


def _header(scan: pl.LazyFrame) -> float:
    """Bytes of a packet without payload as this capture counts them; if no record is that small, a number below all
    records.
    """
    each = pl.col("bytes") / pl.col("packets")
    low = scan.select(each.filter(each < CONTROL).quantile(0.01)).collect().item()
    return -float(OPTIONS) if low is None or not np.isfinite(low) else float(low)


def _of_one_time(table: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Leaves out the few records with times months or decades from the others, and counts them."""
    middle = table["start"].median()
    far = table.select((pl.col("start", "end") - middle).abs() > FAR_S * 10**9).max_horizontal()
    count = int(far.sum())
    return (table.filter(~far), count) if 0 < count < 0.01 * table.height else (table, 0)


def _without_duplicates(table: pl.DataFrame, resolution_s: float) -> pl.DataFrame:
    """Leaves out records that repeat another in time, ends, ports and volume.

    With millisecond times two real transfers of one size may look alike, so only a duplication of the whole capture is
    removed.
    """
    key = table.select(pl.struct("start", "end", "src", "dst", "port", "high", "bytes").hash(seed=7).alias("key"))[
        "key"
    ]
    repeated = 1.0 - key.n_unique() / len(key)
    if repeated == 0.0 or (resolution_s > 1e-5 and repeated < 0.3):
        return table
    return table.filter(key.is_first_distinct())


def _places(names: Sequence[str], inventory: Sequence[Mapping[str, Any]]) -> dict[int, Place]:
    """Joins the inventory to the addresses seen."""
    known = {str(row.get("ip", "")).strip(): row for row in inventory}
    known |= {endpoint(str(row["ip"]).strip(), row["port"]): row for row in inventory if row.get("port")}
    places: dict[int, Place] = {}
    for index, name in enumerate(names):
        row = known.get(name)
        if row is None and known.get(host_of(name)):
            row = {**known[host_of(name)], "gpu": name.rpartition(":")[2]}  # ranks of one machine, in the ports' order
        if row is not None:
            switch = row.get("switch") or row.get("leaf") or ""
            gpu = str(row.get("gpu") if row.get("gpu") is not None else "")
            places[index] = Place(str(row.get("node") or ""), gpu, str(switch), tuple(row.get("ranks") or ()))
    return places
