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

from diagnosis.kinds.flows.capture.capture import Bools, Capture, Flows, Group, Ints, Ints32, join_group
from diagnosis.kinds.flows.capture.packing import packable
from diagnosis.kinds.flows.capture.partitions import partition, run_parts
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.pairs import DP, PP, Pairs
from diagnosis.kinds.flows.jobs.parallelism import rings_of
from diagnosis.kinds.flows.steps.steps import Steps

#: A number a row, where text would be 16 bytes.
KIND: Final = pl.Enum([DP, PP])


@packable
@dataclass(frozen=True, slots=True)
class Transfers:
    """``cells``: one row a unit (ring or pair number) and step: ``slow`` (the median over the collectives of the ring,
    or transfers of the pair, of their time as a multiple of this unit's usual for that size), ``first`` and ``last``
    end of them, ``kind``. ``late``: one row a member and step: seconds by which it began its part after the usual
    member, as mean over the step's collectives (``behind``) and as sum (``added``). ``usual``: one row a unit, sender
    (-1: a ring) and size: the ``seconds`` of the faster quarter of its transfers, which waited for nobody, and how many
    ``records``. ``units``: the members of each unit. ``switches``: the switches that each unit's hops cross (empty if
    paths are unknown).
    """

    cells: pl.DataFrame
    late: pl.DataFrame
    usual: pl.DataFrame
    units: list[frozenset[int]]
    switches: list[frozenset[str]]


@dataclass(frozen=True, slots=True)
class RecordsByUnit:
    """A job's records by unit (ring or pair number), as soon as they are asked for. ``rings``: how many units are."""

    groups: Callable[[], list[Group]]
    units: list[frozenset[int]]
    rings: int


def divide_by_unit(job: JobFlows, pairs: Pairs, capture: Capture) -> RecordsByUnit:
    """Begins to divide the records of one job by unit."""
    count = len(capture.names)
    rings = rings_of(pairs, DP, count)
    ring_of = np.full(count, -1, dtype=np.int64)
    for number, ring in enumerate(rings):
        ring_of[ring] = number
    unit = _unit_of(job, pairs, ring_of, len(rings), capture)
    units = [frozenset(map(int, ring)) for ring in rings]
    units += [frozenset((int(a), int(b))) for a, b in zip(pairs.a, pairs.b, strict=True)]
    return RecordsByUnit(job.flows.grouped(unit, len(units)), units, len(rings))


def measure_transfers(of: RecordsByUnit, steps: Steps, capture: Capture) -> Callable[[], Transfers]:
    """Begins the table for one job, which is there when it is asked for. O(n log n) in records."""
    parts = [(group, steps, of.rings, capture.resolution_s, capture.has_bytes) for group in of.groups()]
    answers = run_parts(capture.flows.disk, _of_units, parts)

    def found() -> Transfers:
        switches: list[set[str]] = [set() for _ in of.units]
        cells, late, usual = [], [], []
        for own_cells, own_late, own_usual, crossed in answers:
            cells.append(own_cells)
            late.append(own_late)
            usual.append(own_usual)
            for number, path in crossed.iter_rows():
                switches[number].update(capture.paths[path])
        late_rows = pl.concat(late).sort("src", "step")
        usual_rows = pl.concat(usual).sort("unit", "src", "size")
        return Transfers(pl.concat(cells), late_rows, usual_rows, of.units, [frozenset(c) for c in switches])

    return found


