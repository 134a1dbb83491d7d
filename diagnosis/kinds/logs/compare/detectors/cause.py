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


def find_clues(case: Case) -> Iterator[Clue]:
    """The heaviest root events of each node of the cause."""
    roots = case.roots
    occurrences = case.catalogue.occurrences.filter(pl.col("event").is_in(list(roots.members)))
    for node in roots.nodes:
        present = set(occurrences.filter(pl.col("node") == node)["event"].to_list())
        present |= {event for event in roots.members if node in case.named.get(event, ())}
        heaviest = sorted(present, key=lambda event: (-roots.weights[event], event))
        for event in heaviest[: LIMITS.told]:
            row = case.event(event)
            places = row.n_nodes or len(case.named.get(event, ()))
            only = "the only node with" if places == 1 else f"one of {places} nodes with"
            weight = place_weight(row.strength, roots.weights[event])
            yield Clue(node, weight, f"{node} is {only}: {case.in_words(row)}")


def place_weight(strength: str | None, weight: float) -> float:
    """The weight of a root event's place."""
    return float(getattr(THRESHOLDS, strength or "weak") * min(1.0, THRESHOLDS.base + weight))
