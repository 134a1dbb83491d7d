"""Data of the job page's timeline: stages, one lane a node, iterations. Its size is limited for
every job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.causes.failure_facts import stage_spans
from diagnosis.kinds.logs.pace import dating
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.model import Role
from diagnosis.records.timeline_rows import IterationRow, MarkRow, NodeLane, StageRow, Timeline

LIMITS: Final = thresholds.limits("timeline")

THRESHOLDS: Final = thresholds.of("timeline")

_SHOWN_ROLES: Final = (Role.ROOT.value, Role.CASCADE.value, Role.TEARDOWN.value, Role.CONFIRMATION.value)


def build_timeline(
    case: Case, roles: dict[int, str], ranked: list[str], odd: Sequence[tuple[int, float]] = ()
) -> Timeline:
    """``logs.timeline`` of the report; times in seconds since the epoch on the job's common clock.
    Ranked nodes get a lane first.
    O(occurrences).
    """
    spans = stage_spans(case)
    times = case.catalogue.occurrences.select(low=pl.col("first_at").min(), high=pl.col("last_at").max()).row(0)
    nodes = [*dict.fromkeys([*ranked, *case.catalogue.nodes])][: LIMITS.lanes]
    return Timeline(
        begin=_seconds(times[0]),
        end=_seconds(times[1]),
        stages=[StageRow(stage, _seconds(begin), _seconds(end)) for stage, begin, end in spans],
        lanes=_lanes(case, nodes, roles, spans),
        lanes_of=case.total,
        iterations=_iterations(case, dict(odd)),
    )


def _lanes(
    case: Case, nodes: Sequence[str], roles: dict[int, str], spans: list[tuple[str, int, int]]
) -> list[NodeLane]:
    """One lane a node, from one pass over the occurrences."""
    if not nodes:
        return []
    occurrences = dating.occurrences_with_times(case.catalogue, case.pace, roles).drop_nulls("node")
    names = dict(case.events.select("event", "template").iter_rows())
    roots = [event for event, role in roles.items() if role == Role.ROOT]
    counting = case.progress.points["masked"].unique().implode()
    steps = occurrences.filter(pl.col("masked").is_in(counting)).group_by("node")
    stepped = dict(steps.agg(pl.col("last_at").max()).iter_rows())
    ends = occurrences.group_by("node").agg(low=pl.col("first_at").min(), high=pl.col("last_at").max())
    windows = {node: (low, high) for node, low, high in ends.iter_rows()}
    marked = (
        occurrences.filter(
            pl.col("node").is_in(nodes) & pl.col("event").is_in([e for e, r in roles.items() if r in _SHOWN_ROLES])
        )
        .drop_nulls("stated_at")
        # among marks of the same time the cause comes first, and a worker's own line before a
        # launcher's copy of it
        .sort(
            *("stated_at", pl.col("event").is_in(roots).not_(), "event", pl.col("rank").is_null(), "is_stamped"),
            maintain_order=True,
        )
        .unique(["node", "event"], keep="first", maintain_order=True)
        .group_by("node", maintain_order=True)
        .head(LIMITS.marks_per_lane)
    )
    marks: dict[str, list[MarkRow]] = defaultdict(list)
    for node, event, at, file, line in marked.select("node", "event", "stated_at", "file", "first_line").iter_rows():
        path = case.table.files[file]
        marks[node].append(MarkRow(_seconds(at), roles[event], names[event], path, line))
    return [
        NodeLane(
            node=node,
            segments=_segments(*windows.get(node, (None, None)), spans),
            marks=marks[node],
            last_line_at=_seconds(windows.get(node, (None, None))[1]),
            last_progress_at=_seconds(stepped.get(node)),
        )
        for node in nodes
    ]


def _segments(low: int | None, high: int | None, spans: list[tuple[str, int, int]]) -> list[StageRow]:
    """The stages between the first and the last line of a lane."""
    if low is None or high is None:
        return []
    cut = ((stage, max(begin, low), min(end, high)) for stage, begin, end in spans)
    return [StageRow(stage, _seconds(begin), _seconds(end)) for stage, begin, end in cut if begin < end]


def smooth_points(points: pl.DataFrame) -> pl.DataFrame:
    """``points`` (``n``, ``at``, ``seconds``) with means over several seconds if stamps are coarser
    than iterations: otherwise five steps of 0.2 s would look like four of zero and one of a second.
    O(n log n).
    """
    known = points["seconds"].drop_nulls()
    if not known.len() or (known == 0).sum() < THRESHOLDS.share_of_zeros * known.len() or points["at"].null_count():
        return points
    at, number = np.maximum.accumulate(points["at"].to_numpy()), points["n"].to_numpy()
    ticks = np.diff(at)
    if not (ticks > 0).any():
        return points
    back = np.searchsorted(at, at - THRESHOLDS.ticks * ticks[ticks > 0].min(), "right") - 1
    turns = number - number[back]
    seconds = np.where((back >= 0) & (turns > 0), (at - at[back]) / SECOND / np.maximum(turns, 1), np.nan)
    return points.with_columns(seconds=pl.Series(seconds).fill_nan(None))


def _iterations(case: Case, odd: dict[int, float]) -> list[IterationRow]:
    points = smooth_points(case.pace.points)
    if points.height > LIMITS.iterations:
        # the failure is at the end: half of the points for the last tenth
        half = LIMITS.iterations // 2
        cut = points.height - half
        points = pl.concat([points.head(cut).gather_every(max(1, cut // half)), points.tail(half)])
    return [
        IterationRow(n, _seconds(at), None if s is None else round(s, 4), odd.get(n))
        for n, at, s in points.select("n", "at", "seconds").iter_rows()
    ]


def _seconds(at: int | None) -> float | None:
    return None if at is None else round(at / SECOND, 6)
