"""Clock offsets between collectors, from collectives, whose hops all end together.

A record carries the time of the collector that exported it: the first switch of its path, or the sender itself if paths
are unknown. For two collectors that see hops of one ring, the most frequent difference between ends of equal transfers
is the clock offset; differences of whole steps scatter with the variation of steps. Collectors without a common ring
are compared by rings that move the same bytes (tensor ranks), else by the ends of their bursts. That is exact enough
for the lengths of steps, but not to find late members.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.arrays import idle_gaps, members_of
from diagnosis.kinds.flows.capture.capture import (
    Capture,
    Floats,
    Flows,
    Group,
    Ints,
    Ints32,
    Offset,
    join_group,
    sender_values,
)
from diagnosis.kinds.flows.capture.partitions import partition, run_parts
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.pairs import DP, Pairs
from diagnosis.kinds.flows.layout.parallelism import rings_of

THRESHOLDS: Final = thresholds.of("clock_offsets")

#: Range of offsets, in seconds.
MAX_OFFSET_S = 2.0
#: Pairs of records compared for one size; of more, every k-th record is taken.
MAX_PAIRS = 4_000_000
#: Grid of the histogram of offsets.
FINE_GRID_S = 2.5e-4
#: Number of transfers of one collector that are compared, and of collectors that are tried before the search ends.
MAX_TRANSFERS = 1500
MAX_TRIED = 48


@dataclass(frozen=True, slots=True)
class SeenTransfers:
    """Transfers (of one ring) as one collector saw them: ends and sizes, sorted by end; ``length``: their usual length;
    ``nodes``: the ring's machines.
    """

    end: Floats
    size: Floats
    length: float = 0.0
    nodes: frozenset[str] = frozenset()


#: What the collectors of a ring saw, and one of them.
type Seen = tuple[dict[int, SeenTransfers], int]


def correct_clocks(job: JobFlows, pairs: Pairs, capture: Capture) -> tuple[JobFlows, list[Offset]]:
    """The job on one clock, and the corrections; the unchanged job and none if the clocks agree.

    O(n) for the columns, O(collectors · MAX_TRANSFERS) for the comparison.
    """
    count = len(capture.names)
    rings = rings_of(pairs, DP, count)
    if not rings:
        return job, []
    of, names = collector_of(job.flows, capture)
    ring_of = np.full(count, -1, dtype=np.int64)
    for number, ring in enumerate(rings):
        ring_of[ring] = number
    nodes = [capture.nodes_of(ring) for ring in rings]
    transfers = _transfers_by_ring(job, pairs, capture, of, ring_of, nodes)
    if not transfers:  # all that these pairs exchange is of the experts' sizes
        return job, []
    offset, exact = _find_offsets(transfers, len(names), max(FINE_GRID_S, 2 * capture.resolution_s), job.flows.disk)
    if offset is None:
        return job, []
    offset -= float(np.median(offset))
    flows = job.flows
    start, end = (
        flows.column(np.float64, _without_offset, of.table, of.by_path, offset, is_end) for is_end in (False, True)
    )
    moved = replace(flows, start=start, end=end).take(np.argsort(start, kind="stable"))
    found = [Offset(names[i], float(offset[i]), bool(exact[i])) for i in np.argsort(-np.abs(offset))]
    return JobFlows(job.members, moved), found


@partition
def _without_offset(part: Flows, table: Ints32, by_path: bool, offset: Floats, is_end: bool) -> Floats:
    """The ends or the starts without the offset of their collectors."""
    return np.asarray((part.end if is_end else part.start) - offset[Collector(table, by_path=by_path)(part)])


def merge_offsets(before: list[Offset], found: list[Offset]) -> list[Offset]:
    """All offsets, one row a collector and job: a later offset is added to an earlier one."""
    rough = {o.collector: o.seconds for o in before if not o.exact}
    added = [Offset(o.collector, o.seconds + rough.get(o.collector, 0.0), o.exact) for o in found]
    replaced = {o.collector for o in found}
    return [o for o in before if o.collector not in replaced] + added


@dataclass(frozen=True, slots=True)
class Collector:
    """Which collector saw a record: ``table`` by its path, or by its sender."""

    table: Ints32
    by_path: bool

    def __call__(self, part: Flows) -> Ints32:
        return np.asarray(self.table[part.path if self.by_path else part.src])


def collector_of(flows: Flows, capture: Capture) -> tuple[Collector, list[str]]:
    """What gives the collector of each record, and their names."""
    used = flows.different("path", len(capture.paths))
    known = sum(int((part.path >= 0).sum()) for _, part in flows.parts())
    if known / max(len(flows), 1) < 0.9:
        senders = flows.different("src", len(capture.names))
        number_of = np.zeros(len(capture.names), np.int32)
        number_of[senders] = np.arange(len(senders))
        return Collector(number_of, by_path=False), [capture.names[int(m)] for m in senders]
    first = [p[0] if p else "" for p in capture.paths]
    names = sorted({first[int(p)] for p in used[used >= 0]} | ({""} if (used < 0).any() else set()))
    number = {name: i for i, name in enumerate(names)}
    of = np.array([number.get(name, 0) for name in first] + [number.get("", 0)], dtype=np.int32)
    return Collector(of, by_path=True), names


def _transfers_by_ring(
    job: JobFlows,
    pairs: Pairs,
    capture: Capture,
    collector: Collector,
    ring_of: Ints,
    nodes: list[frozenset[str]],
) -> dict[int, dict[int, SeenTransfers]]:
    """Ring → collector → its transfers, of sizes that recur."""
    chosen = pairs.carried(job.flows, len(capture.names), DP)
    out: dict[int, dict[int, SeenTransfers]] = {}
    ring_of_each = chosen.column(np.int32, sender_values, ring_of.astype(np.int32))
    groups = [(group, collector.table, collector.by_path) for group in chosen.grouped(ring_of_each, len(nodes))()]
    for table in run_parts(chosen.disk, _middle_transfers, groups):
        for (number_of, who), own in table.group_by("ring", "collector", maintain_order=True):
            number = int(str(number_of))
            length = float(own["length"][0])
            out.setdefault(number, {})[int(str(who))] = SeenTransfers(
                own["end"].to_numpy(), own["size"].to_numpy(), length, nodes[number]
            )
    return out


@partition
def _middle_transfers(group: Group, table: Ints32, by_path: bool) -> pl.DataFrame:
    """The transfers in the middle of each ring as each collector saw them, of sizes that recur, sorted by end; with
    their usual ``length``.
    """
    ring, flows = join_group(group)
    events = pl.DataFrame(
        {
            "ring": ring,
            "collector": Collector(table, by_path=by_path)(flows),
            "end": flows.end,
            "size": np.nan_to_num(flows.size),
            "length": flows.end - flows.start,
        }
    )
    often = pl.len().over("ring", "size")
    events = events.filter(often >= 0.1 * often.max().over("ring")).sort("ring", "collector", "end")
    own = ["ring", "collector"]
    at, held = pl.int_range(pl.len()).over(own), pl.len().over(own).cast(pl.Int64)
    middle = ((held - MAX_TRANSFERS) // 2).clip(lower_bound=0)
    events = events.filter((at >= middle) & (at < middle + MAX_TRANSFERS))
    return events.with_columns(pl.col("length").quantile(0.5).over(own))


def _find_offsets(
    transfers: dict[int, dict[int, SeenTransfers]], count: int, grid: float, disk: pieces.Disk | None
) -> tuple[Floats | None, np.ndarray]:
    """Each collector's offset, and whether it comes from a common ring; None if no clock is wrong."""
    clocks = _Clocks(np.zeros(count), np.arange(count))
    off = _join_within_rings(clocks, transfers, grid)
    loose = list(itertools.chain.from_iterable(transfers.values()))
    hub = int(np.bincount(clocks.group[loose]).argmax())
    exact = clocks.group == hub
    off += _join_with_hub(clocks, hub, transfers, grid, disk)
    return (clocks.offset if off else None), exact


