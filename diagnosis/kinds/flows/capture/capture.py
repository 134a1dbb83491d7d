"""All usable flow artifacts of a job as arrays, for every later phase.

Addresses and paths become small integers; times become seconds from the capture's first record, so that a float keeps
a nanosecond.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from diagnosis.evidence.inventory import Machine
from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.coded import code_records
from diagnosis.kinds.flows.capture.packing import packable
from diagnosis.kinds.flows.capture.partitions import Run, fill_columns, fill_runs, partition, run_parts
from diagnosis.kinds.flows.capture.records_in_order import MAX_FROM_MIDDLE_S, order_records
from diagnosis.kinds.flows.capture.sharing import endpoint, host_of
from diagnosis.model import Parsed

Ints = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@packable
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
    src: Ints32
    dst: Ints32
    size: Floats
    port: Ints32
    path: Ints32
    control: Bools
    empty: Bools
    disk: pieces.Disk | None = field(default=None, kw_only=True, repr=False)

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Bools | Ints | slice) -> Flows:
        """The chosen rows, in their order."""
        if isinstance(rows, slice):
            return Flows(*(column[rows] for column in self.columns()), disk=self.disk)
        count = int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows)
        if rows.dtype == bool and count == len(self):
            return self
        if rows.dtype == bool and self.disk is not None and count > pieces.PIECE_ROWS:
            counts = [int(np.count_nonzero(rows[piece])) for piece in pieces.pieces_of(len(self))]
            kinds = [column.dtype for column in self.columns()]
            columns, _ = fill_columns(self.disk, _choose_rows, self._parts((), [rows]), counts, kinds)
            return Flows(*columns, disk=self.disk)
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)  # once for all columns
        return Flows(*(pieces.choose_rows(column, rows, count, self.disk) for column in self.columns()), disk=self.disk)

    def parts(self) -> Iterator[tuple[slice, Flows]]:
        """The records a piece at a time, with their rows."""
        for piece in pieces.pieces_of(len(self)):
            yield piece, self.take(piece)
            self.let_go()

    def let_go(self) -> None:
        """Gives back the memory of columns in files, until somebody looks at them again."""
        if self.disk is not None:
            self.disk.let_go()

    def split(self, owner: Ints | Ints32, count: int) -> list[Flows]:
        """The records of each of ``count`` owners (negative: nobody's), in their order. O(records)."""
        if len(owner) and owner.min() == owner.max():
            return [self if number == owner[0] else self.take(slice(0, 0)) for number in range(count)]
        each = [owner[piece] for piece in pieces.pieces_of(len(self))]
        counts = np.array([np.bincount(of[of >= 0], minlength=count) for of in each])
        cuts = np.append(0, np.cumsum(counts.sum(axis=0)))
        first = cuts[:-1] + np.cumsum(counts, axis=0) - counts
        runs = [_runs_of(own, at) for own, at in zip(counts, first, strict=True)]
        kinds = [column.dtype for column in self.columns()]
        parts = self._parts((count,), [owner])
        columns, _ = fill_runs(self.disk, _sort_by_owner, parts, runs, int(cuts[-1]), kinds)
        whole = Flows(*columns, disk=self.disk)
        return [whole.take(slice(low, high)) for low, high in itertools.pairwise(cuts.tolist())]

    def each(self, function: Callable[..., Any], *more: Any, beside: Sequence[npt.NDArray[Any]] = ()) -> Iterator[Any]:
        """``function(part, *columns, *more)`` of each piece: ``beside`` are columns that are as long as these, of which
        it gets the same piece. Other processes do what is a partition function.
        """
        return run_parts(self.disk, function, self._parts(more, beside))

    def _parts(self, more: Sequence[Any], beside: Sequence[npt.NDArray[Any]]) -> list[tuple[Any, ...]]:
        found = []
        for piece, part in self.parts():
            columns = [column[piece] for column in beside]
            found.append((part, *columns, *more))
        return found

    def grouped(self, unit: Ints | Ints32, units: int) -> Callable[[], list[Group]]:
        """The records of whole units (numbers below ``units``; negative: of none), about a piece of records a group,
        as parts with the unit of each record: :func:`join_group` makes one of them. Other processes begin with it at
        once; the groups are there when they are asked for.
        """
        if len(self) <= pieces.PIECE_ROWS:
            whole: Group = [(unit, self)] if (unit >= 0).all() else [(unit[unit >= 0], self.take(unit >= 0))]
            return lambda: [whole]
        counts = np.zeros(units, np.int64)
        for piece in pieces.pieces_of(len(unit)):
            counts += np.bincount(unit[piece][unit[piece] >= 0], minlength=units)
        group = np.append((np.cumsum(counts) - counts) // pieces.PIECE_ROWS, -1).astype(
            np.int32
        )  # the last is of no unit
        divided = self.each(_sort_by_group, group, beside=[unit])

        def found() -> list[Group]:
            groups: list[Group] = [[] for _ in range(int(group.max()) + 1)]
            for of_piece, part, cuts in divided:
                own, *columns = (pieces.store(column, self.disk) for column in (of_piece, *part.columns()))
                kept = Flows(*columns)
                for number, (low, high) in enumerate(itertools.pairwise(cuts.tolist())):
                    if low < high:
                        groups[number].append((own[low:high], kept.take(slice(low, high))))
            return [parts for parts in groups if parts]

        return found

    def column(
        self, dtype: npt.DTypeLike, function: Callable[..., Any], *more: Any, beside: Sequence[npt.NDArray[Any]] = ()
    ) -> npt.NDArray[Any]:
        """A column of its own of the records, made of each piece of them (see :meth:`each`), for reading."""
        parts = self._parts(more, beside)
        rows = [piece.stop - piece.start for piece in pieces.pieces_of(len(self))]
        return fill_columns(self.disk, function, parts, rows, [dtype])[0][0]

    def different(self, column: str, count: int) -> Ints:
        """The distinct values of a column of numbers below ``count``, from -1 on, sorted."""
        is_seen = np.zeros(count + 1, np.bool_)
        for seen in self.each(_values_seen, column, count):
            is_seen |= seen
        return np.flatnonzero(is_seen) - 1

    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """All columns, in the order of the arguments."""
        return (
            *(self.start, self.end, self.src, self.dst, self.size),
            *(self.port, self.path, self.control, self.empty),
        )


def _runs_of(counts: Ints, at: Ints) -> list[Run]:
    """Where the rows of each owner go, whose rows follow each other."""
    low = np.cumsum(counts) - counts
    return [(a, a + n, to) for a, n, to in zip(low.tolist(), counts.tolist(), at.tolist(), strict=True) if n]


type Group = list[tuple[Ints | Ints32, Flows]]


@partition
def _choose_rows(part: Flows, rows: Bools) -> list[npt.NDArray[Any]]:
    """The columns of the records that the mask chooses."""
    chosen = np.flatnonzero(rows)
    return [column[chosen] for column in part.columns()]


@partition
def _sort_by_owner(part: Flows, owner: Ints | Ints32, count: int) -> list[npt.NDArray[Any]]:
    """The columns of the records in order of their owner, without those of nobody."""
    order = pieces.order_of(owner, count)[np.count_nonzero(owner < 0) :]
    return [column[order] for column in part.columns()]


@partition
def _values_seen(part: Flows, column: str, count: int) -> Bools:
    """Which numbers from -1 on the column has."""
    is_seen = np.zeros(count + 1, np.bool_)
    is_seen[getattr(part, column) + 1] = True
    return is_seen


@partition
def sender_values(part: Flows, table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What the table has for the sender of each record."""
    return np.asarray(table[part.src])


@partition
def distinct_sizes(part: Flows, senders: Bools | None) -> tuple[Floats, Ints]:
    """The distinct sizes of the records (of these senders), sorted, and how often each occurs."""
    return np.unique(part.size if senders is None else part.size[senders[part.src]], return_counts=True)


@partition
def _sort_by_group(part: Flows, unit: Ints | Ints32, group: Ints32) -> tuple[Ints | Ints32, Flows, Ints]:
    """The records in order of the group of their unit, with their units, and where each group begins."""
    own = group[unit]
    order = pieces.order_of(own, len(group))[np.count_nonzero(own < 0) :]
    return unit[order], part.take(order), np.searchsorted(own[order], np.arange(int(group.max()) + 2))


def join_group(parts: Group) -> tuple[Ints | Ints32, Flows]:
    """The records of a group with their units, in memory."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(part.columns() for _, part in parts), strict=True)
    joined = np.concatenate([own for own, _ in parts]), Flows(*map(np.concatenate, columns))
    parts[0][1].let_go()  # they are copies
    return joined


@packable
@dataclass(frozen=True, slots=True)
class Place:
    """The place of an address in the inventory; empty strings if unknown. ``ranks``: those of its machine."""

    node: str = ""
    gpu: str = ""
    switch: str = ""
    ranks: tuple[int, ...] = ()


@packable
@dataclass(frozen=True, slots=True)
class Offset:
    """One collector's clock against the others' median; ``exact`` if it comes from a common ring (see ``clocks``)."""

    collector: str
    seconds: float
    exact: bool


@packable
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
        return float(self.flows.end.max(initial=0.0))

    def machine(self, member: int) -> str:
        """The name of a member's machine, or its address if the inventory has none."""
        place = self.places.get(member)
        return place.node if place is not None and place.node else self.names[member]

    def nodes_of(self, members: Iterable[int]) -> frozenset[str]:
        """The machines of the members, as far as an inventory names them."""
        places = [self.places.get(int(member)) for member in members]
        return frozenset(place.node for place in places if place is not None and place.node)

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


def load_capture(
    parsed: Sequence[Parsed], inventory: Sequence[Machine] = (), disk: pieces.Disk | None = None
) -> Capture | None:
    """Reads all artifacts' records, drops exact duplicates, sorts by start. None if nothing is usable. With a ``disk``,
    more than a piece of records are kept there, and memory is that of one piece. O(n log n) in
    records.
    """
    usable = [p for p in parsed if p.columns is not None and p.skipped is None and p.lines != 0]
    if not usable:
        return None
    coded = code_records([str(p.columns) for p in usable], disk)
    shared = coded.ranks["ip"].n_unique()
    resolution = max((float(p.facts.get("flow", {}).get("resolution_s", 1e-6)) for p in usable), default=1e-6)
    read = order_records(coded, resolution, disk)
    if read is None:
        return None
    known = ("start", "end", "src", "dst", "bytes", "port", "path", "control", "empty")
    flows = Flows(*(read.columns[name] for name in known), disk=disk)
    with_bytes = sum(int(np.isfinite(part.size).sum()) for _, part in flows.parts())
    capture = Capture(
        flows,
        coded.names,
        [tuple(filter(None, path.split(";"))) for path in coded.paths],
        read.t0 / 1e9,
        resolution_s=resolution,
        has_bytes=with_bytes > 0.5 * len(flows),
        duplicates=read.duplicates,
    )
    capture.places = _places(coded.names, inventory)
    if read.astray:
        capture.notes.append(
            f"{read.astray} record{'s lie' if read.astray > 1 else ' lies'} more than "
            f"{MAX_FROM_MIDDLE_S // 86_400} days from all others (a clock that was not set): left out."
        )
    if shared:
        capture.notes.append(
            f"{shared} addresses are shared by several ranks, which use a port of their own each; members are named "
            "address:port."
        )
    return capture


def _places(names: Sequence[str], inventory: Sequence[Machine]) -> dict[int, Place]:
    """Joins the inventory to the addresses seen."""
    known = {machine.address: machine for machine in inventory}
    known |= {endpoint(machine.address, machine.port): machine for machine in inventory if machine.port}
    places: dict[int, Place] = {}
    for index, name in enumerate(names):
        machine, shared = known.get(name), known.get(host_of(name))
        if machine is not None:
            places[index] = Place(machine.node, machine.gpu, machine.switch, machine.ranks)
        elif shared is not None:
            port = name.rpartition(":")[2]  # ranks of one machine, in the ports' order
            places[index] = Place(shared.node, port, shared.switch, shared.ranks)
    return places
