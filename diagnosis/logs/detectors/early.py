"""Nodes whose log ends well before those of their peers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from diagnosis import stats, thresholds
from diagnosis.logs.case import LOST, Case
from diagnosis.logs.clocks import SECOND
from diagnosis.logs.clues import Clue

AT: Final = thresholds.of("early")

id: Final = "early"
why: Final = "a lost machine falls silent before the others"
needs: Final = "times, and logs of three nodes"


def look(case: Case) -> Iterator[Clue]:
    """The few nodes that fell silent first."""
    if case.ending.outcome != "failed":
        return
    system = sorted(case.table.system_files) if case.table.trainers else []
    last = (
        case.catalogue.cells.filter(~pl.col("file").is_in(system))
        .drop_nulls(["node", "last_at"])
        .group_by("node")
        .agg(at=pl.col("last_at").max())
        .sort("at", "node")
    )
    if last.height < 3:
        return
    typical = float(last["at"].median())  # type: ignore[arg-type]
    limit = max(AT.least_s, AT.beats * (case.pace.usual_s or 0.0)) * SECOND
    first = last.filter(pl.col("at") < typical - limit)
    if stats.minority(first.height, last.height):
        # a truncated log misses its end too: silence alone is half a proof
        weight = 0.55 if case.consequence_at is not None else 0.3
        for node, at in first.iter_rows():
            yield Clue(
                node, weight, f"{node} wrote its last line {(typical - at) / SECOND:,.0f} s before its peers", LOST
            )
