"""The durations of all collectives and pipeline transfers of a job: the table for judging slowness.

The hops of one collective end together but begin when each sender is ready. So the shortest hop gives the time of the
transfer itself, and the last sender to begin is the one that the others waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Bools, Capture, Flows, Group, Ints, Ints32, join_group
from diagnosis.kinds.flows.capture.packing import packable
from diagnosis.kinds.flows.capture.partitions import partition, run_parts
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.pairs import DP, EP, OTHER, PP, Pairs
from diagnosis.kinds.flows.layout.parallelism import rings_of
from diagnosis.kinds.flows.steps.steps import Steps

THRESHOLDS: Final = thresholds.of("transfers")

#: A number a row, where text would be 16 bytes.
KIND: Final = pl.Enum([DP, PP, EP, OTHER])

#: A transfer that seems shorter took this long (s).
LEAST_S: Final = 1e-6
#: This share of a way's transfers, the faster ones, waited for nobody.
FASTER: Final = 0.25


@packable
@dataclass(frozen=True, slots=True)
class Transfers:
    """``cells``: one row a unit (ring or pair number) and step: ``slow`` (the median over the collectives of the ring,
    or transfers of the pair, of their time as a multiple of this unit's usual for that size), ``first`` and ``last``
    end of them, ``kind``. ``late``: one row a member and step: seconds by which it began its part after the usual
    member, as mean over the step's collectives (``behind``) and as sum (``added``). ``ways``: one row a unit, sender,
    receiver, path (-1: unknown) and ``octave`` of the size: the ``seconds`` of a transfer, how many bytes a second the
    ``fast`` quarter moves, which waited for nobody (without byte counts: transfers a second), and how many ``records``.
    ``units``: the members of each unit. ``switches``: the switches that each unit's hops cross (empty if
    paths are unknown).
    """

    cells: pl.DataFrame
    late: pl.DataFrame
    ways: pl.DataFrame
    units: list[frozenset[int]]
    switches: list[frozenset[str]]


@dataclass(frozen=True, slots=True)
class RecordsByUnit:
    """A job's records by unit (ring or pair number), as soon as they are asked for, and of each unit its members and
    the kind of its traffic.
    """

    groups: Callable[[], list[Group]]
    units: list[frozenset[int]]
    kinds: list[str]


def divide_by_unit(job: JobFlows, pairs: Pairs, capture: Capture) -> RecordsByUnit:
    """Begins to divide the records of one job by unit. O(records)."""
    count = len(capture.names)
    rings = rings_of(pairs, DP, count)
    ring_of = np.full(count, -1, dtype=np.int64)
    for number, ring in enumerate(rings):
        ring_of[ring] = number
    unit = _unit_of(job, pairs, ring_of, len(rings), capture)
    units = [frozenset(map(int, ring)) for ring in rings]
    units += [frozenset((int(a), int(b))) for a, b in zip(pairs.a, pairs.b, strict=True)]
    return RecordsByUnit(job.flows.grouped(unit, len(units)), units, [DP] * len(rings) + pairs.type)


def measure_transfers(of: RecordsByUnit, steps: Steps, capture: Capture) -> Callable[[], Transfers]:
    """Begins the table for one job, which is there when it is asked for. O(n log n) in records."""
    parts = [(group, steps, of.kinds, capture.resolution_s, capture.has_bytes) for group in of.groups()]
    answers = run_parts(capture.flows.disk, _of_units, parts)

    def found() -> Transfers:
        switches: list[set[str]] = [set() for _ in of.units]
        cells, late, ways = [], [], []
        for own_cells, own_late, own_ways in answers:
            cells.append(own_cells)
            late.append(own_late)
            ways.append(own_ways)
        late_rows = pl.concat(late).sort("src", "step")
        way_rows = pl.concat(ways).sort("unit", "src", "dst", "path", "octave")
        for number, path in way_rows.filter(pl.col("path") >= 0).select("unit", "path").iter_rows():
            switches[number].update(capture.paths[path])
        return Transfers(pl.concat(cells), late_rows, way_rows, of.units, [frozenset(c) for c in switches])

    return found


@partition
def _of_units(
    group: Group, steps: Steps, kinds: list[str], resolution_s: float, has_bytes: bool
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Of whole units: the cells, the lateness, and the ways."""
    unit, flows = join_group(group)
    table = _table(flows, unit, steps, kinds)
    ways = _ways(table, max(resolution_s, LEAST_S))
    table = table.drop("dst", "path")  # tables of millions of rows are sorted without them
    table = _of_recurring_sizes(table) if has_bytes else table
    is_ring = pl.col("kind") == DP
    of_rings, late = _collective_cells(table.filter(is_ring), resolution_s)
    of_pairs = _pair_cells(table.filter(~is_ring))
    return pl.concat([of_rings, of_pairs]), late, ways


def _unit_of(job: JobFlows, pairs: Pairs, ring_of: Ints, rings: int, capture: Capture) -> Ints32:
    """The unit of each record: the ring of a collective, or the pair of a transfer; -1: none."""
    count = len(capture.names)
    collective, index = pairs.carries(job.flows, count, DP), pairs.index(job.flows, count)
    of_pair = np.where(pairs.of(PP, EP), rings + np.arange(len(pairs.a)), -1)
    tables = ring_of.astype(np.int32), of_pair.astype(np.int32)
    return job.flows.column(np.int32, _unit, *tables, beside=[collective, index])


@partition
def _unit(part: Flows, collective: Bools, index: Ints32, ring_of: Ints32, of_pair: Ints32) -> Ints32:
    return np.where(collective, ring_of[part.src], of_pair[index])