@dataclass(frozen=True, slots=True)
class _Clocks:
    """The offset of each collector's clock, and the groups of clocks that were compared."""

    offset: Floats
    group: Ints

    def join(self, a: int, b: int, apart: float) -> None:
        """Puts b's group on a's clock: b is ``apart`` seconds ahead of a."""
        moved = self.group == self.group[b]
        self.offset[moved] += self.offset[a] + apart - self.offset[b]
        self.group[moved] = self.group[a]


def _join_within_rings(
    clocks: _Clocks,
    transfers: dict[int, dict[int, SeenTransfers]],
    grid: float,
) -> int:
    """Compares collectors that saw one ring; returns how many clocks are wrong."""
    off = tried = 0
    for ring in transfers.values():
        first, *others = sorted(ring, key=lambda c: -len(ring[c].end))
        for other in others:
            if clocks.group[first] == clocks.group[other] or (off == 0 and tried >= MAX_TRIED):
                continue
            apart = most_frequent_difference(ring[first], ring[other], grid, sharp=True)
            if apart is None:
                continue
            tried += 1
            # Hops of one collective overlap: only a clock difference can make them end further apart than they last.
            off += abs(apart) >= max(THRESHOLDS.min_offset_s, ring[first].length, ring[other].length)
            clocks.join(first, other, apart)
    return off


