"""All usable flow artifacts of a job as arrays, for every later phase.

Addresses and paths become small integers; times become seconds from the capture's first record, so that a float keeps
a nanosecond.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.flows import pieces
from diagnosis.flows.records_in_order import FAR_S, in_order
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


@dataclass(frozen=True, slots=True)
class Flows:
    """Records as columns of equal length, sorted by start.

    ``start``/``end`` seconds from ``Capture.t0``; ``src``/``dst`` address ids; ``size`` bytes (NaN where unknown);
    ``port`` the smaller port of the two (services listen on small ones; 0 unknown); ``path`` path id (-1 unknown);
    ``control`` marks records of small packets only: acknowledgements, handshakes, barriers; ``empty`` those of them
    without payload (bare acknowledgements): the kernel sent them, not the program. ``disk``: where long columns are.
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
    disk: pieces.Disk | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Bools | Ints | slice) -> Flows:
        """The chosen rows, in their order."""
        if isinstance(rows, slice):
            return Flows(*(column[rows] for column in self.columns()), disk=self.disk)
        count = int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows)
        return Flows(*(pieces.chosen(column, rows, count, self.disk) for column in self.columns()), disk=self.disk)

    def parts(self) -> Iterator[tuple[slice, Flows]]:
        """The records a piece at a time, with their rows."""
        for piece in pieces.of(len(self)):
            yield piece, self.take(piece)

    def split(self, owner: Ints | Small, count: int) -> list[Flows]:
        """The records of each of ``count`` owners (negative: nobody's), in their order."""
        if len(owner) and owner.min() == owner.max():
            return [self if number == owner[0] else self.take(slice(0, 0)) for number in range(count)]
        return [Flows(*own, disk=self.disk) for own in pieces.divided(self.columns(), owner, count, self.disk)]

    def in_groups(self, unit: Ints | Small, units: int) -> Iterator[tuple[Ints | Small, Flows]]:
        """The records of whole units (numbers below ``units``; negative: of none), about a piece of records at a time,
        with the unit of each.
        """
        if len(self) <= pieces.PIECE:
            yield (unit, self) if (unit >= 0).all() else (unit[unit >= 0], self.take(unit >= 0))
            return
        held = np.zeros(units, np.int64)
        for piece in pieces.of(len(unit)):
            held += np.bincount(unit[piece][unit[piece] >= 0], minlength=units)
        group = np.append((np.cumsum(held) - held) // pieces.PIECE, -1)  # the last is of no unit
        owner = pieces.empty(len(unit), np.int32, disk=self.disk)
        for piece in pieces.of(len(unit)):
            owner[piece] = group[unit[piece]]
        for own in pieces.divided((unit, *self.columns()), owner, int(group.max()) + 1, self.disk):
            yield own[0], Flows(*own[1:], disk=self.disk)

    def column(self, dtype: npt.DTypeLike, each: Callable[[Flows], Any]) -> npt.NDArray[Any]:
        """A column of its own of the records, made of each piece of them."""
        out = pieces.empty(len(self), dtype, disk=self.disk)
        for piece, part in self.parts():
            out[piece] = each(part)
        return out

    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """All columns, in the order of the arguments."""
        return (
            *(self.start, self.end, self.src, self.dst, self.size),
            *(self.port, self.path, self.control, self.empty),
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


def pair_key(flows: Flows, count: int) -> Ints:
    """A number for each record's pair of addresses, of ``count``: a · count + b with a < b."""
    return np.asarray(np.minimum(flows.src, flows.dst).astype(np.int64) * count + np.maximum(flows.src, flows.dst))


def load(
    parsed: Sequence[Parsed], inventory: Sequence[Mapping[str, Any]] = (), disk: pieces.Disk | None = None
) -> Capture | None:
    """Reads all artifacts' records, drops exact duplicates, sorts by start. None if nothing is usable. With a ``disk``,
    more than a piece of records are kept there, and memory is that of one piece.
    """
    usable = [p for p in parsed if p.columns is not None and p.skipped is None and p.lines != 0]
    if not usable:
        return None
    scans = [pl.scan_parquet(p.columns) for p in usable if p.columns is not None]
    scan, shared = by_port(pl.concat(scans))
    names = _distinct(scan, "src", "dst")
    paths = _distinct(scan, "path")
    resolution = max((float(p.facts.get("flow", {}).get("resolution_s", 1e-6)) for p in usable), default=1e-6)
    read = in_order(_coded(scan, names, paths), resolution, disk)
    if read is None:
        return None
    known = ("start", "end", "src", "dst", "bytes", "port", "path", "control", "empty")
    flows = Flows(*(read.columns[name] for name in known), disk=disk)
    with_bytes = sum(int(np.isfinite(part.size).sum()) for _, part in flows.parts())
    capture = Capture(
        flows,
        names,
        [tuple(part for part in p.split(";") if part) for p in paths],
        read.t0 / 1e9,
        resolution_s=resolution,
        has_bytes=with_bytes > 0.5 * len(flows),
        duplicates=read.duplicates,
    )
    capture.places = _places(names, inventory)
    if read.astray:
        capture.notes.append(
            f"{read.astray} record{'s lie' if read.astray > 1 else ' lies'} more than {FAR_S // 86_400} days from all "
            "others (a clock that was not set): left out."
        )
    if shared:
        capture.notes.append(
            f"{shared} addresses are shared by several ranks, which use a port of their own each; members are named "
            "address:port."
        )
    return capture


def _coded(scan: pl.LazyFrame, names: list[str], paths: list[str]) -> pl.LazyFrame:
    """The records with numbers for addresses and paths."""
    codes = pl.Enum(names)
    return scan.select(
        "start",
        "end",
        pl.col("src", "dst").cast(codes).to_physical().cast(pl.Int32),
        pl.col("bytes").cast(pl.Float64),
        pl.min_horizontal("src_port", "dst_port").fill_null(0).cast(pl.Int32).alias("port"),
        pl.max_horizontal("src_port", "dst_port").fill_null(0).cast(pl.Int32).alias("high"),
        pl.col("path").cast(pl.Enum(paths)).to_physical().cast(pl.Int32).fill_null(-1),
        control=(pl.col("bytes") < CONTROL * pl.col("packets")).fill_null(False),
        empty=(pl.col("bytes") <= (_header(scan) + OPTIONS) * pl.col("packets")).fill_null(False),
    )


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
