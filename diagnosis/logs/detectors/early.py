"""Nodes whose log ends well before those of their peers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from diagnosis import stats, thresholds
from diagnosis.logs import phase
from diagnosis.logs.case import LOST, Case
from diagnosis.logs.clocks import SECOND
from diagnosis.logs.clues import AT as WEIGHTS
from diagnosis.logs.clues import Clue

AT: Final = thresholds.of("early")

id: Final = "early"
why: Final = "a lost machine falls silent before the others"
needs: Final = "times, and logs of three nodes"


def look(case: Case) -> Iterator[Clue]:
    """The few nodes that fell silent first, in a failed job or in one that a person stopped after a silence. Silence in
    several files at once weighs more: one file alone may have been cut.
    """
    if case.ending.outcome != "failed" and not phase.stopped_after_silence(case):
        return
    ceased = _ceased(case)
    for node, (seconds, files) in sorted(ceased.items()):
        told = f"{node} writes nothing any more, while the others go on for {seconds:,.0f} s"
        yield Clue(node, WEIGHTS.sure if files > 1 else WEIGHTS.likely, told, LOST)
    if case.ending.outcome == "failed":
        yield from (clue for clue in _first(case) if clue.node not in ceased)


def _first(case: Case) -> Iterator[Clue]:
    """The few nodes whose own log ended first; it may also have been cut, so that this is half a proof."""
    system = sorted(case.table.system_files) if case.table.trainers else []
    last = _last(case.catalogue.cells.filter(~pl.col("file").is_in(system)))
    if last.height < AT.nodes:
        return
    typical = float(last["at"].median())  # type: ignore[arg-type]
    limit = max(AT.least_s, AT.beats * (case.pace.usual_s or 0.0)) * SECOND
    first = last.filter(pl.col("at") < typical - limit)
    if stats.minority(first.height, last.height):
        weight = WEIGHTS.likely if case.consequence_at is not None else WEIGHTS.hint
        for node, at, _ in first.iter_rows():
            told = f"{node} wrote its last line {(typical - at) / SECOND:,.0f} s before its peers"
            yield Clue(node, weight, told, LOST)


def _last(cells: pl.DataFrame) -> pl.DataFrame:
    """``node``, the time ``at`` (ns) of its last line, and the number of its ``files``, in the order of time."""
    rows = cells.drop_nulls(["node", "last_at"])
    return rows.group_by("node").agg(at=pl.col("last_at").max(), files=pl.col("file").n_unique()).sort("at", "node")


def _ceased(case: Case) -> dict[str, tuple[float, int]]:
    """The few nodes that are silent in every file while the others go on with a message that each node prints
    regularly: the seconds of that silence, and the number of the node's files. O(cells).
    """
    cells = case.catalogue.cells.drop_nulls(["node", "first_at", "last_at"])
    last = _last(cells)
    if last.height < AT.nodes:
        return {}
    regular = (
        cells.group_by("masked", "node")
        .agg(n=pl.col("n").sum(), since=pl.col("first_at").min(), until=pl.col("last_at").max())
        .filter(pl.col("n") >= AT.regular)
        .with_columns(gap=(pl.col("until") - pl.col("since")) / (pl.col("n") - 1))
        .group_by("masked")
        .agg(nodes=pl.len(), gap=pl.col("gap").median(), until=pl.col("until").median())
        .filter((pl.col("nodes") >= (1 - stats.MINORITY) * last.height) & (pl.col("gap") > 0))
    )
    found: dict[str, tuple[float, int]] = {}
    for gap, until in regular.sort("masked").select("gap", "until").iter_rows():
        silent = last.filter(pl.col("at") < until - max(AT.gaps * gap, AT.least_s * SECOND))
        if stats.minority(silent.height, last.height):
            for node, at, files in silent.iter_rows():
                found[node] = max(found.get(node, (0.0, files)), ((until - at) / SECOND, files))
    return found