def _join_with_hub(
    clocks: _Clocks,
    hub: int,
    transfers: dict[int, dict[int, SeenTransfers]],
    grid: float,
    disk: pieces.Disk | None,
) -> int:
    """Compares collectors that saw no ring with those of the largest group, by other rings; returns how
    many clocks are surely wrong.
    """
    off = 0
    compared = _comparisons(clocks.group, hub, transfers)
    batches = [compared[low : low + THRESHOLDS.batch_rings] for low in range(0, len(compared), THRESHOLDS.batch_rings)]
    sent = [
        ([[(h.end, h.size) for h in rows] for rows, _ in batch], max(grid, THRESHOLDS.coarse_grid_s))
        for batch in batches
    ]
    answers = itertools.chain.from_iterable(run_parts(disk, _offsets_between, sent))
    for (_, ((far, b), *two)), (which, seconds) in zip(compared, answers, strict=True):
        if which < 0:
            continue
        near, a = two[which]
        # Rings on the same machines (tensor ranks) are synchronous too; stages of a pipeline need not be. With
        # millisecond times the peak is too broad to prove a clock difference by itself.
        peers = grid <= 2 * FINE_GRID_S and bool(near[a].nodes) and near[a].nodes == far[b].nodes
        off += peers and abs(seconds) >= max(2 * THRESHOLDS.coarse_grid_s, near[a].length, far[b].length)
        clocks.join(a, b, seconds)
    return off


def _comparisons(
    group: Ints, hub: int, transfers: dict[int, dict[int, SeenTransfers]]
) -> list[tuple[list[SeenTransfers], list[Seen]]]:
    """The rings to compare of each group of collectors apart from the hub."""
    known = [(ring, c) for ring, c in _each_seen(transfers) if group[c] == hub]
    seen = np.array(sorted({c for _, c in _each_seen(transfers)}), dtype=np.int64)
    others = [members for members in members_of(group, seen) if group[members[0]] != hub]
    return [_rings_to_compare(known, transfers, members) for members in others]


def _each_seen(transfers: dict[int, dict[int, SeenTransfers]]) -> Iterator[Seen]:
    """Each ring with each collector that saw it."""
    for ring in transfers.values():
        for collector in ring:
            yield ring, collector


def _rings_to_compare(
    known: list[Seen], transfers: dict[int, dict[int, SeenTransfers]], members: Ints
) -> tuple[list[SeenTransfers], list[Seen]]:
    """The first ring that these collectors saw, and the two known ones that are most like it: the transfers that
    each collector saw, and that collector.
    """
    inside = set(members.tolist())
    first = next((ring, c) for ring, c in _each_seen(transfers) if c in inside)
    own = first[0][first[1]]
    peers = sorted(
        known, key=lambda y: (y[0][y[1]].nodes != own.nodes, -len(np.intersect1d(y[0][y[1]].size, own.size)))
    )
    seen = [first, *peers[:2]]
    return [ring[c] for ring, c in seen], seen


