"""Phase 1: finds the addresses that train together (LLMPrism, algorithm 1).

Background traffic is removed first: known service ports, addresses that belong to no GPU, hubs, and edges that are
silent most of the time while their ends are busy. The rest forms connected components. Components of one job share its
rhythm (tensor parallelism inside a machine joins rails without common network traffic). They are merged if their
rhythms agree and, with an inventory, if they are on common servers. Two tenants of one server have different rhythms
and stay separate.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.arrays import components, members_of
from diagnosis.kinds.flows.capture.capture import Bools, Capture, Floats, Flows, Ints, pair_key, sender_values
from diagnosis.kinds.flows.capture.packing import packable
from diagnosis.kinds.flows.capture.partitions import partition
from diagnosis.kinds.flows.jobs.edges import MAX_TINY_SHARE, edges_of, one_way, without_hubs, without_strangers
from diagnosis.knowledge import knowledge_files

THRESHOLDS: Final = thresholds.of("jobs")

#: Ports of services on the training machines that are no training.
_PORTS = itertools.chain.from_iterable(knowledge_files.table("service_ports").values())
SERVICE_PORTS = np.array(sorted(_PORTS))
#: The rhythms of components agree if their activity correlates by more than this; so many are compared again.
MIN_CORRELATION = 0.35
MAX_COMPARED = 64
#: Records in which recurring sizes are looked for.
SAMPLE_RECORDS = 300_000


@packable
@dataclass(frozen=True, slots=True)
class JobFlows:
    """One recognised job: its addresses (ids, sorted; without reduction points of switches) and its own records."""

    members: Ints
    flows: Flows


@dataclass(frozen=True, slots=True)
class Recognition:
    """The jobs, the background's share of records, and addresses taken for services."""

    jobs: list[JobFlows]
    background: float
    services: list[int]


def recognise(capture: Capture) -> Recognition:
    """Splits a multi-tenant capture into jobs, largest first. O(n log n) in records."""
    flows = capture.flows
    count = len(capture.names)
    known = _training_addresses(capture)
    keep = flows.column(np.bool_, _may_train, known)
    edges = edges_of(flows, keep)
    if edges.is_empty():
        return Recognition([], 1.0, [])
    edges, services = without_hubs(edges, one_way(flows, keep, count))
    edges = without_strangers(edges, count)
    a, b = edges["a"].to_numpy(), edges["b"].to_numpy()
    label = components(a, b, count)
    inside = np.unique(np.concatenate([a, b])) if len(a) else np.empty(0, dtype=np.int64)
    kept = _training_records(flows, keep, a, b, capture)
    label = _merge_by_rhythm(capture, kept, label, inside)
    groups = members_of(label, inside)
    owner = np.full(count, -1, dtype=np.int64)
    for number, group in enumerate(groups):
        owner[group] = number
    sums = _reduction_points(a, b, capture)
    own = kept.split(kept.column(np.int32, sender_values, owner.astype(np.int32)), len(groups))
    jobs = [JobFlows(group[~sums[group]], part) for group, part in zip(groups, own, strict=True)]
    return Recognition(jobs, 1.0 - len(kept) / max(1, len(flows)), services)


@partition
def _may_train(part: Flows, known: Bools) -> Bools:
    """Records with payload between known addresses, of no service's port."""
    between = (part.src != part.dst) & known[part.src] & known[part.dst]
    return np.asarray(between & ~part.control & ~np.isin(part.port, SERVICE_PORTS))


def _training_addresses(capture: Capture) -> Bools:
    """The addresses between which records may be training: those that the inventory lists, provided that it lists the
    ends of most records or bytes; else all.

    An unlisted address that moves the same sizes as listed ones belongs to their job: a new machine, or one with a
    translated address. Unlisted ones that exchange recurring sizes with each other are a job.
    """
    flows = capture.flows
    known = np.zeros(len(capture.names), dtype=bool)
    known[list(capture.places)] = True
    inside = known.copy()
    records, moved = np.zeros(2), np.zeros(2)  # outside, all
    for own_records, own_moved in flows.each(_outside_amounts, inside):
        records += own_records
        moved += own_moved
    share = moved[0] / max(moved[1], 1.0) if capture.has_bytes else 1.0
    # a store takes many small parts, but not most of the bytes
    if not records[0] or min(records[0] / records[1], share) >= 0.5:
        return np.ones(len(known), dtype=bool)
    ends = flows.column(np.int8, _ends_inside, inside)
    for number in (2, 0):
        known |= _addresses_of_sizes(flows, inside, _recurring_sizes(flows.size, ends == number), len(known))
    return known


@partition
def _outside_amounts(part: Flows, inside: Bools) -> tuple[Floats, Floats]:
    """Records and bytes of which an end is outside, and of all."""
    outside, size = ~(inside[part.src] & inside[part.dst]), np.nan_to_num(part.size)
    return np.array([outside.sum(), len(part)], float), np.array([size[outside].sum(), size.sum()])


