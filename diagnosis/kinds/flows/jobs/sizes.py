"""Finds the transfer sizes that recur in a pair: those of buckets do, those of sequences of varying length do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.capture import Bools, Floats, Flows, Ints, Ints32
from diagnosis.kinds.flows.capture.partitions import partition, run_parts

#: A size recurs if it occurs in most of these slices of the capture, not only often within one step.
TIME_SLICES = 12
#: Neighbouring sizes over a wider range than this are a continuum, unless many are exactly equal.
ONE_SIZE_RATIO = 1.03


@dataclass(frozen=True, slots=True)
class Sizes:
    """For each pair: ``frequent``: the number of different sizes that recur often, ``covered``: the share of records
    with one of them, ``main``: the most frequent; ``kinds``: the number of sizes that recur at all; ``guest``: the most
    frequent one also occurs in pairs with several sizes; ``rarer``: the share of bytes in sizes that recur, but far
    less often than the most frequent; ``recurring_share``: the share in all recurring sizes; ``rarest_count``: the
    count of the rarest of the frequent sizes.
    """

    frequent: Ints
    covered: Floats
    main: Floats
    kinds: Ints
    guest: Bools
    rarer: Floats
    recurring_share: Floats
    rarest_count: Ints


@partition
def _count_part(part: Flows, pair: Ints32, last: float, pairs: int, blocks: int) -> list[pl.DataFrame]:
    """How often each pair moved each size, and the slices of the capture (bits) in which it did: a table for each block
    of pairs.
    """
    slices = np.minimum((part.start / last * TIME_SLICES).astype(np.int64), TIME_SLICES - 1)
    table = pl.DataFrame({"pair": pair, "size": part.size, "slice": np.left_shift(1, slices)})
    table = table.group_by("pair", "size").agg(pl.len(), pl.col("slice").bitwise_or())
    if blocks == 1:
        return [table]
    block = table["pair"].to_numpy().astype(np.int64) * blocks // pairs
    return [table.filter(pl.Series(block == number)) for number in range(blocks)]


@partition
def _pair_totals(part: Flows, pair: Ints32, pairs: int) -> tuple[Ints, Floats]:
    """The records and the bytes of each pair."""
    return np.bincount(pair, minlength=pairs), np.bincount(pair, np.nan_to_num(part.size), pairs)


def count_sizes(flows: Flows, pair: Ints32, pairs: int, has_bytes: bool) -> Iterator[list[pl.DataFrame]]:
    """Begins to count the sizes of each pair, for :func:`recurring_sizes`."""
    if not has_bytes:
        return iter(())
    blocks = len(list(pieces.pieces_of(len(flows))))
    last = max(float(flows.start[-1]), 1e-9)
    return flows.each(_count_part, last, pairs, blocks, beside=[pair])


def recurring_sizes(
    flows: Flows, pair: Ints32, pairs: int, has_bytes: bool, tables_of: Iterator[list[pl.DataFrame]]
) -> Sizes:
    """For each pair: the number of recurring sizes, and the share of its records with one of them. Sizes within 1 % of
    the next are one: headers and retransmissions change byte counts slightly, and varying sequence lengths give a
    continuum.
    """
    sizes = np.zeros(pairs, dtype=np.int64)
    covered = np.zeros(pairs)
    main = np.zeros(pairs)
    kinds = np.zeros(pairs, dtype=np.int64)
    if not has_bytes:
        return Sizes(sizes, covered, main, kinds, np.zeros(pairs, dtype=bool), np.zeros(pairs), np.zeros(pairs), sizes)
    found = list(run_parts(flows.disk, _find_recurring, [(list(tables),) for tables in zip(*tables_of, strict=True)]))
    often, rare, frequent = (pl.concat(tables) for tables in zip(*found, strict=True))
    at = often["pair"].to_numpy()
    sizes[at] = often["sizes"].to_numpy()
    covered[at] = often["covered"].to_numpy()
    main[at] = often["main"].to_numpy()
    least = np.zeros(pairs, dtype=np.int64)
    least[at] = often["least"].to_numpy()
    kinds[rare["pair"].to_numpy()] = rare["kinds"].to_numpy()
    rarer, returning = np.zeros(pairs), np.zeros(pairs)
    rarer[rare["pair"].to_numpy()] = rare["bytes"].to_numpy()
    returning[rare["pair"].to_numpy()] = rare["again"].to_numpy()
    records, moved = np.zeros((2, pairs))
    for own_records, own_moved in flows.each(_pair_totals, pairs, beside=[pair]):
        records += own_records
        moved += own_moved
    moved = np.maximum(moved, 1.0)
    rarer, returning = rarer / moved, returning / moved
    beside = frequent["size"].to_numpy()
    many = main[(sizes == 1) & (kinds >= 3) & (rarer >= 0.2)]
    guest = (sizes == 1) & (kinds < 3) & np.isin(np.round(main, -3), np.unique(np.round([*beside, *many], -3)))
    return Sizes(sizes, covered / np.maximum(records, 1), main, kinds, guest, rarer, returning, least)


@partition
def _find_recurring(tables: list[pl.DataFrame]) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Of a block of pairs: the sizes that recur often, those that recur at all, and the sizes of pairs with several."""
    seen = pl.col("slice").bitwise_or()
    table = pl.concat(tables)
    if len(tables) > 1:
        table = table.group_by("pair", "size").agg(pl.col("len").sum(), seen)
    table = table.sort("pair", "size")
    present = table.group_by("pair").agg(seen.bitwise_count_ones().alias("slices"))
    apart = (pl.col("size") > 1.01 * pl.col("size").shift(1)) | (pl.col("pair") != pl.col("pair").shift(1))
    table = table.with_columns(group=apart.fill_null(True).cum_sum())
    table = table.group_by("group").agg(
        pl.col("pair").first(),
        (pl.col("size") * pl.col("len")).sum() / pl.col("len").sum(),
        pl.col("len").sum(),
        seen.bitwise_count_ones(),
        # A continuous range is no size: sequences of varying length, pieces of split records.
        one=(pl.col("size").max() <= ONE_SIZE_RATIO * pl.col("size").min())
        | (5 * pl.col("len").max() >= pl.col("len").sum()),
    )
    table = table.join(present, on="pair")
    top = pl.col("len").max().over("pair")
    again = table.filter((pl.col("len") >= 3) & (pl.col("slice") >= 0.5 * pl.col("slices")) & pl.col("one"))
    frequent = again.filter(pl.col("len") >= 0.15 * top)
    often = frequent.group_by("pair").agg(
        pl.len().alias("sizes"),
        pl.col("len").sum().alias("covered"),
        pl.col("size").sort_by("len").last().alias("main"),
        pl.col("len").min().alias("least"),
    )
    # Two or three transfers merged into one record recur as well, as whole multiples of the commonest size.
    times = pl.col("size") / pl.col("size").sort_by("len").last().over("pair")
    merged = (times > 1.5) & (times < 4.5) & ((times - times.round(0)).abs() < 0.01) & (pl.col("len") < 0.3 * top)
    seldom = pl.col("len") < 0.15 * top
    rare = (
        again.filter((pl.col("len") >= 0.02 * top) & ~merged)
        .group_by("pair")
        .agg(
            pl.len().alias("kinds"),
            bytes=(pl.col("size") * pl.col("len")).filter(seldom).sum(),
            again=(pl.col("size") * pl.col("len")).sum(),
        )
    )
    return often, rare, frequent.filter(pl.len().over("pair") >= 2).select("size")
