"""The node that the cause's lines name, if another node wrote them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from diagnosis import taxonomy, thresholds
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.compare.clues import Clue
from diagnosis.kinds.logs.compare.detectors import awaited, cause, peers
from diagnosis.kinds.logs.meaning import hosts
from diagnosis.kinds.logs.read import raw_lines

LIMITS: Final = thresholds.limits("spoken")

THRESHOLDS: Final = thresholds.of("spoken")

id: Final = "spoken"
why: Final = "a monitor reports of another machine"
needs: Final = "a leading event that names one machine other than its writer, or one awaited rank"


def look(case: Case) -> Iterator[Clue]:
    """The node that the leading event names, if another node reports it. A report of several lines may name it in a
    later one. Peers of a broken connection are left out: either end may be at fault.
    """
    lead = case.lead
    if not lead:
        return
    report = [lead["event"]]
    if lead["n_nodes"] == 1 or "waits" in taxonomy.load().get(lead["category"] or "").traits:
        # what a program says in its own words before it raises belongs to its report
        kinds = {lead["signature"], None} if lead["is_exception"] else {lead["signature"]}
        same = [e for e in case.roots.members if case.event(e)["signature"] in kinds]
        report += [e for e in same if e not in report]
    for event in report:
        node = _reported_node(case, event)
        if node is not None:
            row = case.event(event)
            why = f"{node} is the node that this names: {case.in_words(row)}"
            yield Clue(node, cause.place_weight(row["strength"]), why)
            return


def _reported_node(case: Case, event: int) -> str | None:
    """The one node that most lines of an event name, if none names its own writer or several."""
    rows = case.placed(case.table.rows(case.catalogue.masked(event), limit=LIMITS.lines))
    votes: dict[str, int] = {}
    lines = raw_lines.read_lines(rows, case.table.files, case.read, LIMITS.chars)
    for number, (line, writer) in enumerate(zip(lines, rows["node"], strict=True)):
        has_header = rows.height <= THRESHOLDS.few and writer is not None and writer in line
        beside = lines[:number] + lines[number + 1 :]
        text = _message(case, line, writer, rows.row(number, named=True), beside) if has_header else line
        others = {m.group(1).split(":")[0] for m in peers.PEER.finditer(text)}
        late = awaited.awaited_node(case, [line])
        named = {late} if late else hosts.names_in(text, {k: v for k, v in case.alias.items() if k not in others})
        # a line that names its own writer, or several nodes, is about its writer
        if writer is None or len(named) != 1 or (writer in named and not late):
            return None
        votes[next(iter(named))] = votes.get(next(iter(named)), 0) + 1
    if not votes:
        return None
    best = min(votes, key=lambda n: (-votes[n], n))
    return best if votes[best] >= THRESHOLDS.agreeing * rows.height else None


def _message(case: Case, line: str, writer: str, row: dict[str, Any], others: list[str]) -> str:
    """A line after the name of its writer, if earlier lines, or the ``others`` of its message, have that name in the
    same place: a house style's header.
    """
    before = case.table.around(row["file"], max(1, row["line"] - THRESHOLDS.few), row["line"] - 1)
    before = before.filter(pl.col("source") == row["source"])
    at = [
        m.start()
        for b in (*others, *raw_lines.read_lines(before, case.table.files, case.read, LIMITS.chars))
        for m in re.finditer(re.escape(writer), b)
    ]
    ends = [
        m.end() for m in re.finditer(re.escape(writer), line) if any(abs(m.start() - a) <= THRESHOLDS.few for a in at)
    ]
    return line[max(ends, default=0) :]
