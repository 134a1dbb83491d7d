"""A job's timeline as a picture: nodes × time, coloured by stage, with error marks. Reduced here,
not in the browser.

The answer has at most ``rows`` × COLUMNS cells for any number of nodes and days. Cost is linear in
segments, marks and cells.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from diagnosis.model import STAGES
from triage.lanes import cut_stages
from triage.selectors.incident import log_url

COLUMNS = 480
MAX_ROWS = 256
MAX_MARKS = 1500
#: States of a lane besides stages: no lines, or training without steps.
SILENT, NO_PROGRESS = "silent", "no_progress"
STATES = (SILENT, *STAGES, NO_PROGRESS)
#: a missing step means something only after this many usual step times
PATIENCE = 2.0
#: a timeline that is longer than this many seconds opens where it becomes interesting: so long
#: before the failure, or as long as what comes after it
LONG_S = 1800.0
BEFORE_S = 600.0
#: the lane of logs without a node name
NAMELESS = "all logs"
_NUMBER = {name: n for n, name in enumerate(STATES)}
#: lanes that share a row show the worst of their states
_WORSE = {NO_PROGRESS: 1, SILENT: 2}
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
    pinned: Sequence[str] = (),
    moment: float | None = None,
) -> dict[str, Any] | None:
    """The data of the chart between ``t0`` and ``t1`` (seconds since the epoch); None if there is
    nothing to draw.

    The ``pinned`` nodes come first, then lanes with root marks, one per row. If there are more
    lanes than rows, the others share rows. Without ``t0`` a long timeline begins shortly before the
    ``moment`` of the failure.
    """
    begin, end = timeline.get("t0"), timeline.get("t1")
    if begin is None or end is None:
        return None
    if not timeline.get("lanes") and end <= begin:
        return None
    # logs without a node name have stages and iterations, too: one lane for all of them
    lanes: list[Lane] = timeline.get("lanes") or [{"node": NAMELESS}]
    first = max(begin, t0) if t0 is not None else _opening(begin, end, moment)
    last = min(end, t1) if t1 is not None else end
    if last <= first:
        first, last = begin, max(end, begin + 1)
    groups = _groups(lanes, max(4, min(rows, MAX_ROWS)), pinned)
    stages = timeline.get("stages") or [{"stage": "training", "t0": begin, "t1": end}]
    shown = list(itertools.chain.from_iterable(members for _, members in groups))
    ends = _ends_of_progress(timeline, shown, stages, end)
    grid = _grid([members for _, members in groups], stages, np.linspace(first, last, COLUMNS + 1), end, ends)
    names = [name for name, _ in groups]
    return {
        "t0": first * 1000,
        "t1": last * 1000,
        "whole": [begin * 1000, end * 1000],
        "nodes": names,
        "stages": list(STATES),
        "z": grid.tolist(),
        "marks": _marks(groups, first, last, slug, attempt),
        "last_steps": _last_steps(groups, ends, first, last),
        "iterations": _iterations(timeline, first, last),
        "lanes": len(lanes),
    }


def _opening(begin: float, end: float, moment: float | None) -> float:
    """Where a timeline begins at first: at its begin, if it is short or most of it is of interest."""
    if moment is None or end - begin < LONG_S:
        return begin
    first = moment - max(BEFORE_S, end - moment)
    return first if first - begin > (end - begin) / 2 else begin


def _groups(lanes: list[Lane], rows: int, pinned: Sequence[str]) -> list[tuple[str, list[Lane]]]:
    """Lanes as rows, pinned and troubled ones first. The others share the remaining rows equally."""
    places = {name: place for place, name in enumerate(pinned)}

    def key(lane: Lane) -> tuple[int, int, str]:
        roles = [_ROLE_ORDER.get(mark.get("role", ""), 9) for mark in lane.get("marks") or []]
        name = str(lane.get("node") or "")
        return places.get(name, len(places)), 0 if 0 in roles else 1, name

    ordered = sorted(lanes, key=key)
    if len(ordered) <= rows:
        return [(str(lane.get("node") or "?"), [lane]) for lane in ordered]
    alone = ordered[: rows // 2]
    shares = np.array_split(np.arange(rows // 2, len(ordered)), rows - rows // 2)
    grouped = [[ordered[n] for n in share] for share in shares if len(share)]
    named = [(f"{group[0].get('node')} … ({len(group)})", group) for group in grouped]
    return [*((str(lane.get("node") or "?"), [lane]) for lane in alone), *named]


def _ends_of_progress(
    timeline: dict[str, Any], lanes: list[Lane], stages: list[dict[str, Any]], end: float
) -> dict[int, float]:
    """When progress ended, by the ``id`` of each lane that continued training without progress.

    Uses the lane's own last step if its node prints steps, else the job's. It counts only if
    training continues for more than PATIENCE usual step times.
    """
    times = sorted(row["t"] for row in timeline.get("iterations") or [] if row.get("t") is not None)
    if not times:
        return {}
    usual = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    found = {}
    for lane in lanes:
        own = lane.get("last_progress_at")
        last = own if own is not None else times[-1]
        quiet_from = lane.get("last_line_at")
        until = end if quiet_from is None else min(end, quiet_from)
        trained = [min(row["t1"], until) for row in _segments(lane, stages) if _is_training(row) and row["t1"] > last]
        if trained and max(trained) - last > PATIENCE * usual:
            found[id(lane)] = last
    return found


def _is_training(segment: dict[str, Any]) -> bool:
    known = segment.get("t0") is not None and segment.get("t1") is not None
    return known and segment.get("stage") == "training"


def _last_steps(
    groups: list[tuple[str, list[Lane]]], ends: dict[int, float], first: float, last: float
) -> list[dict[str, Any]]:
    """A mark for each row at the earliest end of progress of its lanes."""
    found = []
    for n, (_, members) in enumerate(groups):
        known = [ends[id(lane)] for lane in members if id(lane) in ends]
        if known and first <= min(known) <= last:
            found.append({"t": min(known) * 1000, "row": n})
    return found


def _grid(
    rows: list[list[Lane]],
    stages: list[dict[str, Any]],
    edges: np.ndarray[Any, Any],
    end: float,
    stalled: dict[int, float],
) -> np.ndarray[Any, Any]:
    """The number of the state in each cell, -1 for none.

    A cell shows the lane's segment (else the job's stage), training without progress after the last
    step, silence after the last line. If lanes share a row, it shows the worst state. Segments are
    placed all at once: a search for each of a hundred thousand would take a second.
    """
    grid = np.full((len(rows), COLUMNS), -1, dtype=np.int8)
    drawn: list[dict[str, Any]] = []
    of_row = []
    for row, members in enumerate(rows):
        for lane in members:
            own = _segments(lane, stages)
            segments = [*own, *_stalls(own, stalled.get(id(lane))), *_silence(lane, end)]
            drawn += segments
            of_row += [row] * len(segments)
    begins = np.array([segment.get("t0") for segment in drawn], dtype=np.float64)
    ends = np.array([segment.get("t1") for segment in drawn], dtype=np.float64)
    stage = np.array([_NUMBER.get(segment.get("stage", ""), _NUMBER["training"]) for segment in drawn], dtype=np.int64)
    # silence and missing progress begin after the cell with the last line or step
    worse = np.array([_WORSE.get(segment.get("stage", ""), 0) for segment in drawn], dtype=np.int64)
    left = np.where(worse > 0, np.searchsorted(edges, begins, "left"), np.searchsorted(edges, begins, "right") - 1)
    right = np.searchsorted(edges, ends, "left")
    seen = ~np.isnan(begins) & ~np.isnan(ends) & (right > 0) & (left < COLUMNS)
    spots = np.column_stack((of_row, np.maximum(left, 0), right, stage))[seen]
    spots = spots[np.argsort(worse[seen], kind="stable")]
    for row, first, last, number in spots.tolist():
        grid[row, first:last] = number
    return grid


def _segments(lane: Lane, stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if "window" in lane:
        low, high = lane["window"]
        return cut_stages(stages, (low, high))
    return lane.get("segments") or stages


def _stalls(segments: list[dict[str, Any]], last: float | None) -> list[dict[str, Any]]:
    """The parts of training after the last step."""
    if last is None:
        return []
    late = [row for row in segments if _is_training(row) and row["t1"] > last]
    return [{"stage": NO_PROGRESS, "t0": max(row["t0"], last), "t1": row["t1"]} for row in late]


def _silence(lane: Lane, end: float) -> list[dict[str, Any]]:
    """The silence after a lane's last line, as a segment; empty if lines continue to the end."""
    quiet_from = lane.get("last_line_at")
    return [] if quiet_from is None or quiet_from >= end else [{"stage": SILENT, "t0": quiet_from, "t1": math.inf}]


