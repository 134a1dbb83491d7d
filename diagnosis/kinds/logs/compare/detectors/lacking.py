"""Nodes that do not print what nearly all others print at the end: a consequence, or the end of their workers."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.causes.case import LOST_HOST, Case
from diagnosis.kinds.logs.compare.clues import THRESHOLDS as WEIGHTS
from diagnosis.kinds.logs.compare.clues import Clue
from diagnosis.kinds.logs.meaning.catalogue import rows_of
from diagnosis.model import Role
from diagnosis.values import stats

THRESHOLDS: Final = thresholds.of("lacking")

id: Final = "lacking"
why: Final = "who waits reports it and is ended, a stuck worker is only ended, and a lost machine writes nothing"
needs: Final = "four nodes, and lines of the end that nearly all print"


def find_clues(case: Case) -> Iterator[Clue]:
    """The few nodes without each wide consequence, and those whose launcher ended no workers. A node without any of
    both kinds is lost. The more nodes lack a consequence, the smaller the weight of each. A node that reports the
    cause as the others do is neither stuck nor lost: it may lack a consequence because it serves what they lost.
    """
    nodes = set(case.catalogue.nodes)
    if len(nodes) < THRESHOLDS.nodes:
        return
    wide = case.consequences(Role.CASCADE, Role.TEARDOWN).filter(
        pl.col("n_nodes") >= (1 - stats.MINORITY_SHARE) * len(nodes)
    )
    # both kinds of lines are needed: a job that nobody ends has stuck nodes that print neither
    gone = nodes - case.nodes_of(wide["event"].to_list()) if wide["role"].n_unique() == 2 else set()
    root_nodes = case.nodes_of(case.roots.members) if case.roots.is_wide else set()
    waits = wide.filter(pl.col("role") == Role.CASCADE).sort("event", descending=True)
    # several lines of one watchdog that the same nodes lack are one observation
    lacked = {frozenset(nodes - case.nodes_of([row.event])): row for row in rows_of(waits)}
    for without, row in lacked.items():
        what = f"did not print what {len(nodes - without)} of {len(nodes)} nodes print: {case.in_words(row)}"
        yield from _clues(without - root_nodes, len(nodes), WEIGHTS.hint, what, gone)
    ends = case.events.filter((pl.col("role") == Role.TEARDOWN) & ~pl.col("is_ordinary"))["event"]
    ended = case.nodes_of(ends.to_list())
    what = f"does not log the end of its workers; {len(ended)} other nodes do"
    yield from _clues(nodes - ended, len(nodes), WEIGHTS.likely, what, gone)


def _clues(missing: Set[str], total: int, weight: float, what: str, gone: set[str]) -> Iterator[Clue]:
    if stats.is_minority(len(missing), total):
        for node in sorted(missing):
            yield Clue(node, weight / len(missing) ** 0.5, f"{node} {what}", LOST_HOST if node in gone else "")
