"""Every rank's phases in every step as a table, and pieces of it small enough to draw.

The table (Parquet, one row a rank and step) is what a page reads: 1,024 ranks × 2,000 steps are two million rows, of which a view takes
the visible steps and folds what would fall on the same pixel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from diagnosis.flows.analysed import Analysed
from diagnosis.flows.capture import Capture
from diagnosis.flows.pairs import DP, EP, PP

#: Rows and columns of a view, and the most segments it holds.
LANES = 256
SEGMENTS = 12_000


def phases(a: Analysed, capture: Capture) -> pl.DataFrame:
    """Columns rank (address), node, step (from 1), start, end, and for PP, DP and EP first start, last end and busy seconds.

    Times are epoch seconds; nulls where a rank had no such traffic in the step. A rank counts as busy while it sends.
    """
    assert a.steps is not None
    flows = a.job.flows
    index = a.pairs.index(flows, len(capture.names))
    kinds = np.array(a.pairs.type)[index]
    table = pl.DataFrame(
        {"member": flows.src, "kind": kinds, "step": a.steps.of(flows.start), "start": flows.start, "end": flows.end}
    ).filter(pl.col("step").is_between(0, len(a.steps) - 1))
    wanted = []
    for kind in (PP, DP, EP):
        of_kind = pl.col("kind") == kind
        wanted += [
            pl.col("start").filter(of_kind).min().alias(f"{kind.lower()}_start"),
            pl.col("end").filter(of_kind).max().alias(f"{kind.lower()}_end"),
            (pl.col("end") - pl.col("start")).filter(of_kind).sum().alias(f"{kind.lower()}_busy_s"),
        ]
    rows = table.group_by("member", "step").agg(wanted).sort("member", "step")
    step = rows["step"].to_numpy()
    times = [c for c in rows.columns if c.endswith(("_start", "_end"))]
    places = {m: p.node for m, p in capture.places.items()}
    return rows.with_columns(
        rank=pl.col("member").replace_strict(dict(enumerate(capture.names)), return_dtype=pl.String),
        node=pl.col("member").replace_strict(places, default="", return_dtype=pl.String),
        start=pl.Series(a.steps.start[step] + capture.t0),
        end=pl.Series(a.steps.end[step] + capture.t0),
        step=pl.col("step") + 1,
        **{c: pl.col(c) + capture.t0 for c in times},
    ).drop("member")


def write_table(a: Analysed, capture: Capture, path: Path) -> Path:
    """Writes :func:`phases` for one job; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    phases(a, capture).sort("step", "rank").write_parquet(path, compression="lz4", row_group_size=65_536)
    return path


def timeline_view(table: Path, t0: float, t1: float, width: int = 400) -> dict[str, Any]:
    """What a page draws for the window [t0, t1) (epoch seconds) at ``width`` pixels.

    Few steps: ``segments`` [{lane, kind, t0, t1, step}]. Many: ``heat`` = for each lane and column the share of time spent in PP and DP
    and how late the lane's gradient exchange began (0..100, -1 unseen). More than ``LANES`` ranks are folded by machine, or by neighbours.
    """
    rows = pl.scan_parquet(table).filter((pl.col("end") > t0) & (pl.col("start") < t1)).collect()
    if rows.is_empty():
        return {"t0": t0, "t1": t1, "lanes": [], "steps": [], "segments": [], "heat": None}
    rows = rows.with_columns(lane=_lanes(rows))
    names = rows.select("lane", "name").unique().sort("lane") if "name" in rows.columns else _names(rows)
    steps = rows.select("step", "start", "end").unique().sort("step")
    shown = steps.head(2000) if steps.height <= 2000 else steps.gather_every(steps.height // 2000 + 1)
    view: dict[str, Any] = {
        "t0": t0,
        "t1": t1,
        "lanes": names["name"].to_list(),
        "steps": [{"n": n, "start": s, "end": e} for n, s, e in shown.iter_rows()],
        "segments": [],
        "heat": None,
    }
    lanes = names.height
    if steps.height * lanes * 2 <= SEGMENTS:
        view["segments"] = _segments(rows)
    else:
        view["heat"] = _heat(rows, lanes, t0, t1, max(1, min(width, 2000)))
    return view


def _lanes(rows: pl.DataFrame) -> pl.Series:
    ranks = rows["rank"].unique().sort()
    key = rows["rank"]
    if len(ranks) > LANES and (rows["node"] != "").all() and rows["node"].n_unique() <= LANES:
        key, ranks = rows["node"], rows["node"].unique().sort()
    number = key.replace_strict(ranks, np.arange(len(ranks)), return_dtype=pl.Int32)
    fold = -(-len(ranks) // LANES)
    return (number // fold).alias("lane")


def _names(rows: pl.DataFrame) -> pl.DataFrame:
    named = rows.group_by("lane").agg(
        pl.col("rank").min().alias("first"), pl.col("rank").n_unique().alias("count"), pl.col("node").first()
    )
    label = (
        pl.when(pl.col("count") == 1)
        .then(pl.col("first"))
        .when(pl.col("node") != "")
        .then(pl.col("node"))
        .otherwise(pl.format("{} and {} more", "first", pl.col("count") - 1))
    )
    return named.select("lane", name=label).sort("lane")


def _segments(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """One bar a lane, step and phase."""
    out: list[dict[str, Any]] = []
    for kind in (PP, DP, EP):
        low = kind.lower()
        part = (
            rows.filter(pl.col(f"{low}_start").is_not_null())
            .group_by("lane", "step")
            .agg(pl.col(f"{low}_start").min().alias("a"), pl.col(f"{low}_end").max().alias("b"))
        )
        out += [
            {"lane": lane, "kind": kind, "t0": a, "t1": b, "step": n}
            for lane, n, a, b in part.sort("lane", "step").iter_rows()
        ]
    return out


def _heat(rows: pl.DataFrame, lanes: int, t0: float, t1: float, width: int) -> dict[str, Any]:
    """Shares by lane and column; a step counts in the column of its middle, and fills the columns it spans."""
    length = (pl.col("end") - pl.col("start")).clip(lower_bound=1e-9)
    column = (
        (((pl.col("start") + pl.col("end")) / 2 - t0) / (t1 - t0) * width).floor().cast(pl.Int32).clip(0, width - 1)
    )
    late = (pl.col("dp_start") - pl.col("dp_start").median().over("step")) / length
    cells = rows.group_by("lane", column.alias("column")).agg(
        pp=(pl.col("pp_busy_s") / length).mean(), dp=(pl.col("dp_busy_s") / length).mean(), late=late.max()
    )
    out: dict[str, Any] = {"columns": width}
    at = cells["lane"].to_numpy() * width + cells["column"].to_numpy()
    for name in ("pp", "dp", "late"):
        grid = np.full(lanes * width, -1, dtype=np.int16)
        value = cells[name].fill_null(0.0).fill_nan(0.0).to_numpy()
        grid[at] = np.clip(np.round(value * 100), 0, 100).astype(np.int16)
        square = grid.reshape(lanes, width)
        seen = np.where(square >= 0, np.arange(width), -1)
        carried = np.maximum.accumulate(seen, axis=1)
        filled = np.where(carried >= 0, np.take_along_axis(square, np.maximum(carried, 0), axis=1), -1)
        out[name] = filled.tolist()
    return out
