"""The nodes that print the root events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.logs.case import Case
from diagnosis.logs.clues import Clue

AT: Final = thresholds.of("cause")
MOST: Final = thresholds.limits("cause")

id: Final = "cause"
why: Final = "a fault is printed where it happens"
needs: Final = "root events of few nodes"


def look(case: Case) -> Iterator[Clue]:
    """The heaviest root events of each node of the cause."""
    roots = case.roots
    cells = case.catalogue.cells.filter(pl.col("event").is_in(list(roots.members)))
    for node in roots.nodes:
        present = set(cells.filter(pl.col("node") == node)["event"].to_list())
        present |= {e for e, names in roots.named.items() if node in names and e in roots.members}
        for event in sorted(present, key=lambda e: (-roots.weights[e], e))[: MOST.told]:
            row = case.event(event)
            places = row["n_nodes"] or len(roots.named.get(event, ()))
            only = "the only node with" if places == 1 else f"one of {places} nodes with"
            yield Clue(node, place(row["strength"], roots.weights[event]), f"{node} is {only}: {case.in_words(row)}")


def place(strength: str | None, weight: float = 1.0) -> float:
    """The weight of a root event's place."""
    return float(getattr(AT, strength or "weak") * min(1.0, AT.base + weight))
