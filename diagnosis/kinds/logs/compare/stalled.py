"""Ranks that the others name as missing: stall inspectors and barriers say for whom they wait.

Horovod prints ``Missing ranks:`` and a line ``5: [names of tensors]`` for each rank; others name the
ranks in one line ("Ranks 3, 9 failed to reach the barrier").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from diagnosis import thresholds
from diagnosis.evidence import Check, Outcome, Result
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.knowledge import words
from diagnosis.values import stats

LIMITS: Final = thresholds.limits("stalled")
THRESHOLDS: Final = thresholds.of("stalled")

CATEGORY: Final = "framework.collective.timeout"
_HEADER: Final = words.pattern("watchdogs", "inspector")
_NAMED, _LISTED = (words.regex("watchdogs", what) for what in ("missing", "listed"))
_NUMBER: Final = re.compile(r"\d{1,6}")
_TITLE: Final = "Ranks that others name as missing"
_CHECK: Final = Check("stalled", _TITLE, "", "", 0.0, "node", (), (), ())


def ranks_missing(case: Case) -> tuple[Result, ...]:
    """The few ranks that messages name as missing, one result for each; of many none is the one.
    Reads at most ``LIMITS.lines`` lines.
    O(messages + lines read).
    """
    messages, is_header = case.table.messages, case.table.says(_HEADER)
    if messages.filter(is_header).is_empty():
        return ()
    is_about = is_header | case.table.says(_LISTED.pattern)
    rows = case.table.rows(messages.filter(is_about)["masked"].to_list(), limit=LIMITS.lines)
    texts = raw_lines.read_lines(rows, case.table.files, case.read, LIMITS.line_bytes)
    first: dict[int, Result] = {}
    for text, file, line in zip(texts, rows["file"], rows["line"], strict=True):
        for rank in _ranks_in(text):
            first.setdefault(rank, _result(case, rank, text, case.table.files[file], line))
    wrote = case.table.sources["rank"].drop_nulls().to_list()
    world = max((*first, *wrote, *case.node_of_rank), default=-1) + 1
    is_few = len(first) <= LIMITS.ranks or stats.is_minority(len(first), world)
    return tuple(first[rank] for rank in sorted(first))[: LIMITS.results] if is_few else ()


def _ranks_in(text: str) -> Iterator[int]:
    """The ranks that one line names as missing."""
    if listed := _LISTED.search(text):
        yield int(listed[1])
    elif named := _NAMED.search(text):
        stated = next(group for group in named.groups() if group)
        yield from (int(number) for number in _NUMBER.findall(stated))


def _result(case: Case, rank: int, text: str, path: str, line: int) -> Result:
    odds = THRESHOLDS.odds
    says = "is missing in a collective in which the others wait"
    outcome = Outcome("named-missing", says, odds, categories={CATEGORY: odds}, adds=CATEGORY)
    told = f"rank {rank}: {text.strip()[: LIMITS.chars]}"
    node = case.node_of_rank.get(rank)
    target, kind = (node, "node") if node else (f"rank {rank}", "rank")
    return Result(_CHECK, outcome, path, line, told, target, kind)