@partition
def _of_units(
    group: Group, steps: Steps, rings: int, resolution_s: float, has_bytes: bool
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Of whole units: the cells, the lateness, the usual times, and the unit and path of records that name one."""
    unit, flows = join_group(group)
    table = _table(flows, unit, steps, has_bytes)
    crossed = table.lazy().filter(pl.col("path") >= 0).select("unit", "path").unique().collect()
    is_ring = pl.col("unit") < rings
    table = table.drop("path")  # tables of millions of rows are sorted without it
    of_rings, usual_of_rings, late = _collective_cells(table.filter(is_ring), resolution_s)
    of_pairs, usual_of_pairs = _pipeline_cells(table.filter(~is_ring))
    return pl.concat([of_rings, of_pairs]), late, pl.concat([usual_of_rings, usual_of_pairs]), crossed


def _unit_of(job: JobFlows, pairs: Pairs, ring_of: Ints, rings: int, capture: Capture) -> Ints32:
    """The unit of each record: the ring of a collective, or the pair of a transfer along a pipeline; -1: none."""
    count = len(capture.names)
    collective, index = pairs.carries(job.flows, count, DP), pairs.index(job.flows, count)
    of_pair = np.where(pairs.of(PP), rings + np.arange(len(pairs.a)), -1)
    tables = ring_of.astype(np.int32), of_pair.astype(np.int32)
    return job.flows.column(np.int32, _unit, *tables, beside=[collective, index])


@partition
def _unit(part: Flows, collective: Bools, index: Ints32, ring_of: Ints32, of_pair: Ints32) -> Ints32:
    return np.where(collective, ring_of[part.src], of_pair[index])


def _table(flows: Flows, unit: Ints | Ints32, steps: Steps, has_bytes: bool) -> pl.DataFrame:
    """Records with unit and step, only of sizes that recur in their unit: split and merged records have no meaningful
    duration.
    """
    table = pl.DataFrame(
        {
            "unit": unit,
            "src": flows.src,
            "size": np.nan_to_num(flows.size),
            "start": flows.start,
            "end": flows.end,
            "path": flows.path,
            "step": steps.of(flows.start).astype(np.int32),
        }
    ).filter((pl.col("unit") >= 0) & pl.col("step").is_between(0, len(steps) - 1))
    if not has_bytes:
        return table
    often = pl.len().over("unit", "size")
    return table.filter((often >= 3) & (often >= 0.1 * often.max().over("unit")))


def _collective_cells(table: pl.DataFrame, resolution: float) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Hops that end together become one collective; its shortest hop against the unit's usual. The cells, the usual
    times, and how late each sender began.
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
        pl.col("unit", "size", "step").first(),
        pl.col("end").median(),
        pl.col("length").min(),
        hops=pl.col("src").n_unique(),
    )
    ops = ops.with_columns(slow=pl.col("length") / pl.col("length").median().over("unit", "size"))
    # The duration of collectives that overlap with computing depends on the slowest sender; those after it show only
    # the network.
    ops = ops.with_columns(noise=(pl.col("slow") - 1.0).abs().median().over("unit", "size"))
    ops = ops.filter(pl.col("noise") <= 1.5 * pl.col("noise").min().over("unit") + 0.02)
    began = table.group_by("op", "src").agg(pl.col("unit", "step").first(), pl.col("start").min(), pl.col("end").max())
    apart = (pl.col("start", "end") - pl.col("start", "end").median().over("op")).name.prefix("apart_")
    began = began.with_columns(apart, hops=pl.len().over("op")).filter(pl.col("hops") >= 2)
    # Hops end together; if a sender's ends always differ, its clock is wrong, and its starts are wrong by the same
    # amount.
    behind = pl.col("apart_start") - pl.col("apart_end").median().over("src")
    began = began.with_columns(behind=behind)
    late = began.group_by("src", "step").agg(behind=pl.col("behind").mean(), added=pl.col("behind").sum())
    alone = ops.with_columns(src=pl.lit(-1, table.schema["src"]))
    return _join_cells(ops, DP), _usual_seconds(alone), late


def _pipeline_cells(table: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Transfers along the pipeline: each relative to the usual of its pair, direction and size; and the usual times."""
    length = (pl.col("end") - pl.col("start")).clip(lower_bound=1e-6)
    table = table.with_columns(length=length)
    slow = pl.col("length") / pl.col("length").median().over("unit", "src", "size")
    return _join_cells(table.select("unit", "step", "end", slow=slow), PP), _usual_seconds(table)


def _usual_seconds(transfers: pl.DataFrame) -> pl.DataFrame:
    """The time of the faster quarter of the transfers of each unit, sender and size."""
    length = pl.col("length").cast(pl.Float64)
    return transfers.group_by("unit", "src", "size").agg(seconds=length.quantile(0.25), records=pl.len())


def _join_cells(ops: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Collectives or transfers to one row a unit and step."""
    slow = pl.col("slow").cast(pl.Float64).median()
    cells = ops.group_by("unit", "step").agg(slow=slow, first=pl.col("end").min(), last=pl.col("end").max())
    return cells.with_columns(kind=pl.lit(kind, KIND))