def _marks(
    groups: list[tuple[str, list[Lane]]], first: float, last: float, slug: str, attempt: int
) -> list[dict[str, Any]]:
    """Error marks in the range. If there are too many, roots come first."""
    found = []
    for n, (_, members) in enumerate(groups):
        marks = itertools.chain.from_iterable(lane.get("marks") or [] for lane in members)
        found += [(n, mark) for mark in marks if mark.get("t") is not None and first <= mark["t"] <= last]
    found.sort(key=lambda item: _ROLE_ORDER.get(item[1].get("role", ""), 9))
    return [
        {
            "t": mark["t"] * 1000,
            "row": n,
            "role": mark.get("role", ""),
            "text": str(mark.get("text") or mark.get("event") or "")[:160],
            "url": log_url(slug, attempt, mark["file"], mark.get("line")) if mark.get("file") else "",
        }
        for n, mark in found[:MAX_MARKS]
    ]


def _mean(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The last of these iterations with the mean of the known seconds."""
    known = [row["seconds"] for row in rows if row.get("seconds") is not None]
    return {**rows[-1], "seconds": sum(known) / len(known) if known else None}


def _iterations(timeline: dict[str, Any], first: float, last: float) -> dict[str, list[Any]]:
    """Seconds per iteration over time, reduced to COLUMNS points that keep the slowest of each bin.

    Iterations with equal end times are one point with their mean: else a line would go up and down
    at one time.
    """
    rows = [row for row in timeline.get("iterations") or [] if row.get("t") is not None and first <= row["t"] <= last]
    rows = [_mean(list(group)) for _, group in groupby(rows, key=itemgetter("t"))]
    kept: Iterable[dict[str, Any]] = rows
    if len(rows) > COLUMNS:
        bins = np.array_split(np.arange(len(rows)), COLUMNS)
        kept = [max(rows[part[0] : part[-1] + 1], key=lambda row: row.get("seconds") or 0) for part in bins]
    chosen = list(kept)
    return {
        "t": [row["t"] * 1000 for row in chosen],
        "n": [row.get("n") for row in chosen],
        "seconds": [row.get("seconds") for row in chosen],
    }
