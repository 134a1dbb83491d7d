"""Jobs that stand still: no line names a cause, and progress stopped long before the last lines."""

from __future__ import annotations

from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.causes import lifecycles
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.pace import planned_end
from diagnosis.model import Level
from diagnosis.values.extremes import least

THRESHOLDS: Final = thresholds.of("standing_still")


def stands_still(case: Case) -> bool:
    """Whether progress stopped for far longer than usual, and what was printed since then is no
    work of the job: lines that come again and again (of monitors, heartbeats, exporters) below the
    total of the steps, or the warning with which the processes leave at last.
    O(events + occurrences).
    """
    point_at = case.pace.last_at
    is_unexplained = case.ending.outcome == "unknown" and not case.has_lead
    if not is_unexplained or point_at is None:
        return False
    later = case.catalogue.occurrences.filter(pl.col("last_at") > point_at)
    levels = case.events.select("event", "level")
    said = later.join(levels, on="event", maintain_order="left")
    is_new = pl.col("first_at") > point_at
    leaving = said.filter(is_new & (pl.col("level") >= Level.WARNING))
    others = said.join(leaving, on="event", how="anti")
    if said.is_empty() or not (others["n"] >= THRESHOLDS.habit).all():
        return False
    if leaving.is_empty() or not _is_of_many(case, leaving):
        is_silent = lifecycles.is_hang(case.pace, case.last_at)
        return is_silent and planned_end.is_below_total(case.progress, case.table)
    return lifecycles.is_hang(case.pace, least(leaving["first_at"]))


def _is_of_many(case: Case, leaving: pl.DataFrame) -> bool:
    """Whether most of the processes that count steps print a warning. The last warning of one or
    two may be of its shutdown.
    """
    working = case.progress.points.select("file", "source").n_unique()
    least = max(THRESHOLDS.writers, THRESHOLDS.leaving * working)
    return bool(leaving["n"].sum() >= least)
