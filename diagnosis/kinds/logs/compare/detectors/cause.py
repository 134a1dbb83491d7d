"""The nodes that print the root events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.compare.clues import Clue

THRESHOLDS: Final = thresholds.of("cause")
LIMITS: Final = thresholds.limits("cause")

id: Final = "cause"
why: Final = "a fault is printed where it happens"
needs: Final = "root events of few nodes"


def look(case: Case) -> Iterator[Clue]:
    """The heaviest root events of each node of the cause. What the source that speaks for the job says of its speed is
    no sign of that source's own machine.
    """
    roots = case.roots
    if is_of_the_job(case):
        return
    cells = case.catalogue.cells.filter(pl.col("event").is_in(list(roots.members)))
    for node in roots.nodes:
        present = set(cells.filter(pl.col("node") == node)["event"].to_list())
        present |= {e for e, names in case.named.items() if node in names and e in roots.members}
        for event in sorted(present, key=lambda e: (-roots.weights[e], e))[: LIMITS.told]:
            row = case.event(event)
            places = row["n_nodes"] or len(case.named.get(event, ()))
            only = "the only node with" if places == 1 else f"one of {places} nodes with"
            yield Clue(
                node, place_weight(row["strength"], roots.weights[event]), f"{node} is {only}: {case.in_words(row)}"
            )


def is_of_the_job(case: Case) -> bool:
    """Whether the leading event is about speed, and one source wrote it that speaks for the job: the only one that
    reports progress, or one of the machine of rank 0.
    """
    lead = case.lead
    if not lead:
        return False
    is_open = lead["signature"] is None and case.pace.slow_from is not None
    if not is_open and not (lead["category"] or "").startswith("performance."):
        return False
    written = case.catalogue.cells.filter(pl.col("event") == lead["event"]).select("source", "node").unique()
    if written.height != 1:
        return False
    source, node = written.row(0)
    reporters = set(case.progress.beats["source"].to_list())
    return reporters == {source} or (node is not None and node == case.home(0))


def place_weight(strength: str | None, weight: float = 1.0) -> float:
    """The weight of a root event's place."""
    return float(getattr(THRESHOLDS, strength or "weak") * min(1.0, THRESHOLDS.base + weight))
