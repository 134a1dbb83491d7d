"""The node whom others complain about, and who complains about nobody.

Others name it by its name or address, or their lines end with the number of one of its ranks: of
all ranks, this one alone does not print them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.compare.clues import THRESHOLDS as WEIGHTS
from diagnosis.kinds.logs.compare.clues import Clue
from diagnosis.kinds.logs.meaning import roster
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.model import Role
from diagnosis.values import stats
from diagnosis.values.plain import counted

LIMITS: Final = thresholds.limits("complaints")
THRESHOLDS: Final = thresholds.of("complaints")

_WORD: Final = re.compile(r"[A-Za-z]{4,}")
_NUMBER: Final = re.compile(r"(?<![\w.:])\d{1,6}(?![\w:]|\.\d)")

id: Final = "complaints"
why: Final = "who loses a peer says which and fails too; the first that fails lost nobody"
needs: Final = "four nodes, and consequences that name the peer that was lost"


def find_clues(case: Case) -> Iterator[Clue]:
    """The few nodes that others' consequences name, and that print none themselves."""
    total = len(case.catalogue.nodes)
    events = case.consequences()["event"].to_list()
    if total < THRESHOLDS.nodes or not events:
        return
    rows = case.placed(case.table.rows(case.catalogue.masked(*events), limit=LIMITS.lines))
    texts = raw_lines.read_lines(rows, case.table.files, case.read)
    missed = list(_missed_ranks(case, rows, texts))
    yield from missed or _named_nodes(case, rows, texts)


def _named_nodes(case: Case, rows: pl.DataFrame, texts: Sequence[str]) -> Iterator[Clue]:
    """The nodes that lines of others name and that print no consequence themselves."""
    complain: dict[str, set[str]] = {}
    for node, text in zip(rows["node"], texts, strict=True):
        for named in roster.named_in(text, case.alias):
            if node is not None and named != node:
                complain.setdefault(named, set()).add(node)
    bad = case.catalogue.bad.filter(~case.is_survived)
    is_teardown = (pl.col("role") == Role.TEARDOWN).fill_null(False)
    troubled = case.nodes_of(bad.filter(~is_teardown)["event"].to_list())
    silent = sorted(set(complain) - troubled)
    if not stats.is_minority(len(silent), len(case.catalogue.nodes)):
        return
    for node in silent:
        of = len(complain[node])
        nodes = counted(of, "other node complains", "other nodes complain")
        reason = f"{nodes} about {node}, which complains about nobody"
        yield Clue(node, WEIGHTS.likely / len(silent) ** 0.5, reason)


def _missed_ranks(case: Case, rows: pl.DataFrame, texts: Sequence[str]) -> Iterator[Clue]:
    """The node of the rank that nearly all others print, while it alone does not. O(lines)."""
    wordings = dict(case.table.messages.select("masked", "text").iter_rows())
    named: dict[int, dict[int, set[int]]] = defaultdict(dict)
    writers = zip(rows["masked"], rows["rank"], strict=True)
    for (masked, rank), text in zip(writers, texts, strict=True):
        if rank is not None:
            named[masked][rank] = _numbers_of(text, wordings.get(masked, ""))
    others = len(case.node_of_rank) - 1
    for numbers_of in named.values():
        quiet = set(case.node_of_rank) - set(numbers_of)
        missed = set.intersection(*numbers_of.values()) & quiet
        if len(missed) != 1 or not stats.is_nearly_all(len(numbers_of), others):
            continue
        (rank,) = missed
        if node := case.node_of_rank[rank]:
            who = f"{len(numbers_of)} other ranks complain about rank {rank} of {node}"
            yield Clue(node, WEIGHTS.likely, f"{who}, which alone does not")


def _numbers_of(line: str, wording: str) -> set[int]:
    """The whole numbers of a line from the first word of its message on: a header stands before."""
    word = _WORD.search(wording)
    start = line.find(word[0]) if word else 0
    return {int(found[0]) for found in _NUMBER.finditer(line, max(start, 0))}
