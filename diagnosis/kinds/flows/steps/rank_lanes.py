"""Every rank's phases in every step as a table, and the same folded to lanes.

The tables (Parquet, one row a rank and step, or lane and step) are for pages: 1,024 ranks × 2,000 steps are two million
rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.kinds.flows.capture.capture import Capture, Flows, Ints, pair_key
from diagnosis.kinds.flows.capture.packing import packable
from diagnosis.kinds.flows.capture.partitions import partition, run_parts
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.pairs import DP, EP, PP, Pairs
from diagnosis.kinds.flows.steps.step_work import whole_steps
from diagnosis.kinds.flows.steps.steps import Steps

#: Rows of a view.
MAX_LANES = 256
_KINDS = (PP, DP, EP)


@packable
@dataclass(frozen=True, slots=True)
class Ranks:
    """Of each address its place in the order of names, and its lane."""

    place: npt.NDArray[np.int64]
    lane: npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class LaneRows:
    """The rows of the table of one job, some whole steps at a time, and its ``members`` with their lanes."""

    found: Iterator[tuple[pl.DataFrame, pl.DataFrame]]
    members: pl.DataFrame
    rank: pl.Series
    node: pl.Series


def begin_rows(job: JobFlows, pairs: Pairs, steps: Steps, capture: Capture) -> LaneRows:
    """Begins the rows of one job, for :func:`write_table`: whoever does a part makes those of whole
    steps. O(n log n) in records.
    """
    names, places = capture.names, capture.places
    inside = slice(*np.searchsorted(job.flows.start, steps.edges[[0, -1]]).tolist())
    seen = job.flows.take(inside).different("src", len(names))
    rank = pl.Series("rank", names, pl.String)
    node = pl.Series("node", [places[m].node if m in places else "" for m in range(len(names))], pl.String)
    members = pl.DataFrame([rank, node])[seen]
    members = members.with_columns(lane=lanes_of(members["rank"], members["node"]))
    ranks = Ranks(np.argsort(np.argsort(np.array(names))), np.zeros(len(names), np.uint16))
    ranks.lane[seen] = members["lane"].to_numpy()
    kind_of = np.array([_KINDS.index(t) if t in _KINDS else -1 for t in pairs.type], np.int8)
    keys = pairs.a * len(names) + pairs.b
    more = steps, keys, kind_of, ranks, capture.t0
    found = run_parts(job.flows.disk, _phases, [(part, *more) for part in whole_steps(job.flows, steps)])
    return LaneRows(found, members, rank, node)


def write_table(rows: LaneRows, path: Path) -> Path:
    """Writes a row a rank and step of one job, sorted by step and rank, and a second table for wide views
    (:func:`fold_lanes`); returns the first one's path.

    Columns step (from 1), start, end, for PP, DP and EP first start, last end and busy seconds, rank (address), node
    and the rank's ``lane``. Times are epoch seconds; null if a rank had no such traffic in the step. A rank counts as
    busy while it sends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    found = list(rows.found)
    table = pl.concat([part for part, _ in found])
    named = rows.rank.gather(table["member"]), rows.node.gather(table["member"])
    table = table.with_columns(*named).drop("member")
    table.write_parquet(path, compression="lz4", row_group_size=65_536)
    folded = pl.concat([part for _, part in found])
    names = dict(_names(rows.members).iter_rows())
    name = pl.col("lane").replace_strict(names, return_dtype=pl.Categorical)
    folded.with_columns(name=name).write_parquet(lanes_path(path), compression="lz4", row_group_size=65_536)
    return path


@partition
def _phases(
    part: Flows, steps: Steps, keys: Ints, kind_of: npt.NDArray[np.int8], ranks: Ranks, t0: float
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of whole steps, with ``member`` for rank and node, and the same folded; ``kind_of``: the kind of each
    pair of ``keys``, ``t0``: the epoch seconds of time zero.
    """
    wanted = []
    for kind in _KINDS:
        of_kind = pl.col("kind") == _KINDS.index(kind)
        wanted += [
            (pl.col("start").filter(of_kind).min() + t0).alias(f"{kind.lower()}_start"),
            (pl.col("end").filter(of_kind).max() + t0).alias(f"{kind.lower()}_end"),
            (pl.col("end") - pl.col("start")).filter(of_kind).sum().alias(f"{kind.lower()}_busy_s"),
        ]
    kinds = kind_of[np.searchsorted(keys, pair_key(part, len(ranks.lane)))]
    table = pl.DataFrame(
        {"member": part.src, "kind": kinds, "step": steps.of(part.start), "start": part.start, "end": part.end}
    )
    rows = table.group_by("member", "step").agg(wanted)
    member, step = rows["member"].to_numpy(), rows["step"].to_numpy()
    order = np.lexsort((ranks.place[member], step))
    rows = rows.with_columns(
        step=pl.col("step") + 1,
        start=pl.Series(steps.start[step] + t0),
        end=pl.Series(steps.end[step] + t0),
        lane=pl.Series(ranks.lane[member]),
    )[order]
    return rows, fold_lanes(rows)


def fold_lanes(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a lane and step of whole steps, with shares and lateness."""
    length = (pl.col("end") - pl.col("start")).clip(lower_bound=1e-9)
    late = (pl.col("dp_start") - pl.col("dp_start").median().over("step")) / length
    folded = (
        rows.with_columns(late=late)
        .group_by("lane", "step")
        .agg(
            pl.col("start", "end").first(),
            pp=(pl.col("pp_busy_s") / length).mean().cast(pl.Float32),
            dp=(pl.col("dp_busy_s") / length).mean().cast(pl.Float32),
            late=pl.col("late").max().cast(pl.Float32),
        )
    )
    return folded.sort("step", "lane")


def lanes_path(table: Path) -> Path:
    """The file beside a table that holds it folded to lanes."""
    return table.with_suffix(".lanes.parquet")


def lanes_of(rank: pl.Series, node: pl.Series) -> pl.Series:
    """The lane of each row: one a rank; one a machine, or a few neighbours, of more than ``MAX_LANES`` ranks."""
    key = rank
    if rank.n_unique() > MAX_LANES and bool((node != "").all()) and node.n_unique() <= MAX_LANES:
        key = node
    distinct = key.unique().sort()
    number = key.replace_strict(distinct, pl.Series(range(len(distinct))), return_dtype=pl.UInt16)
    return (number // -(-len(distinct) // MAX_LANES)).alias("lane")


def _names(members: pl.DataFrame) -> pl.DataFrame:
    """The name of each lane: its rank, its machine, or its first rank and the number of others."""
    named = members.group_by("lane").agg(
        first=pl.col("rank").min(),
        count=pl.col("rank").n_unique(),
        node=pl.col("node").first(),
        nodes=pl.col("node").n_unique(),
    )
    label = (
        pl.when(pl.col("count") == 1)
        .then(pl.col("first"))
        .when((pl.col("node") != "") & (pl.col("nodes") == 1))
        .then(pl.col("node"))
        .otherwise(pl.format("{} and {} more", "first", pl.col("count") - 1))
    )
    return named.select("lane", name=label).sort("lane")