@partition
def _ends_inside(part: Flows, inside: Bools) -> npt.NDArray[np.int8]:
    """How many ends of each record are inside."""
    return np.asarray(inside[part.src].astype(np.int8) + inside[part.dst])


def _addresses_of_sizes(flows: Flows, inside: Bools, sizes: Floats, count: int) -> Bools:
    """Addresses that move most of their bytes in records of these sizes, of those that do not have both ends inside."""
    moved, own = np.zeros(count), np.zeros(count)
    for own_moved, own_of_these in flows.each(_amounts_of_sizes, inside, sizes):
        moved += own_moved
        own += own_of_these
    return np.asarray((moved > 0) & (own >= 0.5 * moved))


@partition
def _amounts_of_sizes(part: Flows, inside: Bools, sizes: Floats) -> tuple[Floats, Floats]:
    """What each address moves in records that do not have both ends inside, and in those of these sizes."""
    rows = ~(inside[part.src] & inside[part.dst]) & np.isfinite(part.size)
    size = part.size[rows]
    of_these = np.isin(size, sizes) * size
    ends = part.src[rows], part.dst[rows]
    moved, own = (sum(np.bincount(end, weight, len(inside)) for end in ends) for weight in (size, of_these))
    return np.asarray(moved), np.asarray(own)


def _recurring_sizes(size: Floats, rows: Bools) -> Floats:
    """Relevant sizes that recur exactly in these rows, in a stretch from the middle of them."""
    count = int(np.count_nonzero(rows))
    low, seen = max(0, (count - SAMPLE_RECORDS) // 2), 0
    parts = [size[:0]]
    for piece in pieces.pieces_of(len(size)):
        here = int(np.count_nonzero(rows[piece]))
        if seen < low + SAMPLE_RECORDS and seen + here > low:
            parts.append(size[piece][rows[piece]][max(0, low - seen) : low + SAMPLE_RECORDS - seen])
        seen += here
    values, times = np.unique(np.concatenate(parts), return_counts=True)
    return np.asarray(values[(times >= 5) & (values >= 0.001 * values.max(initial=0.0))])


def _reduction_points(a: Ints, b: Ints, capture: Capture) -> Bools:
    """Addresses that the inventory does not list and that exchange with far more peers than its machines do: reduction
    points inside the fabric (in-network reduction), or parameter servers.
    """
    count = len(capture.names)
    listed = np.zeros(count, dtype=bool)
    listed[list(capture.places)] = True
    degree = np.bincount(a, minlength=count) + np.bincount(b, minlength=count)
    usual = float(np.median(degree[listed & (degree > 0)])) if (listed & (degree > 0)).any() else np.inf
    return np.asarray(~listed & (degree >= 4) & (degree >= 2.5 * usual))


def _training_records(flows: Flows, keep: Bools, a: Ints, b: Ints, capture: Capture) -> Flows:
    """The records of the kept pairs, without connections that move next to nothing in small pieces beside others of
    their pair: stores, heartbeats.
    """
    wanted = a.astype(np.int64) * len(capture.names) + b  # sorted, like the edges
    if not len(wanted):
        return flows.take(wanted)
    mask = pieces.empty(len(flows), np.bool_, flows.disk)
    tables = []
    parts = flows.each(_records_of_pairs, wanted, len(capture.names), beside=[keep])
    for piece, (is_wanted, table) in zip(pieces.pieces_of(len(flows)), parts, strict=True):
        mask[piece] = is_wanted
        tables.append(table)
    each = pl.concat(tables).group_by("a", "b", "port").agg(pl.col("len", "size").sum())
    if not capture.has_bytes or not (each["port"] > 0).any():
        return flows.take(mask)
    each = each.with_columns(mean=pl.col("size") / pl.col("len"))
    tiny = each.filter(
        (pl.col("size") < MAX_TINY_SHARE * pl.col("size").max().over("a", "b"))
        & (pl.col("mean") < 4 * MAX_TINY_SHARE * pl.col("mean").max().over("a", "b"))
    )
    if not tiny.is_empty():
        mask = flows.column(np.bool_, _of_other_connections, tiny.select("a", "b", "port"), beside=[mask])
    return flows.take(mask)


@partition
def _records_of_pairs(part: Flows, keep: Bools, wanted: Ints, count: int) -> tuple[Bools, pl.DataFrame]:
    """Which of the kept records are of these pairs, and what each of their connections moves."""
    key = pair_key(part, count)
    mask = keep & (wanted[np.minimum(np.searchsorted(wanted, key), len(wanted) - 1)] == key)
    own = part.take(mask)
    moved = _connections(own).with_columns(size=own.size)
    return mask, moved.group_by("a", "b", "port").agg(pl.len(), pl.col("size").sum())


@partition
def _of_other_connections(part: Flows, mask: Bools, tiny: pl.DataFrame) -> Bools:
    """Which of the chosen records are of other connections than these."""
    marked = tiny.with_columns(is_tiny=pl.lit(value=True))
    found = _connections(part).join(marked, on=["a", "b", "port"], how="left", maintain_order="left")
    return np.asarray(mask & found["is_tiny"].is_null().to_numpy())


def _connections(flows: Flows) -> pl.DataFrame:
    """The connection of each record: both ends and the port."""
    return pl.DataFrame(
        {"a": np.minimum(flows.src, flows.dst), "b": np.maximum(flows.src, flows.dst), "port": flows.port}
    )


def _merge_by_rhythm(capture: Capture, flows: Flows, label: Ints, inside: Ints) -> Ints:
    """Joins components with the same rhythm; with an inventory they must also share a server (all of the smaller's, or
    two).

    Rhythm: correlation of the components' activity in ``rhythm_bins`` time bins. Rails of one job correlate near 1.
    Independent jobs drift and stay near 0, even with equal periods, unless their phases agree by chance.
    """
    groups = members_of(label, inside)
    if len(groups) < 2:
        return label
    rank = np.full(len(label), -1, dtype=np.int64)
    for number, group in enumerate(groups):
        rank[group] = number
    beat = _rhythms(flows, rank, len(groups), capture.span_s)
    servers = [capture.nodes_of(group) for group in groups]
    left: list[int] = []
    right: list[int] = []
    likeness = beat @ beat.T
    for i, j in np.argwhere(np.triu(likeness > MIN_CORRELATION, 1)):
        common = len(servers[i] & servers[j])
        fewest = min(len(servers[i]), len(servers[j]))
        on_common = fewest > 0 and (common == fewest or common >= 2)
        known = bool(servers[i]) and bool(servers[j])
        if (on_common and likeness[i, j] > MIN_CORRELATION) or (not known and likeness[i, j] > 0.7):
            left.append(int(i))
            right.append(int(j))
    merged = components(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64), len(groups))
    if 1 < len(np.unique(merged)) <= MAX_COMPARED and capture.has_bytes:
        owner = flows.column(np.int64, sender_values, merged[rank])
        merged = _merge_by_sizes(capture, flows, owner, merged, servers)
    out = label.copy()
    out[inside] = merged[rank[inside]]
    return out


