"""What the end of a job tells of its nodes: who ended first, who never did, who says nothing of it."""

from __future__ import annotations

import polars as pl

from diagnosis.logs.diagnose import Case
from diagnosis.logs.spatial import Clue
from diagnosis.model import Role


def teardown_order(case: Case) -> list[Clue]:
    """The node whose launcher gave up first, clearly before the others, and the only one whose launcher never did."""
    rows = case.catalogue.events.filter((pl.col("role") == Role.TEARDOWN.value) & ~pl.col("is_ordinary"))[
        "event"
    ].to_list()
    ends = (
        case.catalogue.cells.filter(pl.col("event").is_in(rows))
        .drop_nulls("node")
        .group_by("node")
        .agg(at=pl.col("first_at").min())
        .sort("at", "node")
    )
    total = len(case.catalogue.nodes)
    clues = []
    missing = sorted(set(case.catalogue.nodes) - set(ends["node"].to_list()))
    if total >= 4 and 0 < len(missing) <= max(1, int(0.15 * total)):
        clues += [
            Clue(n, 0.55, f"the launcher on {n} did not end its workers as those of {total - len(missing)} nodes did")
            for n in missing
        ]
    timed = ends.drop_nulls("at")
    if timed.height >= 3 and not missing:
        first, second = int(timed["at"][0]), int(timed["at"][1])
        gap = (second - first) / 1e9
        if gap >= 0.3:
            clues.append(
                Clue(
                    timed["node"][0],
                    min(0.55, 0.3 + 0.1 * gap),
                    f"{timed['node'][0]} was torn down first, {gap:.1f} s before the next node",
                )
            )
    return clues


def quiet(case: Case) -> list[Clue]:
    """The few nodes that print neither of what nearly all others do at the end: the consequences, and the end of their
    workers. A worker that is stuck is ended like the others; a machine that is gone says nothing.
    """
    total = len(case.catalogue.nodes)
    wide = case.catalogue.events.filter(
        pl.col("role").is_in([Role.CASCADE.value, Role.TEARDOWN.value])
        & ~pl.col("is_ordinary")
        & ~pl.col("event").is_in(sorted(case.survived))
        & (pl.col("n_nodes") >= 0.7 * total)
    )
    if total < 4 or wide["role"].n_unique() < 2:
        return []
    there = set(
        case.catalogue.cells.filter(pl.col("event").is_in(wide["event"].implode()))["node"]
        .drop_nulls()
        .unique()
        .to_list()
    )
    gone = sorted(set(case.catalogue.nodes) - there)
    if not 0 < len(gone) <= max(1, int(0.15 * total)):
        return []
    return [
        Clue(n, 0.4, f"{n} printed nothing at the end, neither consequences nor the end of its workers") for n in gone
    ]