def _table(flows: Flows, unit: Ints | Ints32, steps: Steps, kinds: list[str]) -> pl.DataFrame:
    """Records with unit, its kind, and step."""
    table = pl.DataFrame(
        {
            "unit": unit,
            "src": flows.src,
            "dst": flows.dst,
            "size": np.nan_to_num(flows.size),
            "start": flows.start,
            "end": flows.end,
            "path": flows.path,
            "step": steps.of(flows.start).astype(np.int32),
        }
    ).filter((pl.col("unit") >= 0) & pl.col("step").is_between(0, len(steps) - 1))
    kind = pl.Series("kind", kinds, KIND)
    return table.with_columns(kind=kind.gather(table["unit"]))


def _ways(table: pl.DataFrame, least_s: float) -> pl.DataFrame:
    """How fast the transfers of each way are. Split and merged ones are as fast as others."""
    seconds = (pl.col("end") - pl.col("start")).clip(lower_bound=least_s)
    size = pl.when(pl.col("size") > 0).then("size").otherwise(1.0)
    ways = table.lazy().select("unit", "kind", "src", "dst", "path", seconds=seconds, size=size)
    ways = ways.with_columns(rate=pl.col("size") / pl.col("seconds"), octave=pl.col("size").log(2).floor())
    own = ways.group_by("unit", "kind", "src", "dst", "path", pl.col("octave").cast(pl.Int32))
    fast = pl.col("rate").quantile(1.0 - FASTER)
    return own.agg(pl.col("seconds").median(), fast=fast, records=pl.len()).collect()


def _of_recurring_sizes(table: pl.DataFrame) -> pl.DataFrame:
    """Records of sizes that recur in their unit: split and merged ones have no meaningful duration."""
    often = pl.len().over("unit", "size")
    return table.filter((often >= 3) & (often >= 0.1 * often.max().over("unit")))


def _collective_cells(table: pl.DataFrame, resolution: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Hops that end together become one collective; its shortest hop against the unit's usual. The cells, and how late
    each sender began.
    """
    length = (pl.col("end") - pl.col("start")).clip(lower_bound=resolution)
    table = table.with_columns(length=length).sort("unit", "size", "end")
    usual = pl.col("length").median().over("unit", "size")
    fresh = (
        (pl.col("end") - pl.col("end").shift(1) > (0.4 * usual).clip(lower_bound=2 * resolution))
        | (pl.col("unit") != pl.col("unit").shift(1))
        | (pl.col("size") != pl.col("size").shift(1))
    ).fill_null(True)
    table = table.with_columns(op=fresh.cum_sum())
    ops = table.group_by("op").agg(
        pl.col("unit", "size", "step", "kind").first(),
        pl.col("end").median(),
        pl.col("length").min(),
        hops=pl.col("src").n_unique(),
    )
    ops = ops.with_columns(slow=pl.col("length") / pl.col("length").median().over("unit", "size"))
    # The duration of collectives that overlap with computing depends on the slowest sender; those after it show only
    # the network.
    ops = ops.with_columns(noise=(pl.col("slow") - 1.0).abs().median().over("unit", "size"))
    ops = ops.filter(pl.col("noise") <= 1.5 * pl.col("noise").min().over("unit") + 0.02)
    began = _without_later_rounds(table, LEAST_S)
    began = began.group_by("op", "src").agg(pl.col("unit", "step").first(), pl.col("start").min(), pl.col("end").max())
    apart = (pl.col("start", "end") - pl.col("start", "end").median().over("op")).name.prefix("apart_")
    began = began.with_columns(apart, hops=pl.len().over("op")).filter(pl.col("hops") >= 2)
    # Hops end together; if a sender's ends always differ, its clock is wrong, and its starts are wrong by the same
    # amount.
    behind = pl.col("apart_start") - pl.col("apart_end").median().over("src")
    began = began.with_columns(behind=behind)
    late = began.group_by("src", "step").agg(behind=pl.col("behind").mean(), added=pl.col("behind").sum())
    return _join_cells(ops), late


def _without_later_rounds(table: pl.DataFrame, least_s: float) -> pl.DataFrame:
    """Without the later rounds of rings whose rounds are records of their own: a member begins them
    as soon as the round before is through, so they show when it got something, and not when it was
    ready.
    """
    ends = table.select("unit", through="end").sort("through")
    table = table.sort("start").join_asof(
        ends, left_on="start", right_on="through", by="unit", strategy="nearest", check_sortedness=False
    )
    least = THRESHOLDS.at_once * pl.col("length").clip(lower_bound=least_s)
    table = table.with_columns(is_next=(pl.col("start") - pl.col("through")).abs() <= least)
    are_rounds = pl.col("is_next").mean().over("unit") >= THRESHOLDS.rounds
    return table.filter(~(pl.col("is_next") & are_rounds)).drop("through", "is_next")


def _pair_cells(table: pl.DataFrame) -> pl.DataFrame:
    """Transfers of pairs: each relative to the usual of its pair, direction and size."""
    length = (pl.col("end") - pl.col("start")).clip(lower_bound=LEAST_S)
    table = table.with_columns(length=length)
    slow = pl.col("length") / pl.col("length").median().over("unit", "src", "size")
    return _join_cells(table.select("unit", "step", "kind", "end", slow=slow))


def _join_cells(ops: pl.DataFrame) -> pl.DataFrame:
    """Collectives or transfers to one row a unit and step."""
    slow = pl.col("slow").cast(pl.Float64).median()
    own = ops.group_by("unit", "step")
    return own.agg(pl.col("kind").first(), slow=slow, first=pl.col("end").min(), last=pl.col("end").max())
