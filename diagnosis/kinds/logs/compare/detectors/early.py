"""Nodes that write nothing any more while their peers go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from diagnosis import stats, thresholds
from diagnosis.kinds.logs.causes import phase
from diagnosis.kinds.logs.causes.case import LOST_HOST, Case
from diagnosis.kinds.logs.compare.clues import THRESHOLDS as WEIGHTS
from diagnosis.kinds.logs.compare.clues import Clue
from diagnosis.kinds.logs.rows.clocks import SECOND

THRESHOLDS: Final = thresholds.of("early")

id: Final = "early"
why: Final = "a lost machine falls silent before the others"
needs: Final = "times, and three nodes that print a message regularly"


def look(case: Case) -> Iterator[Clue]:
    """The few nodes that are silent in every file while the others go on with a message that each node prints
    regularly, in a failed job or in one that a person stopped after a silence. A silence that training survived is no
    loss. Silence in several files at once weighs more: one file alone may have been cut. O(cells).
    """
    if case.ending.outcome != "failed" and not phase.stopped_after_silence(case):
        return
    cells = case.catalogue.cells.drop_nulls(["node", "first_at", "last_at"])
    last = cells.group_by("node").agg(at=pl.col("last_at").max(), files=pl.col("file").n_unique()).sort("node")
    if last.height < THRESHOLDS.nodes:
        return
    regular = (
        cells.group_by("masked", "node")
        .agg(n=pl.col("n").sum(), since=pl.col("first_at").min(), until=pl.col("last_at").max())
        .filter(pl.col("n") >= THRESHOLDS.regular)
        .with_columns(gap=(pl.col("until") - pl.col("since")) / (pl.col("n") - 1))
        .group_by("masked")
        .agg(nodes=pl.len(), gap=pl.col("gap").median(), until=pl.col("until").median())
        .filter((pl.col("nodes") >= (1 - stats.MINORITY_SHARE) * last.height) & (pl.col("gap") > 0))
    )
    found: dict[str, float] = {}
    for gap, until in regular.select("gap", "until").iter_rows():
        wait = max(THRESHOLDS.gaps * gap, THRESHOLDS.least_s * SECOND)
        silent = last.filter((pl.col("at") < until - wait) & (pl.col("at") + wait > (case.pace.last_at or 0)))
        if stats.is_minority(silent.height, last.height):
            for node, at in silent.select("node", "at").iter_rows():
                found[node] = max(found.get(node, 0.0), (until - at) / SECOND)
    for node, files in last.select("node", "files").iter_rows():
        if node in found:
            text = f"{node} writes nothing any more, while the others go on for {found[node]:,.0f} s"
            yield Clue(node, WEIGHTS.sure if files > 1 else WEIGHTS.likely, text, LOST_HOST)