@partition
def _offsets_between(batch: list[list[tuple[Floats, Floats]]], grid: float) -> list[tuple[int, float]]:
    """For each first ring the offset to one of the others: by equal transfers, else by any two rings' bursts; which of
    the others that is, -1 for none.
    """
    found = []
    for rows in batch:
        own, *peers = (SeenTransfers(end, size) for end, size in rows)
        forms = ((own, peers), (_burst_ends(own), [_burst_ends(peer) for peer in peers]))
        offsets = (
            (at, apart)
            for mine, others in forms
            for at, other in enumerate(others)
            if (apart := most_frequent_difference(other, mine, grid, sharp=False)) is not None
        )
        found.append(next(offsets, (-1, 0.0)))
    return found


def _burst_ends(transfers: SeenTransfers) -> SeenTransfers:
    """The end of each burst of a ring, for all sizes."""
    stops, begins = idle_gaps(transfers.end, transfers.end)
    gaps = begins - stops
    long = stops[gaps >= 0.3 * np.quantile(gaps, 0.98)] if len(gaps) else stops
    return SeenTransfers(long, np.zeros(len(long)))


def most_frequent_difference(a: SeenTransfers, b: SeenTransfers, grid: float, *, sharp: bool) -> float | None:
    """The most frequent difference between ends of equal transfers; None without a peak."""
    differences = []
    for size in np.intersect1d(a.size, b.size):
        x, y = a.end[a.size == size], b.end[b.size == size]
        low, high = np.searchsorted(y, x - MAX_OFFSET_S), np.searchsorted(y, x + MAX_OFFSET_S)
        every = 1 + int((high - low).sum()) // MAX_PAIRS
        x, low, high = x[::every], low[::every], high[::every]
        which = np.repeat(np.arange(len(x)), high - low)
        at = np.arange(len(which)) - np.repeat(np.cumsum(high - low) - (high - low), high - low) + low[which]
        differences.append(y[at] - x[which])
    if not differences:
        return None
    apart = np.concatenate(differences)
    if len(apart) < 8:
        return None
    bins = np.floor((apart + MAX_OFFSET_S) / grid).astype(np.int64)
    tall = np.bincount(bins)
    tall = tall + np.append(tall[1:], 0)  # a peak on the edge of two bins
    centre = (np.arange(len(tall)) + 1) * grid - MAX_OFFSET_S
    good = np.flatnonzero(tall >= (0.9 if sharp else 0.75) * tall.max())
    best = int(good[np.argmin(np.abs(centre[good]))])
    agreeing = np.flatnonzero(np.abs(centre) <= 3 * grid)
    if not sharp and tall[agreeing].max(initial=0) >= 0.5 * tall.max():
        best = int(agreeing[np.argmax(tall[agreeing])])  # an equally good peak without any offset: buckets of one size
    elif not sharp:
        # Offsets plus whole steps have peaks too, but these scatter with the variation of steps.
        good = good[np.argsort(np.abs(centre[good]))][:60]
        ordered = np.sort(apart)
        scatter = np.array([_spread_around(ordered, float(centre[k]), grid) for k in good])
        best = int(good[np.flatnonzero(scatter <= 1.2 * scatter.min())[0]])
    if tall[best] < max(5.0, (0.3 if sharp else 0.1) * min(len(a.end), len(b.end))):
        return None
    near = apart[np.abs(apart - centre[best]) <= grid]
    return float(np.median(near))


def _spread_around(ordered: Floats, centre: float, grid: float) -> float:
    """How far the differences around one pile lie from it, typically. ``ordered``: all of them."""
    low, high = np.searchsorted(ordered, [centre - 5 * grid, centre + 5 * grid])
    around = ordered[low:high]
    near = around[np.abs(around - centre) <= 4 * grid]
    return float(np.median(np.abs(near - np.median(near)))) if len(near) else np.inf
