"""Phase 4, what is slow in the whole capture: rings and pairs whose transfers take longer than those of their peers.

There is no time before to compare with, so peers are units that move the same size between places as far apart: in one
machine, below one leaf, or across leaves. A pair counts only where both directions are slow: who waits for a busy stage
holds up what is sent to it, and not what it sends. O(units · sizes).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Capture
from diagnosis.kinds.flows.jobs.parallelism import Layout
from diagnosis.kinds.flows.slow.delays import leaves_of
from diagnosis.kinds.flows.slow.slow_reasons import explain
from diagnosis.kinds.flows.slow.slowness import Episode, SlowReport
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.transfers import Transfers
from diagnosis.stats import is_minority

THRESHOLDS: Final = thresholds.of("lasting_slow")


def find_lasting_slowness(
    transfers: Transfers, steps: Steps, layout: Layout, usual: float, capture: Capture
) -> list[tuple[bool, SlowReport]]:
    """What explains the units of one job that are slow in the whole capture, with whether it is a switch's; nothing
    unless one address, one switch or the path between two leaves does.
    """
    if transfers.usual.is_empty():
        return []
    leaf = leaves_of(frozenset[int]().union(*transfers.units), capture)
    heights = _heights(transfers, leaf, len(steps), usual, capture)
    episode = _episode(heights, steps)
    if episode is None:
        return []
    crossed = [_leaves_crossed(unit, leaf) for unit in transfers.units]
    known = [own or others for own, others in zip(transfers.switches, crossed, strict=True)]
    found = explain([episode], [replace(transfers, switches=known)], [layout], capture)
    return [(owner is None, slow) for owner, slow in found if _is_one_place(slow)]


def _is_one_place(slow: SlowReport) -> bool:
    return bool(slow.link) or len(slow.candidates) == 1 or len(slow.culprits) == 1


def _leaves_crossed(unit: frozenset[int], leaf: dict[int, str]) -> frozenset[str]:
    """The leaves of a unit that lies below several; else none."""
    leaves = frozenset(leaf.get(member, "") for member in unit) - {""}
    return leaves if len(leaves) > 1 else frozenset()


def _distance(unit: frozenset[int], leaf: dict[int, str], capture: Capture) -> str:
    """How far apart the members of a unit are."""
    if len(capture.nodes_of(unit)) == 1 and all(member in capture.places for member in unit):
        return "machine"
    leaves = {leaf.get(member, "") for member in unit}
    if "" in leaves:
        return ""
    return "leaf" if len(leaves) == 1 else "leaves"


def _heights(
    transfers: Transfers, leaf: dict[int, str], steps: int, usual: float, capture: Capture
) -> dict[int, float]:
    """The logarithm of how many times as long as its peers each unit needs: the least of its directions and large
    sizes. 0 where that costs the job nothing; units without peers are left out.
    """
    distance = pl.Series("distance", [_distance(unit, leaf, capture) for unit in transfers.units], pl.String)
    rows = transfers.usual.with_columns(distance=distance.gather(transfers.usual["unit"]), is_ring=pl.col("src") < 0)
    is_large = pl.col("size") >= THRESHOLDS.large * pl.col("size").max().over("unit")
    rows = rows.filter(is_large & (pl.col("records") >= THRESHOLDS.records))
    peers = ("distance", "is_ring", "size")
    rows = rows.with_columns(
        level=pl.col("seconds").quantile(THRESHOLDS.faster).over(peers),
        peers=pl.col("unit").n_unique().over(peers),
        directions=pl.col("src").n_unique().over("unit"),
    )
    are_exact = pl.col("level") >= THRESHOLDS.stamps * capture.resolution_s
    are_whole = pl.col("is_ring") | (pl.col("directions") == 2)
    rows = rows.filter(are_exact & are_whole & (pl.col("peers") >= THRESHOLDS.peers))
    lost = (pl.col("seconds") - pl.col("level")) * pl.col("records")
    units = rows.group_by("unit").agg(height=(pl.col("seconds") / pl.col("level")).log().min(), lost=lost.sum())
    is_felt = pl.col("lost") >= THRESHOLDS.lost * usual * steps
    units = units.with_columns(height=pl.when(is_felt | (pl.col("height") <= 0)).then("height").otherwise(0.0))
    return dict(units.sort("unit").select("unit", "height").iter_rows())


def _episode(heights: dict[int, float], steps: Steps) -> Episode | None:
    """The slow units against the others; None unless several are slow, and they are the lesser part."""
    values = np.array([*heights.values()])
    if not len(values):
        return None
    noise = float(np.median(np.abs(values - np.median(values))))
    limit = max(float(np.log(THRESHOLDS.factor)), THRESHOLDS.deviations * noise)
    slow = tuple(unit for unit, height in heights.items() if height > limit)
    others = tuple(unit for unit, height in heights.items() if height < THRESHOLDS.calm * limit)
    if len(slow) < THRESHOLDS.units or not is_minority(len(slow), len(values)):
        return None
    factor = float(np.exp(np.median([heights[unit] for unit in slow])))
    return Episode(float(steps.start[0]), float(steps.end[-1]), slow, others, factor, 0, is_lasting=True)