def _merge_by_sizes(capture: Capture, flows: Flows, owner: Ints, merged: Ints, servers: list[frozenset[str]]) -> Ints:
    """Joins components on common servers that move common sizes in one rhythm, even if some of them move other sizes
    too (tensor ranks on several machines, of which only some use the network). ``owner``: the number of each record in
    ``merged``, which is indexed like ``servers``.
    """
    numbers = np.unique(merged)
    machines = [frozenset[str]().union(*(servers[g] for g in np.flatnonzero(merged == n))) for n in numbers]
    sizes = [_recurring_sizes(flows.size, owner == n) for n in numbers]
    left: list[int] = []
    right: list[int] = []
    for i, j in itertools.combinations(range(len(numbers)), 2):
        if len(machines[i] & machines[j]) < min(2, len(machines[i]), len(machines[j])) or not machines[i]:
            continue
        own = np.isin(owner, numbers[[i, j]])
        rows = own & np.isin(flows.size, np.intersect1d(sizes[i], sizes[j]))
        which = (owner == numbers[j]).astype(np.int64)
        whole, common = (np.bincount(which[mask], flows.size[mask], 2) for mask in (own, rows))
        if (common < THRESHOLDS.min_shared_bytes * whole).any():
            continue
        part = flows.take(rows)
        side = np.zeros(len(capture.names), np.int64)
        side[part.src] = which[rows]
        first, second = _rhythms(part, side, 2, capture.span_s)
        if float(first @ second) > MIN_CORRELATION:
            left.append(i)
            right.append(j)
    joined = components(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64), len(numbers))
    return joined[np.searchsorted(numbers, merged)]


def _rhythms(flows: Flows, owner: Ints, groups: int, span: float) -> Floats:
    """Unit vectors of activity against time, one row an owner, without their means. ``owner``: of each sender."""
    bins = min(THRESHOLDS.rhythm_bins, max(64, int(4e8 / 8 / max(1, groups))))
    flat = np.zeros(groups * bins)
    for _, part in flows.parts():
        middle = (part.start + part.end) / 2
        column = np.minimum((middle / max(span, 1e-9) * bins).astype(np.int64), bins - 1)
        flat += np.bincount(owner[part.src] * bins + column, minlength=groups * bins)
    beat = np.sqrt(flat.reshape(groups, bins))
    # Neighbouring bins are blended so that rails a millisecond apart still agree.
    beat = beat + 0.5 * (np.roll(beat, 1, axis=1) + np.roll(beat, -1, axis=1))
    beat -= beat.mean(axis=1, keepdims=True)
    beat /= np.maximum(np.linalg.norm(beat, axis=1, keepdims=True), 1e-12)
    return np.asarray(beat)
