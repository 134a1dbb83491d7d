"""Clocks that disagree: files in another time zone and nodes whose clock is off, estimated from what all of them print.

A node's skew is the median, over messages that most nodes print, of how far its first line is from the median node's. A file whose times
lie outside the job's window is shifted by whole quarter hours into it: a zone, not a skew.
"""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from diagnosis.logs.events import LogTable

SECOND: Final = 1_000_000_000
QUARTER: Final = 900 * SECOND
#: A skew smaller than this is start-up jitter.
LEAST_SKEW_S: Final = 8.0
#: Share of nodes that must print a message for it to be a common beat.
COMMON: Final = 0.6


def estimate(table: LogTable) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """What to subtract from each file's times, and what to tell about it.

    Returns:
        ``file`` and ``shift`` (ns; subtract it), and one dict a finding: ``node`` or ``file``, ``skew_s``, ``kind`` (zone or skew).
    """
    zones = _zones(table)
    told: list[dict[str, Any]] = [
        {"file": table.files[f], "node": None, "kind": "zone", "skew_s": round(s / SECOND, 3)} for f, s in zones.items() if s
    ]
    shifts = dict.fromkeys(range(len(table.files)), 0) | zones
    by_node = _skews(table, shifts)
    nodes = dict(table.sources.select("file", "node").unique("file", keep="first", maintain_order=True).iter_rows())
    for file, node in sorted(nodes.items()):
        if node in by_node:
            shifts[file] += by_node[node]
    told += [{"file": None, "node": n, "kind": "skew", "skew_s": round(s / SECOND, 3)} for n, s in sorted(by_node.items())]
    frame = pl.DataFrame({"file": list(shifts), "shift": list(shifts.values())}, schema={"file": pl.UInt32, "shift": pl.Int64})
    return frame, told


def corrected(cells: pl.DataFrame, shifts: pl.DataFrame) -> pl.DataFrame:
    """``cells`` on the job's common clock."""
    joined = cells.join(shifts, on="file", how="left", maintain_order="left")
    shift = pl.col("shift").fill_null(0)
    return joined.with_columns(first_at=pl.col("first_at") - shift, last_at=pl.col("last_at") - shift).drop("shift")


def _zones(table: LogTable) -> dict[int, int]:
    """Files whose window lies wholly outside that of the bulk of lines, with the quarter hours that bring them back."""
    spans = table.spans.drop_nulls("first_at")
    if spans.height < 2:
        return {}
    bulk = spans.sort("lines", "file", descending=[True, False]).head(max(1, (spans.height + 1) // 2))
    low, high = int(bulk["first_at"].median()), int(bulk["last_at"].median())  # type: ignore[arg-type]
    slack = QUARTER // 2
    found = {}
    for file, _, first, last in spans.iter_rows():
        if last >= low - slack and first <= high + slack:
            continue
        # the starts of a job's files agree best
        shift = round((first - low) / QUARTER) * QUARTER
        if shift and abs(shift) <= 15 * 3600 * SECOND and last - shift >= low - slack and first - shift <= high + slack:
            found[file] = shift
    return found


def _skews(table: LogTable, shifts: dict[int, int]) -> dict[str, int]:
    frame = pl.DataFrame({"file": list(shifts), "shift": list(shifts.values())}, schema={"file": pl.UInt32, "shift": pl.Int64})
    firsts = (
        table.cells.drop_nulls("first_at")
        .join(table.sources.select("source", "node"), on="source")
        .drop_nulls("node")
        .join(frame, on="file")
        .group_by("node", "masked")
        .agg(at=(pl.col("first_at") - pl.col("shift")).min())
    )
    total = firsts["node"].n_unique()
    if total < 3:
        return {}
    common = firsts.with_columns(nodes=pl.len().over("masked")).filter(pl.col("nodes") >= max(3, COMMON * total))
    off = (
        common.with_columns(off=pl.col("at") - pl.col("at").median().over("masked"))
        .group_by("node")
        .agg(skew=pl.col("off").median(), beats=pl.len(), low=pl.col("off").quantile(0.25), high=pl.col("off").quantile(0.75))
        .filter(pl.col("beats") >= 3)
        .sort("node")
    )
    jitter = float((off["high"] - off["low"]).median() or 0.0)  # type: ignore[arg-type]
    limit = max(LEAST_SKEW_S * SECOND, 3 * jitter)
    return {
        node: round(skew)
        for node, skew, _, low, high in off.iter_rows()
        if abs(skew) > limit and low * high > 0
    }
