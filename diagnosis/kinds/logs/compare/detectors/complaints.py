"""The node whom others complain about, and who complains about nobody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from diagnosis import stats, thresholds
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.compare.clues import THRESHOLDS as WEIGHTS
from diagnosis.kinds.logs.compare.clues import Clue
from diagnosis.kinds.logs.meaning import roster
from diagnosis.kinds.logs.meaning.catalogue import failure_events
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.model import Role
from diagnosis.plain import counted

LIMITS: Final = thresholds.limits("complaints")
THRESHOLDS: Final = thresholds.of("complaints")

id: Final = "complaints"
why: Final = "who loses a peer says which and fails too; the first that fails lost nobody"
needs: Final = "four nodes, and consequences that name the peer that was lost"


def find_clues(case: Case) -> Iterator[Clue]:
    """The few nodes that the consequences of others name, and that print none themselves. Reads at
    most ``LIMITS.lines`` lines.
    """
    total = len(case.catalogue.nodes)
    events = case.consequences()["event"].to_list()
    if total < THRESHOLDS.nodes or not events:
        return
    rows = case.placed(case.table.rows(case.catalogue.masked(*events), limit=LIMITS.lines))
    texts = raw_lines.read_lines(rows, case.table.files, case.read)
    complain: dict[str, set[str]] = {}
    for node, text in zip(rows["node"], texts, strict=True):
        for named in roster.named_in(text, case.alias):
            if node is not None and named != node:
                complain.setdefault(named, set()).add(node)
    bad = case.events.filter(failure_events(case.events), ~case.is_survived)
    is_teardown = (pl.col("role") == Role.TEARDOWN).fill_null(False)
    troubled = case.nodes_of(bad.filter(~is_teardown)["event"].to_list())
    silent = sorted(set(complain) - troubled)
    if not stats.is_minority(len(silent), total):
        return
    for node in silent:
        of = len(complain[node])
        nodes = counted(of, "other node complains", "other nodes complain")
        reason = f"{nodes} about {node}, which complains about nobody"
        yield Clue(node, WEIGHTS.likely / len(silent) ** 0.5, reason)
