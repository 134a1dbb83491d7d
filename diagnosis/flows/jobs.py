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

import numpy as np
import polars as pl

from diagnosis.flows.arrays import components, members_of
from diagnosis.flows.capture import Bools, Capture, Floats, Flows, Ints

#: Ports of services on the training machines that are no training.
SERVICE_PORTS = np.array(
    [
        22,
        53,
        67,
        68,
        80,
        111,
        123,
        161,
        162,
        179,
        389,
        443,
        514,
        636,
        873,
        988,
        2049,
        2379,
        2380,
        3260,
        3300,
        4420,
        4739,
        6343,
        6379,
        6443,
        6789,
        8080,
        8443,
        8888,
        9000,
        9090,
        9093,
        9100,
        9200,
        9400,
        9996,
        10250,
        20048,
    ]
)
#: Training traffic is present in most of these slices of the time in which its ends are busy.
SLICES = 24
UNBROKEN = 5
BINS = 4096
#: A pair that moves less than this share of its ends' largest pairs, in small pieces, only coordinates.
LEAST = 5e-3
ONE_WAY = 0.02
#: The rhythms of components agree if their activity correlates by more than this; this number of them is compared
#: again, if this share of their bytes has common sizes.
ALIKE = 0.35
COMPARED = 64
SHARED = 0.2
SELDOM = 0.05
#: Records in which recurring sizes are looked for.
LOOK = 300_000


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
    keep = (flows.src != flows.dst) & ~flows.control
    keep &= ~np.isin(flows.port, SERVICE_PORTS)
    keep &= ~_outside_inventory(capture)
    edges = _edges(flows, keep)
    if edges.is_empty():
        return Recognition([], 1.0, [])
    edges, services = _without_hubs(edges, _one_way(flows, keep, count))
    edges = _without_strangers(edges, count)
    a, b = edges["a"].to_numpy(), edges["b"].to_numpy()
    label = components(a, b, count)
    inside = np.unique(np.concatenate([a, b])) if len(a) else np.empty(0, dtype=np.int64)
    kept = _training(_rows_of(flows, keep, a, b, count), capture)
    label = _merge_by_rhythm(capture, kept, label, inside)
    groups = members_of(label, inside)
    owner = np.full(count, -1, dtype=np.int64)
    for number, group in enumerate(groups):
        owner[group] = number
    row_owner = owner[kept.src]
    order = np.argsort(row_owner, kind="stable")
    cuts = np.searchsorted(row_owner[order], np.arange(len(groups) + 1))
    sums = _adding_up(a, b, capture)
    jobs = [
        JobFlows(group[~sums[group]], kept.take(np.sort(order[cuts[i] : cuts[i + 1]])))
        for i, group in enumerate(groups)
    ]
    return Recognition(jobs, 1.0 - len(kept) / max(1, len(flows)), services)


def _outside_inventory(capture: Capture) -> Bools:
    """Records with an end that the inventory does not list, provided that it lists the ends of most records
    or bytes.

    An unlisted address that moves the same sizes as listed ones belongs to their job: a new machine, or one with a
    translated address. Unlisted ones that exchange recurring sizes with each other are a job.
    """
    flows = capture.flows
    known = np.zeros(len(capture.names), dtype=bool)
    known[list(capture.places)] = True
    outside = ~(known[flows.src] & known[flows.dst])
    size = np.nan_to_num(flows.size)
    moved = float(size[outside].sum()) / max(float(size.sum()), 1.0) if capture.has_bytes else 1.0
    if min(float(outside.mean()), moved) >= 0.5:  # a store takes many small parts, but not most of the bytes
        return np.zeros(len(outside), dtype=bool)
    inside = known.copy()
    for both in (inside[flows.src] & inside[flows.dst], ~inside[flows.src] & ~inside[flows.dst]):
        known |= _alike(flows, outside, _recurring(flows.size[both]), len(known))
    return np.asarray(~(known[flows.src] & known[flows.dst]))


def _alike(flows: Flows, rows: Bools, sizes: Floats, count: int) -> Bools:
    """Addresses that, in these rows, move most of their bytes in records of these sizes."""
    chosen = np.flatnonzero(rows & np.isfinite(flows.size))
    size = flows.size[chosen]
    of_these = np.isin(size, sizes) * size
    ends = flows.src[chosen], flows.dst[chosen]
    moved, own = (sum(np.bincount(end, volume, count) for end in ends) for volume in (size, of_these))
    return np.asarray((moved > 0) & (own >= 0.5 * moved))


