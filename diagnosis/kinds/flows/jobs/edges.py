"""Which pairs of addresses may train together: what each moves in slices of the time, without services, probes and
checks.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.capture import Bools, Floats, Flows, Ints
from diagnosis.kinds.flows.capture.partitions import partition, run_parts

THRESHOLDS: Final = thresholds.of("edges")

#: A pair that moves less than this share of its ends' largest pairs, in small pieces, only coordinates.
MAX_TINY_SHARE: Final = 5e-3


def edges_of(flows: Flows, keep: Bools) -> pl.DataFrame:
    """One row an undirected pair: a < b, records, bytes, the slices in which it was busy, different sizes (summed over
    slices), different ``largest`` sizes of its busy slices. Slices hold equally many records, so that idle hours
    around the training do not count.
    """
    begun = flows.start[np.array(_slices(flows.start, keep)[1:-1], np.int64)]
    blocks = min(THRESHOLDS.time_slices, -(-len(flows) // pieces.PIECE_ROWS))
    parts: list[list[pl.DataFrame]] = [[] for _ in range(blocks)]
    for tables in flows.each(_sizes, begun, blocks > 1, beside=[keep]):
        for table in tables:
            parts[int(table["part"][0]) * blocks // THRESHOLDS.time_slices].append(table)
    found: list[pl.DataFrame] = list(run_parts(flows.disk, _shares, [(tables,) for tables in parts if tables]))
    if not found:
        return pl.DataFrame()
    share = pl.concat(found)
    total = pl.col("size").sum().over("a", "b")
    # A slice with very little of the pair's volume is not busy: keep-alives, barriers, small messages of checkpoints.
    share = share.with_columns(busy=pl.col("size") >= 0.05 * total / THRESHOLDS.time_slices)
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


@partition
def _sizes(flows: Flows, keep: Bools, begun: Floats, is_split: bool) -> list[pl.DataFrame]:
    """How often each pair moved each size in each slice of the time, each slice in a table of its own if ``is_split``;
    ``begun``: when all slices but the first begin.
    """
    part = flows.take(keep)
    table = pl.DataFrame(
        {
            "a": np.minimum(part.src, part.dst),
            "b": np.maximum(part.src, part.dst),
            "part": np.searchsorted(begun, part.start, "right"),
            "size": np.where(np.isfinite(part.size), part.size, 1.0),
        }
    )
    table = table.group_by("a", "b", "part", "size").agg(n=pl.len())
    if is_split:
        return table.partition_by("part")
    return [table] if table.height else []


@partition
def _shares(tables: list[pl.DataFrame]) -> pl.DataFrame:
    """What each pair moved in each slice of the time: all tables of some slices."""
    sizes = pl.concat(tables)
    if len(tables) > 1:
        sizes = sizes.group_by("a", "b", "part", "size").agg(pl.col("n").sum())
    return sizes.group_by("a", "b", "part").agg(
        pl.col("n").sum(), (pl.col("size") * pl.col("n")).sum(), sizes=pl.len(), largest=pl.col("size").max()
    )


def _slices(start: Floats, keep: Bools) -> list[int]:
    """The first row of each slice, and the end: slices hold about equally many kept rows, and all that begin at one
    time are in the same.
    """
    total = int(np.count_nonzero(keep))
    wanted = total * np.arange(1, THRESHOLDS.time_slices) // THRESHOLDS.time_slices
    cuts, seen = [0], 0
    for piece in pieces.pieces_of(len(start)):
        rows = np.flatnonzero(keep[piece])
        here = wanted[(wanted >= seen) & (wanted < seen + len(rows))]
        cuts += np.searchsorted(start, start[piece][rows[here - seen]]).tolist()
        seen += len(rows)
    return [*cuts, len(start)]


def one_way(flows: Flows, keep: Bools, count: int) -> Bools:
    """Addresses that almost only send or only receive, while most do both."""
    sent, received = np.zeros((2, count))
    for own_sent, own_received in flows.each(_volumes, count, beside=[keep]):
        sent += own_sent
        received += own_received
    one_way = np.minimum(sent, received) < THRESHOLDS.max_one_way_share * np.maximum(sent, received)
    return np.asarray(one_way & (one_way.sum() < 0.3 * ((sent + received) > 0).sum()))


@partition
def _volumes(part: Flows, keep: Bools, count: int) -> tuple[Floats, Floats]:
    """What each address sends and receives; a record without bytes counts 1."""
    volume = np.where(np.isfinite(part.size[keep]), part.size[keep], 1.0)
    return np.bincount(part.src[keep], volume, count), np.bincount(part.dst[keep], volume, count)


def without_hubs(edges: pl.DataFrame, one_way: Bools) -> tuple[pl.DataFrame, list[int]]:
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


def without_strangers(edges: pl.DataFrame, count: int) -> pl.DataFrame:
    """Drops pairs that are silent while both ends are busy: probes, checks, ssh."""
    if edges.is_empty():
        return edges
    a, b = edges["a"].to_numpy(), edges["b"].to_numpy()
    slices = np.zeros((len(edges), THRESHOLDS.time_slices), dtype=bool)
    row = np.repeat(np.arange(len(edges)), edges["active"].list.len().to_numpy())
    slices[row, edges["active"].explode().to_numpy()] = True
    busy = np.zeros((count, THRESHOLDS.time_slices), dtype=bool)
    np.logical_or.at(busy, a, slices)
    np.logical_or.at(busy, b, slices)
    own = slices.sum(axis=1)
    both = (busy[a] & busy[b]).sum(axis=1)
    most = np.maximum(busy[a].sum(axis=1), busy[b].sum(axis=1))
    volume = edges["bytes"].to_numpy()
    each = volume / edges["records"].to_numpy()
    tiny = (volume < MAX_TINY_SHARE * _smaller_peak(a, b, volume, count)) & (
        each < 4 * MAX_TINY_SHARE * _smaller_peak(a, b, each, count)
    )
    # A few transfers of different sizes, at an end with regular ones: reading samples, writing checkpoints, answering
    # requests.
    records = edges["records"].to_numpy()
    little = volume < THRESHOLDS.max_rare_share * _larger_peak(a, b, volume, count)
    varied = edges["sizes"].to_numpy() > 0.5 * records
    unsteady = (edges["largest"].to_numpy() > 0.5 * own) & (own < 0.5 * most)
    now_and_then = little & (varied | unsteady)
    now_and_then &= records < 4 * THRESHOLDS.max_rare_share * _larger_peak(a, b, records, count)
    # Pairs that a job gained or lost (it was restarted on fewer machines) are busy without a break.
    first, last = slices.argmax(axis=1), THRESHOLDS.time_slices - 1 - slices[:, ::-1].argmax(axis=1)
    steady = (own >= 0.7 * (last - first + 1)) & (own >= THRESHOLDS.min_steady_slices)
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
