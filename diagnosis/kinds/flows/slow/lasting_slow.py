"""Phase 4, what is slow in the whole capture: the port, leaf or path whose transfers are slower than its peers'.

There is no time before to compare with, so peers are transfers of one kind and about one size between places as far
apart: in one machine, below one leaf, or across leaves. A pair is as slow as its faster direction: who waits for a busy
stage holds up what is sent to it, and not what it sends. The hops of a ring move at the pace of its slowest, so a ring
is one unit, unless some of its hops are slower than its others. O(ways).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Capture
from diagnosis.kinds.flows.jobs.pairs import DP
from diagnosis.kinds.flows.layout.parallelism import Layout
from diagnosis.kinds.flows.slow.delays import leaves_of
from diagnosis.kinds.flows.slow.slow_reasons import explain
from diagnosis.kinds.flows.slow.slowness import Episode, SlowReport
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.transfers import Transfers

THRESHOLDS: Final = thresholds.of("lasting_slow")


@dataclass(frozen=True, slots=True)
class LastingSlowness:
    """``found``: what explains the transfers of one job that are slow in the whole capture, with whether it is a
    switch's; nothing unless one address, one switch, or the path between two leaves or machines does. ``slow``: the
    machines of each slow transfer that is explained. ``far``: those of transfers that are slow whatever the distance.
    ``replicas``: the machines of each pipeline with a port that is named.
    """

    found: list[tuple[bool, SlowReport]]
    slow: list[frozenset[str]]
    far: list[frozenset[str]]
    replicas: list[frozenset[str]]

    def explains(self, late: SlowReport, steps: Steps, capture: Capture) -> bool:
        """Whether members were late in the whole capture because they waited for slow transfers: those that are named,
        or those that nobody else has, or for a slow port of their pipeline.
        """
        lasted = float(steps.end[-1]) - float(steps.start[0])
        if late.measure != "late" or late.t1 - late.t0 < THRESHOLDS.whole * lasted:
            return False
        own = _machines(late.culprits, capture)
        named = set(chain.from_iterable(slow.nodes for _, slow in self.found))
        if own <= named:
            return False
        waited = any(not own.isdisjoint(unit) for unit in self.slow) or any(map(own.issubset, self.replicas))
        has_alone = bool(self.far) and all(not own.isdisjoint(unit) for unit in self.far)
        return waited or has_alone


def _machines(members: Iterable[int], capture: Capture) -> frozenset[str]:
    return frozenset(capture.machine(member) for member in members)


def find_lasting_slowness(
    transfers: Transfers, steps: Steps, layout: Layout, usual: float, capture: Capture
) -> LastingSlowness:
    """What is slow in one job from the first step to the last. O(ways log ways)."""
    nothing = LastingSlowness([], [], [], [])
    if transfers.ways.is_empty():
        return nothing
    leaf = leaves_of(frozenset[int]().union(*transfers.units), capture)
    ways = _with_distance(transfers.ways, leaf, capture)
    lasted = usual * len(steps)
    anywhere = _pairs(ways.with_columns(distance=pl.lit("")), lasted, capture)
    are_far = anywhere.filter(pl.col("height") > _limit(anywhere))
    far = [_machines(unit, capture) for unit in _members(are_far)]
    pairs = _pairs(ways, lasted, capture)
    if pairs.is_empty():
        return nothing
    limit = _limit(pairs)
    units = _with_whole_rings(pairs, limit)
    members = _members(units)
    crossed = []
    for unit, paths in zip(members, units["paths"].to_list(), strict=True):
        known = frozenset[str]().union(*(capture.paths[at] for at in paths if at >= 0))
        crossed.append(known or _leaves_crossed(unit, leaf))
    episode = _episode(units, limit, steps, lasted)
    if episode is None:
        return replace(nothing, far=far)
    table = replace(transfers, cells=transfers.cells.clear(), units=members, switches=crossed)
    told = explain([episode], [table], [layout], capture)
    found = [(owner is None, slow) for owner, slow in told if _is_narrow(slow)]
    slow = [_machines(members[unit], capture) for unit in episode.slow_units] if found else []
    return LastingSlowness(found, slow, far, _replicas_of(found, layout, capture))


def _replicas_of(found: list[tuple[bool, SlowReport]], layout: Layout, capture: Capture) -> list[frozenset[str]]:
    """The machines of the pipelines with a member that is named."""
    culprits = set(chain.from_iterable(slow.culprits for _, slow in found))
    return [_machines(map(int, group), capture) for group in layout.pp_groups if not culprits.isdisjoint(group)]


def _members(units: pl.DataFrame) -> list[frozenset[int]]:
    return [frozenset(map(int, row)) for row in units["members"].to_list()]


def _limit(units: pl.DataFrame) -> float:
    """The height beyond which a unit is slow: beyond how much units differ anyway."""
    height = units["height"].to_numpy()
    noise = float(np.median(np.abs(height - np.median(height)))) if len(height) else 0.0
    return max(math.log(THRESHOLDS.factor), float(THRESHOLDS.deviations) * noise)


def _is_narrow(slow: SlowReport) -> bool:
    """Whether one place is named, or few switches of which one is slow: flows cannot part them."""
    return bool(slow.link) or 1 <= len(slow.candidates) <= THRESHOLDS.candidates or len(slow.culprits) == 1


def _leaves_crossed(unit: frozenset[int], leaf: dict[int, str]) -> frozenset[str]:
    """The leaves of a unit that lies below several; else none."""
    leaves = frozenset(leaf.get(member, "") for member in unit) - {""}
    return leaves if len(leaves) > 1 else frozenset()


def _distance(one: int, other: int, leaf: dict[int, str], capture: Capture) -> str:
    """How far apart two members are."""
    places = [capture.places.get(member) for member in (one, other)]
    if None not in places and len(capture.nodes_of({one, other})) == 1:
        return "machine"
    leaves = {leaf.get(one, ""), leaf.get(other, "")}
    if "" in leaves:
        return ""
    return "leaf" if len(leaves) == 1 else "leaves"


def _with_distance(ways: pl.DataFrame, leaf: dict[int, str], capture: Capture) -> pl.DataFrame:
    """The ways with the two ends of each, a < b, and how far these are apart."""
    ways = ways.with_columns(a=pl.min_horizontal("src", "dst"), b=pl.max_horizontal("src", "dst"))
    ends = ways.select("a", "b").unique().sort("a", "b")
    apart = [_distance(one, other, leaf, capture) for one, other in ends.iter_rows()]
    return ways.join(ends.with_columns(distance=pl.Series(apart, dtype=pl.String)), on=["a", "b"])


def _pairs(ways: pl.DataFrame, lasted: float, capture: Capture) -> pl.DataFrame:
    """Of each pair on each path the ``height``: the logarithm of how many times as long as its peers its transfers
    need, in its faster direction; 0 where that costs the job nothing. Pairs without peers are left out.
    """
    volume = (pl.col("records") * pl.lit(2.0).pow(pl.col("octave"))).sum().over("a", "b", "octave")
    main = pl.col("octave").sort_by(volume, "octave").last().over("a", "b")
    is_main = (pl.col("octave") - main).abs() <= THRESHOLDS.octaves
    ways = ways.filter(is_main & (pl.col("records") >= THRESHOLDS.records))
    peers = ("kind", "distance", "octave")
    ways = ways.with_columns(
        level=pl.col("fast").quantile(1.0 - THRESHOLDS.faster).over(peers),
        pairs=pl.struct("a", "b").n_unique().over(peers),
        directions=pl.col("src").n_unique().over("a", "b"),
    )
    slower = pl.col("level") / pl.col("fast")
    are_exact = pl.col("seconds") >= THRESHOLDS.stamps * capture.resolution_s * slower
    are_whole = (pl.col("kind") == DP) | (pl.col("directions") == 2)
    ways = ways.filter(are_exact & are_whole & (pl.col("pairs") >= THRESHOLDS.peers))
    lost = pl.col("seconds") * (1.0 - 1.0 / slower) * pl.col("records")
    own = ways.group_by("unit", "kind", "a", "b", "path", "distance")
    pairs = own.agg(height=slower.log().min(), lost=lost.sum())
    is_felt = pl.col("lost") >= THRESHOLDS.lost * lasted
    height = pl.when(is_felt).then(pl.col("height").clip(lower_bound=0.0)).otherwise(0.0)
    members, alike = pl.concat_list("a", "b"), pl.format("{} {}", "kind", "distance")
    return pairs.with_columns(height=height, members=members, peers=alike).sort("unit", "a", "b", "path")


def _with_whole_rings(pairs: pl.DataFrame, limit: float) -> pl.DataFrame:
    """The pairs, but one row for each ring of which no hop is slower than the others."""
    apart = pl.col("height").max() - pl.col("height").median()
    is_whole = (pl.col("kind") == DP) & (apart.over("unit") <= limit)
    group = pl.when(is_whole).then(-1 - pl.col("unit").cast(pl.Int64)).otherwise(pl.int_range(pl.len()))
    rows = (
        pairs.with_columns(group=group)
        .group_by("group")
        .agg(
            members=pl.col("members").explode(),
            paths=pl.col("path"),
            height=pl.col("height").median(),
            lost=pl.col("lost").sum(),
            peers=pl.when(pl.len() > 1).then(pl.lit("rings")).otherwise(pl.col("peers").first()).first(),
        )
    )
    return rows.sort("group")


def _episode(units: pl.DataFrame, limit: float, steps: Steps, lasted: float) -> Episode | None:
    """The slow units against the others; None if there are no such, or only a ring, whose members all explain it."""
    heights, lost = units["height"].to_numpy(), units["lost"].to_numpy() / lasted
    slow = tuple(np.flatnonzero(heights > limit).tolist())
    others = tuple(np.flatnonzero(heights < THRESHOLDS.calm * limit).tolist())
    is_pair = len(slow) > 0 and len(units["members"][slow[0]]) == 2
    is_alone = len(slow) == 1 and (not is_pair or lost[slow[0]] < THRESHOLDS.alone)
    if not slow or not others or is_alone:
        return None
    factor = math.exp(float(np.median(heights[list(slow)])))
    return Episode(float(steps.start[0]), float(steps.end[-1]), slow, others, factor, 0, tuple(units["peers"]))
