"""The few nodes that print neither of what nearly all others do at the end: consequences, and the end of their
workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from diagnosis import stats
from diagnosis.logs.case import LOST, Case
from diagnosis.logs.clues import Clue
from diagnosis.model import Role

id: Final = "quiet"
why: Final = "a stuck worker is ended like the others, a lost machine writes nothing"
needs: Final = "four nodes, and both kinds of lines on nearly all of them"


def look(case: Case) -> Iterator[Clue]:
    """The nodes without either."""
    nodes = case.catalogue.nodes
    wide = case.consequences(Role.CASCADE, Role.TEARDOWN).filter(pl.col("n_nodes") >= (1 - stats.MINORITY) * len(nodes))
    if len(nodes) < 4 or wide["role"].n_unique() < 2:
        return
    gone = sorted(set(nodes) - case.nodes_of(wide["event"].to_list()))
    if stats.minority(len(gone), len(nodes)):
        said = "printed nothing at the end, neither consequences nor the end of its workers"
        yield from (Clue(n, 0.4, f"{n} {said}", LOST) for n in gone)