def _recurring(size: Floats) -> Floats:
    """Relevant sizes that recur exactly, in a stretch from the middle."""
    middle = max(0, (len(size) - LOOK) // 2)
    values, times = np.unique(size[middle : middle + LOOK], return_counts=True)
    return np.asarray(values[(times >= 5) & (values >= 0.001 * values.max(initial=0.0))])


def _adding_up(a: Ints, b: Ints, capture: Capture) -> Bools:
    """Addresses that the inventory does not list and that exchange with far more peers than its machines do: reduction
    points inside the fabric (in-network reduction), or parameter servers.
    """
    count = len(capture.names)
    listed = np.zeros(count, dtype=bool)
    listed[list(capture.places)] = True
    degree = np.bincount(a, minlength=count) + np.bincount(b, minlength=count)
    usual = float(np.median(degree[listed & (degree > 0)])) if (listed & (degree > 0)).any() else np.inf
    return np.asarray(~listed & (degree >= 4) & (degree >= 2.5 * usual))


def _edges(flows: Flows, keep: Bools) -> pl.DataFrame:
    """One row an undirected pair: a < b, records, bytes, the slices in which it was busy, different sizes (summed over
    slices), different ``largest`` sizes of its busy slices. Slices hold equally many records, so that idle hours
    around the training do not count.
    """
    src, dst = flows.src[keep], flows.dst[keep]
    start = flows.start[keep]
    part = np.searchsorted(start[len(start) * np.arange(1, SLICES) // SLICES] if len(start) else start, start, "right")
    volume = np.where(np.isfinite(flows.size[keep]), flows.size[keep], 1.0)
    table = pl.DataFrame({"a": np.minimum(src, dst), "b": np.maximum(src, dst), "size": volume, "part": part})
    share = table.group_by("a", "b", "part").agg(
        pl.len().alias("n"), pl.col("size").sum(), sizes=pl.col("size").n_unique(), largest=pl.col("size").max()
    )
    total = pl.col("size").sum().over("a", "b")
    # A slice with very little of the pair's volume is not busy: keep-alives, barriers, small messages of checkpoints.
    share = share.with_columns(busy=pl.col("size") >= 0.05 * total / SLICES)
    return (
        share.group_by("a", "b")
        .agg(
            records=pl.col("n").sum(),
            bytes=pl.col("size").sum(),
            active=pl.col("part").filter(pl.col("busy")).unique(),
            sizes=pl.col("sizes").sum(),
            largest=(pl.col("largest").filter(pl.col("busy")).log() / 0.02).round().n_unique(),
        )
        .sort("a", "b")
    )


def _one_way(flows: Flows, keep: Bools, count: int) -> Bools:
    """Addresses that almost only send or only receive, while most do both."""
    volume = np.where(np.isfinite(flows.size[keep]), flows.size[keep], 1.0)
    sent, heard = (np.bincount(end[keep], volume, count) for end in (flows.src, flows.dst))
    one_way = np.minimum(sent, heard) < ONE_WAY * np.maximum(sent, heard)
    return np.asarray(one_way & (one_way.sum() < 0.3 * ((sent + heard) > 0).sum()))


def _without_hubs(edges: pl.DataFrame, one_way: Bools) -> tuple[pl.DataFrame, list[int]]:
    """Removes addresses that exchange changing volumes with far more peers than others, or that only receive (or only
    send): storage, registries, monitors.
    """
    count = len(one_way)
    a, b = edges["a"].to_numpy(), edges["b"].to_numpy()
    degree = np.bincount(a, minlength=count) + np.bincount(b, minlength=count)
    typical = float(np.median(degree[degree > 0]))
    records, sizes = edges["records"].to_numpy(), edges["sizes"].to_numpy()
    volume = edges["bytes"].to_numpy()
    moved = np.bincount(a, volume, count) + np.bincount(b, volume, count)
    # What a GPU exchanges with its peers recurs, though it may read from many storage heads as well.
    varied = np.where(sizes > 0.5 * records, volume, 0.0)
    changing = (np.bincount(a, varied, count) + np.bincount(b, varied, count)) / np.maximum(moved, 1.0)
    hubs = (degree >= 6) & (degree >= 2.5 * typical) & ((changing > 0.9) | one_way)
    return edges.filter(~pl.Series(hubs[a] | hubs[b])), [int(i) for i in np.flatnonzero(hubs)]


def _without_strangers(edges: pl.DataFrame, count: int) -> pl.DataFrame:
    """Drops pairs that are silent in most of the slices in which both their ends are busy: probes, checks between
    jobs, ssh.
    """
    if edges.is_empty():
        return edges
    a, b = edges["a"].to_numpy(), edges["b"].to_numpy()
    slices = np.zeros((len(edges), SLICES), dtype=bool)
    row = np.repeat(np.arange(len(edges)), edges["active"].list.len().to_numpy())
    slices[row, edges["active"].explode().to_numpy()] = True
    busy = np.zeros((count, SLICES), dtype=bool)
    np.logical_or.at(busy, a, slices)
    np.logical_or.at(busy, b, slices)
    own = slices.sum(axis=1)
    both = (busy[a] & busy[b]).sum(axis=1)
    most = np.maximum(busy[a].sum(axis=1), busy[b].sum(axis=1))
    volume = edges["bytes"].to_numpy()
    each = volume / edges["records"].to_numpy()
    tiny = (volume < LEAST * _smaller_peak(a, b, volume, count)) & (each < 4 * LEAST * _smaller_peak(a, b, each, count))
    # A few transfers of different sizes, at an end with regular ones: reading samples, writing checkpoints, answering
    # requests.
    records = edges["records"].to_numpy()
    little = volume < SELDOM * _larger_peak(a, b, volume, count)
    varied = edges["sizes"].to_numpy() > 0.5 * records
    unsteady = (edges["largest"].to_numpy() > 0.5 * own) & (own < 0.5 * most)
    now_and_then = little & (varied | unsteady)
    now_and_then &= records < 4 * SELDOM * _larger_peak(a, b, records, count)
    # Pairs that a job gained or lost (it was restarted on fewer machines) are busy without a break.
    first, last = slices.argmax(axis=1), SLICES - 1 - slices[:, ::-1].argmax(axis=1)
    steady = (own >= 0.7 * (last - first + 1)) & (own >= UNBROKEN)
    faithful = ((own >= 0.5 * both) | steady) & (own >= 0.25 * most) & ~tiny & ~now_and_then
    return edges.filter(pl.Series(faithful))


def _smaller_peak(a: Ints, b: Ints, value: Floats, count: int) -> Floats:
    """For each pair the smaller of its two ends' largest values."""
    largest = _peaks(a, b, value, count)
    return np.asarray(np.minimum(largest[a], largest[b]))


def _larger_peak(a: Ints, b: Ints, value: Floats, count: int) -> Floats:
    """For each pair the larger of its two ends' largest values."""
    largest = _peaks(a, b, value, count)
    return np.asarray(np.maximum(largest[a], largest[b]))


def _peaks(a: Ints, b: Ints, value: Floats, count: int) -> Floats:
    """Each end's largest value over its pairs."""
    largest = np.zeros(count)
    np.maximum.at(largest, a, value)
    np.maximum.at(largest, b, value)
    return largest


def _rows_of(flows: Flows, keep: Bools, a: Ints, b: Ints, count: int) -> Flows:
    """The records of the kept pairs."""
    key = np.minimum(flows.src, flows.dst).astype(np.int64) * count + np.maximum(flows.src, flows.dst)
    return flows.take(keep & np.isin(key, a.astype(np.int64) * count + b))


def _training(flows: Flows, capture: Capture) -> Flows:
    """The records without connections that move next to nothing in small pieces beside others of their pair: stores,
    heartbeats.
    """
    if not capture.has_bytes or not (flows.port > 0).any():
        return flows
    own = pl.DataFrame(
        {"a": np.minimum(flows.src, flows.dst), "b": np.maximum(flows.src, flows.dst), "port": flows.port}
    )
    each = own.with_columns(size=flows.size).group_by("a", "b", "port").agg(pl.len(), pl.col("size").sum())
    each = each.with_columns(mean=pl.col("size") / pl.col("len"))
    tiny = each.filter(
        (pl.col("size") < LEAST * pl.col("size").max().over("a", "b"))
        & (pl.col("mean") < 4 * LEAST * pl.col("mean").max().over("a", "b"))
    )
    if tiny.is_empty():
        return flows
    beside = own.with_row_index("row").join(tiny, on=["a", "b", "port"], how="semi")["row"].to_numpy()
    keep = np.ones(len(flows), dtype=bool)
    keep[beside] = False
    return flows.take(keep)


def _merge_by_rhythm(capture: Capture, flows: Flows, label: Ints, inside: Ints) -> Ints:
    """Joins components with the same rhythm; with an inventory they must also share a server (all of the smaller's, or
    two).

    Rhythm: correlation of the components' activity in ``BINS`` time bins. Rails of one job correlate near 1.
    Independent jobs drift and stay near 0, even with equal periods, unless their phases agree by chance.
    """
    groups = members_of(label, inside)
    if len(groups) < 2:
        return label
    rank = np.full(len(label), -1, dtype=np.int64)
    for number, group in enumerate(groups):
        rank[group] = number
    beat = _beats(flows, rank[flows.src], len(groups), capture.span_s)
    servers = [frozenset(capture.places[int(m)].node for m in g if int(m) in capture.places) - {""} for g in groups]
    left: list[int] = []
    right: list[int] = []
    likeness = beat @ beat.T
    for i, j in np.argwhere(np.triu(likeness > ALIKE, 1)):
        common = len(servers[i] & servers[j])
        fewest = min(len(servers[i]), len(servers[j]))
        on_common = fewest > 0 and (common == fewest or common >= 2)
        known = bool(servers[i]) and bool(servers[j])
        if (on_common and likeness[i, j] > ALIKE) or (not known and likeness[i, j] > 0.7):
            left.append(int(i))
            right.append(int(j))
    merged = components(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64), len(groups))
    merged = _merge_by_sizes(capture, flows, merged[rank[flows.src]], merged, servers)
    out = label.copy()
    out[inside] = merged[rank[inside]]
    return out


def _merge_by_sizes(capture: Capture, flows: Flows, owner: Ints, merged: Ints, servers: list[frozenset[str]]) -> Ints:
    """Joins components on common servers that move common sizes in one rhythm, even if some of them move other sizes
    too (tensor ranks on several machines, of which only some use the network). ``owner``: the number of each record in
    ``merged``, which is indexed like ``servers``.
    """
    numbers = np.unique(merged)
    if not 1 < len(numbers) <= COMPARED or not capture.has_bytes:
        return merged
    machines = [frozenset[str]().union(*(servers[g] for g in np.flatnonzero(merged == n))) for n in numbers]
    sizes = [_recurring(flows.size[owner == n]) for n in numbers]
    left: list[int] = []
    right: list[int] = []
    for i, j in itertools.combinations(range(len(numbers)), 2):
        if len(machines[i] & machines[j]) < min(2, len(machines[i]), len(machines[j])) or not machines[i]:
            continue
        own = np.isin(owner, numbers[[i, j]])
        rows = own & np.isin(flows.size, np.intersect1d(sizes[i], sizes[j]))
        which = (owner == numbers[j]).astype(np.int64)
        whole, common = (np.bincount(which[mask], flows.size[mask], 2) for mask in (own, rows))
        if (common < SHARED * whole).any():
            continue
        part = flows.take(rows)
        first, second = _beats(part, which[rows], 2, capture.span_s)
        if float(first @ second) > ALIKE:
            left.append(i)
            right.append(j)
    joined = components(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64), len(numbers))
    return joined[np.searchsorted(numbers, merged)]


def _beats(flows: Flows, owner: Ints, groups: int, span: float) -> Floats:
    """Unit vectors of activity against time, one row an owner, without their means. ``owner``: of each record."""
    bins = min(BINS, max(64, int(4e8 / 8 / max(1, groups))))
    middle = (flows.start + flows.end) / 2
    column = np.minimum((middle / max(span, 1e-9) * bins).astype(np.int64), bins - 1)
    weight = np.ones(len(flows))
    flat = np.bincount(owner * bins + column, weights=weight, minlength=groups * bins)
    beat = np.sqrt(flat.reshape(groups, bins))
    # Neighbouring bins are blended so that rails a millisecond apart still agree.
    beat = beat + 0.5 * (np.roll(beat, 1, axis=1) + np.roll(beat, -1, axis=1))
    beat -= beat.mean(axis=1, keepdims=True)
    beat /= np.maximum(np.linalg.norm(beat, axis=1, keepdims=True), 1e-12)
    return np.asarray(beat)
