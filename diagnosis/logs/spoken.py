"""Of whom a line speaks: who writes it need not be who is meant."""

from __future__ import annotations

import re
from typing import Any, Final

import polars as pl

from diagnosis.logs import hosts, progress, roots, spatial
from diagnosis.logs.diagnose import Case

#: Lines of an event that are read.
_LINES: Final = 200
_CHARS: Final = 600
#: Up to so many lines of an event, those before each are read too.
_FEW: Final = 8
#: Share of them that must name the same node.
_AGREEING: Final = 0.8
#: Lines before a line that may show its header, and characters by which the same part of a header may be shifted.
_HEADED: Final = 8


def of_another(case: Case) -> tuple[str, int] | None:
    """The node that the leading event speaks of, where its writer is another, and the event that says so: a monitor's
    report of somebody else. A report of several lines may say it in a later one."""
    if case.roots.leader is None:
        return None
    lead = case.catalogue.events.filter(pl.col("event") == case.roots.leader).row(0, named=True)
    if lead["n_nodes"] == 1 and len(case.catalogue.nodes) > 2 and re.match(roots.COMMUNICATION, lead["category"] or ""):
        return None  # whom only one cannot reach is not the one at fault
    report = [lead["event"]]
    if lead["n_nodes"] == 1 and lead["role"] is None:
        report += [e for e in case.roots.members if e not in report]
    found = ((_spoken_of(case, event), event) for event in report)
    return next(((node, event) for node, event in found if node is not None), None)


def _spoken_of(case: Case, event: int) -> str | None:
    """The one node that most lines of an event name, if none names its own writer or several."""
    rows = case.table.rows(case.catalogue.masked(event), limit=_LINES).join(
        case.table.sources.select("source", "node"), on="source", how="left", maintain_order="left"
    )
    votes: dict[str, int] = {}
    lines = progress.read_lines(rows, case.table.files, case.read, _CHARS)
    for number, (line, writer) in enumerate(zip(lines, rows["node"], strict=True)):
        has_header = rows.height <= _FEW and writer is not None and writer in line
        text = _message(case, line, writer, rows.row(number, named=True)) if has_header else line
        peers = {m.group(1).split(":")[0] for m in spatial.PEER.finditer(text)}
        named = hosts.names_in(text, {k: v for k, v in case.alias.items() if k not in peers})
        # a line that names its own writer, or several, reports of itself
        if writer is None or len(named) != 1 or writer in named:
            return None
        votes[next(iter(named))] = votes.get(next(iter(named)), 0) + 1
    if not votes:
        return None
    best = min(votes, key=lambda n: (-votes[n], n))
    return best if votes[best] >= _AGREEING * rows.height else None


def _message(case: Case, line: str, writer: str, row: dict[str, Any]) -> str:
    """A line behind the name of its writer, where lines before it bear that name in the same place too: a house's own
    header."""
    before = case.table.around(row["file"], max(1, row["line"] - _HEADED), row["line"] - 1)
    before = before.filter(pl.col("source") == row["source"])
    at = [
        m.start()
        for b in progress.read_lines(before, case.table.files, case.read, _CHARS)
        for m in re.finditer(re.escape(writer), b)
    ]
    ends = [m.end() for m in re.finditer(re.escape(writer), line) if any(abs(m.start() - a) <= _HEADED for a in at)]
    return line[max(ends, default=0) :]
