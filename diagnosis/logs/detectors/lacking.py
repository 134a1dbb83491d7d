"""Nodes that do not print a consequence that nearly all others print: they did not report the time-out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from diagnosis import stats
from diagnosis.logs.case import Case
from diagnosis.logs.clues import Clue

id: Final = "lacking"
why: Final = "who waits reports it, who is waited for does not"
needs: Final = "four nodes, and a consequence that nearly all print"


def look(case: Case) -> Iterator[Clue]:
    """The few nodes without each wide consequence; the more nodes, the smaller the weight of each."""
    nodes = case.catalogue.nodes
    if len(nodes) < 4:
        return
    wide = case.consequences().filter(pl.col("n_nodes") >= (1 - stats.MINORITY) * len(nodes))
    for row in wide.sort("event").iter_rows(named=True):
        have = case.nodes_of([row["event"]])
        without = sorted(set(nodes) - have)
        if stats.minority(len(without), len(nodes)):
            they = f"what {len(have)} of {len(nodes)} nodes print: {case.in_words(row)}"
            yield from (Clue(n, 0.3 / len(without) ** 0.5, f"{n} did not print {they}") for n in without)
