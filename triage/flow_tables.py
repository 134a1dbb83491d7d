"""What pages show of the tables that a capture left: the ranks of a window, ports, and both as CSV.

1,024 ranks × 2,000 steps are two million rows, of which a view takes the visible steps and folds
rows on the same pixel.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from diagnosis.kinds.flows.jobs.pairs import DP, EP, PP
from diagnosis.kinds.flows.steps.rank_lanes import lanes_path
from diagnosis.values.plain import csv_cell

#: The most segments of a view; more are a heat map.
MAX_SEGMENTS = 12_000
#: Ports drawn at once, the busiest first.
MAX_DRAWN = 64


def timeline_view(table: Path, t0: float, t1: float, width: int = 400) -> dict[str, Any]:
    """The data of a page for the window [t0, t1) (epoch seconds) at ``width`` pixels.

    Few steps: ``segments`` [{lane, kind, t0, t1, step}]. Many: ``heat`` = for each lane and column
    the share of time spent in PP and DP and how late the lane's gradient exchange began (0..100, -1
    unseen). More than ``MAX_LANES`` ranks are folded by machine, or by neighbours.
    """
    within = (pl.col("end") > t0) & (pl.col("start") < t1)
    lanes = pl.scan_parquet(lanes_path(table)).filter(within).collect()
    view: dict[str, Any] = {"t0": t0, "t1": t1, "lanes": [], "steps": [], "segments": [], "heat": None}
    if lanes.is_empty():
        return view
    names = lanes.select("lane", pl.col("name").cast(pl.String)).unique().sort("lane")
    steps = lanes.select("step", "start", "end").unique().sort("step")
    shown = steps.gather_every(-(-steps.height // 2000))
    number = dict(zip(names["lane"].to_list(), range(names.height), strict=True))
    view["lanes"] = names["name"].to_list()
    view["steps"] = [{"n": n, "start": s, "end": e} for n, s, e in shown.iter_rows()]
    if steps.height * names.height * 2 <= MAX_SEGMENTS:
        rows = pl.scan_parquet(table).filter(within).select(pl.exclude("rank", "node")).collect()
        view["segments"] = _segments(rows.with_columns(pl.col("lane").replace_strict(number)))
    else:
        lanes = lanes.with_columns(pl.col("lane").replace_strict(number, return_dtype=pl.Int64))
        view["heat"] = _heat(lanes, names.height, t0, t1, max(1, min(width, 2000)))
    return view


def _segments(rows: pl.DataFrame) -> list[dict[str, int | float | str]]:
    """One bar a lane, step and phase."""
    out: list[dict[str, int | float | str]] = []
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


def _heat(rows: pl.DataFrame, lanes: int, t0: float, t1: float, width: int) -> dict[str, int | list[list[int]]]:
    """Shares by lane and column; a step counts in the column of its middle, and fills the columns
    it spans.
    """
    column = (
        (((pl.col("start") + pl.col("end")) / 2 - t0) / (t1 - t0) * width).floor().cast(pl.Int32).clip(0, width - 1)
    )
    shares = rows.group_by("lane", column.alias("column")).agg(pl.col("pp", "dp").mean(), pl.col("late").max())
    out: dict[str, int | list[list[int]]] = {"columns": width}
    at = shares["lane"].to_numpy().astype(np.int64) * width + shares["column"].to_numpy()
    for name in ("pp", "dp", "late"):
        grid = np.full(lanes * width, -1, dtype=np.int16)
        value = shares[name].fill_null(0.0).fill_nan(0.0).to_numpy()
        grid[at] = np.clip(np.round(value * 100), 0, 100).astype(np.int16)
        square = grid.reshape(lanes, width)
        seen = np.where(square >= 0, np.arange(width), -1)
        carried = np.maximum.accumulate(seen, axis=1)
        filled = np.where(carried >= 0, np.take_along_axis(square, np.maximum(carried, 0), axis=1), -1)
        out[name] = filled.tolist()
    return out


def ports_view(table: Path, t0: float, t1: float) -> dict[str, list[str] | list[float] | list[list[float | None]]]:
    """The busiest ``MAX_DRAWN`` ports in [t0, t1): ``ports``, ``times`` (epoch seconds) and ``bps``
    [port][time], both directions together.
    """
    inside = pl.scan_parquet(table).filter(pl.col("time").is_between(t0, t1))
    rows = inside.select("port", "time", bps=pl.col("in_bps") + pl.col("out_bps")).collect()
    if rows.is_empty():
        return {"ports": [], "times": [], "bps": []}
    order = rows.group_by("port").agg(pl.col("bps").sum()).sort("bps", "port", descending=[True, False]).head(MAX_DRAWN)
    wide = rows.pivot("port", index="time", values="bps").sort("time")
    ports = order["port"].to_list()
    return {"ports": ports, "times": wide["time"].to_list(), "bps": [wide[p].to_list() for p in ports]}


def port_lines(table: Path, port: str) -> dict[str, list[float]]:
    """One port over time: ``times``, ``in_bps``, ``out_bps``; empty lists for an unknown port."""
    rows = pl.scan_parquet(table).filter(pl.col("port") == port).sort("time").collect()
    return {
        name: rows[column].to_list()
        for name, column in (("times", "time"), ("in_bps", "in_bps"), ("out_bps", "out_bps"))
    }


def write_ports_csv(table: Path, target: Path) -> None:
    """The whole table as CSV, without names that act (:func:`diagnosis.values.plain.csv_cell`)."""
    rows = pl.scan_parquet(table)
    names = {name: csv_cell(name) for name in rows.select(pl.col("port").unique()).collect()["port"]}
    rows.with_columns(pl.col("port").replace(names)).sink_csv(target)


def write_steps_csv(table: Path, target: Path) -> None:
    """Writes the table as CSV: one row a rank and step."""
    rows = pl.read_parquet(table).sort("step", "rank")
    first = ["step", "rank", "node", "start", "end"]
    with target.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        columns = first + [c for c in rows.columns if c not in first]
        writer.writerow(columns)
        for row in rows.select(columns).iter_rows():
            writer.writerow([round(value, 6) if isinstance(value, float) else csv_cell(value) for value in row])
