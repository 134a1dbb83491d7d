"""A job's timeline as a picture: nodes × time, coloured by stage, with error marks. Decimated here, not in the browser.

The answer has at most ``rows`` × COLUMNS cells whatever the number of nodes and days; cost is linear in segments,
marks and cells.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from triage.selectors.incident import log_url

COLUMNS = 480
MAX_ROWS = 256
MAX_MARKS = 1500
STAGES = (
    *("silent", "launch", "rendezvous", "model_build", "checkpoint_load"),
    *("training", "evaluation", "checkpoint_save", "shutdown"),
)
_NUMBER = {name: n for n, name in enumerate(STAGES)}
_ROLE_ORDER = {"root": 0, "cascade": 1, "confirmation": 2, "teardown": 3}
Lane = dict[str, Any]


def timeline_figure(
    timeline: dict[str, Any],
    *,
    slug: str,
    attempt: int,
    t0: float | None = None,
    t1: float | None = None,
    rows: int = MAX_ROWS,
) -> dict[str, Any] | None:
    """What the chart draws between ``t0`` and ``t1`` (seconds since the epoch); None where there is nothing to draw.

    Lanes with root marks come first and alone; where there are more lanes than rows the others share rows.
    """
    lanes: list[Lane] = timeline.get("lanes") or []
    begin, end = timeline.get("t0"), timeline.get("t1")
    if not lanes or begin is None or end is None:
        return None
    first = max(begin, t0) if t0 is not None else begin
    last = min(end, t1) if t1 is not None else end
    if last <= first:
        first, last = begin, max(end, begin + 1)
    groups = _groups(lanes, max(4, min(rows, MAX_ROWS)))
    edges = np.linspace(first, last, COLUMNS + 1)
    grid = np.full((len(groups), COLUMNS), -1, dtype=np.int8)
    for row, (_, members) in enumerate(groups):
        for lane in members:
            _paint(grid[row], lane, timeline.get("stages") or [], edges, (begin, end))
    names = [name for name, _ in groups]
    return {
        "t0": first * 1000,
        "t1": last * 1000,
        "whole": [begin * 1000, end * 1000],
        "nodes": names,
        "stages": list(STAGES),
        "z": grid.tolist(),
        "marks": _marks(groups, first, last, slug, attempt),
        "iterations": _iterations(timeline, first, last),
        "lanes": len(lanes),
    }


def _groups(lanes: list[Lane], rows: int) -> list[tuple[str, list[Lane]]]:
    """Lanes as rows, the troubled first; the rest in equal shares of what is left."""

    def key(lane: Lane) -> tuple[int, str]:
        roles = [_ROLE_ORDER.get(mark.get("role", ""), 9) for mark in lane.get("marks") or []]
        return (0 if 0 in roles else 1, str(lane.get("node") or ""))

    ordered = sorted(lanes, key=key)
    if len(ordered) <= rows:
        return [(str(lane.get("node") or "?"), [lane]) for lane in ordered]
    alone = ordered[: rows // 2]
    shares = np.array_split(np.arange(rows // 2, len(ordered)), rows - rows // 2)
    grouped = [[ordered[n] for n in share] for share in shares if len(share)]
    named = [(f"{group[0].get('node')} … ({len(group)})", group) for group in grouped]
    return [*((str(lane.get("node") or "?"), [lane]) for lane in alone), *named]


def _paint(
    row: np.ndarray[Any, Any], lane: Lane, stages: list[Lane], edges: np.ndarray[Any, Any], whole: tuple[float, float]
) -> None:
    """Colour one row by a lane's segments (else the job's stages); after its last line it is silent."""
    segments = lane.get("segments") or stages or [{"stage": "training", "t0": whole[0], "t1": whole[1]}]
    quiet_from = lane.get("last_line_at")
    for segment in segments:
        start, stop = segment.get("t0"), segment.get("t1")
        if start is None or stop is None:
            continue
        a = int(np.searchsorted(edges, start, side="right")) - 1
        b = int(np.searchsorted(edges, stop, side="left"))
        row[max(a, 0) : max(b, 0)] = _NUMBER.get(segment.get("stage", ""), _NUMBER["training"])
    if quiet_from is not None and quiet_from < whole[1]:
        row[max(int(np.searchsorted(edges, quiet_from, side="left")), 0) :] = 0


def _marks(
    groups: list[tuple[str, list[Lane]]], first: float, last: float, slug: str, attempt: int
) -> list[dict[str, Any]]:
    """Error marks in the range, the roots kept first when there are too many."""
    found = [
        (_ROLE_ORDER.get(mark.get("role", ""), 9), n, mark)
        for n, (_, members) in enumerate(groups)
        for lane in members
        for mark in lane.get("marks") or []
        if mark.get("t") is not None and first <= mark["t"] <= last
    ]
    found.sort(key=lambda item: item[0])
    return [
        {
            "t": mark["t"] * 1000,
            "row": n,
            "role": mark.get("role", ""),
            "text": str(mark.get("text") or mark.get("event") or "")[:160],
            "url": log_url(slug, attempt, mark["file"], mark.get("line")) if mark.get("file") else "",
        }
        for _, n, mark in found[:MAX_MARKS]
    ]


def _iterations(timeline: dict[str, Any], first: float, last: float) -> dict[str, list[Any]]:
    """Seconds an iteration over time, thinned to COLUMNS points that keep the slowest of each bin."""
    rows = [row for row in timeline.get("iterations") or [] if row.get("t") is not None and first <= row["t"] <= last]
    kept: Iterable[dict[str, Any]] = rows
    if len(rows) > COLUMNS:
        bins = np.array_split(np.arange(len(rows)), COLUMNS)
        kept = [max((rows[n] for n in part), key=lambda row: row.get("seconds") or 0) for part in bins]
    chosen = list(kept)
    return {
        "t": [row["t"] * 1000 for row in chosen],
        "n": [row.get("n") for row in chosen],
        "seconds": [row.get("seconds") for row in chosen],
    }
