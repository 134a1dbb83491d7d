"""The events of a report (docs/report.md) as the rows that pages show. Pure: no queries, no clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

#: more rows than people read; the report has all
MAX_FINDINGS = 60
#: lines of an event, earliest first
MAX_LINES = 20
#: an order of writers is drawn over at least a millisecond, the finest time that logs state
MIN_SPAN_S = 1e-3


@dataclass(frozen=True, slots=True)
class Writer:
    """The first line of one node that printed an event; ``after_s``: seconds after the first node of all, ``x``: the
    same in percent of the time to the last one.
    """

    node: str
    file: str
    line: int
    at: float
    after_s: float
    x: str


@dataclass(frozen=True, slots=True)
class FindingFacts:
    """One event of the report, limited to the columns of its row."""

    role: str
    template_id: str
    template: str
    signature: str
    count: int
    nodes: int
    of_nodes: int
    jobs_with_it: int
    healthy_jobs: int
    level: int
    example: str
    node_names: list[str]
    is_recovered: bool
    lines: list[dict[str, Any]]
    indicators: list[dict[str, Any]]
    #: of an error that spread, by time; empty where fewer than two nodes state times
    writers: list[Writer] = field(default_factory=list)

    @property
    def later_writers(self) -> int:
        """The nodes that printed it after those."""
        return max(0, self.nodes - len(self.writers))


def findings_of(report: dict[str, Any]) -> list[FindingFacts]:
    """The report's log events, ranked, at most MAX_FINDINGS."""
    logs = report.get("logs") or {}
    by_line: dict[tuple[str, int], dict[str, Any]] = {
        (row.get("file", ""), row.get("line", 0)): row for row in logs.get("indicators") or []
    }
    events = (logs.get("events") or [])[:MAX_FINDINGS]
    return [_finding_of(event, by_line) for event in events]


def _finding_of(event: dict[str, Any], indicators_by_line: dict[tuple[str, int], dict[str, Any]]) -> FindingFacts:
    lines = sorted(event.get("lines") or [], key=_written_at)[:MAX_LINES]
    indicators = [indicators_by_line.get((line.get("file", ""), line.get("line", 0))) for line in lines]
    level = event.get("level") or 0
    return FindingFacts(
        role=(event.get("role") or "")[:14],
        template_id=str(event.get("id") or "")[:64],
        template=event.get("template") or "",
        signature=(event.get("signature") or "")[:120],
        count=event.get("count") or 0,
        nodes=event.get("nodes") or 0,
        of_nodes=event.get("of_nodes") or 0,
        jobs_with_it=event.get("jobs_with_it") or 0,
        healthy_jobs=event.get("healthy_jobs") or 0,
        level=0 if isinstance(level, str) else int(level),
        example=event.get("example") or "",
        node_names=(event.get("node_names") or [])[:50],
        is_recovered=bool(event.get("recovered")),
        lines=lines,
        indicators=[{"text": row["text"], "parameters": row.get("parameters") or {}} for row in indicators if row],
        writers=_writers(event.get("writers") or []),
    )


def _written_at(line: dict[str, Any]) -> float:
    """When a line was written; lines without a time come last."""
    at = line.get("time")
    return math.inf if at is None else float(at)


def _writers(rows: list[dict[str, Any]]) -> list[Writer]:
    """Who printed an event first, in the order of the report."""
    if not rows:
        return []
    begin, end = float(rows[0]["time"]), float(rows[-1]["time"])
    span_s = max(end - begin, MIN_SPAN_S)
    return [
        Writer(
            node=str(row["node"]),
            file=str(row["file"]),
            line=int(row["line"]),
            at=float(row["time"]),
            after_s=float(row["time"]) - begin,
            x=f"{100 * (float(row['time']) - begin) / span_s:.1f}",
        )
        for row in rows
    ]


def key_of(findings: Sequence[FindingFacts], accused: Sequence[str]) -> FindingFacts | None:
    """The most informative event: the first root, else what the ``accused`` alone wrote, else the
    first symptom that is not teardown.
    """
    telling = [row for row in findings if row.role != "teardown"]
    first = next(iter(telling), None)
    if first is None or first.role == "root":
        return first
    return next((row for row in telling if _is_of(row, accused)), first)


def note_of(key: FindingFacts | None, accused: Sequence[str]) -> str:
    """What the ``key`` event is if it does not name the cause."""
    if key is None or key.role == "root":
        return ""
    if _is_of(key, accused):
        return f"No line names the cause; this is what {', '.join(key.node_names[:3])} wrote."
    return "No line names the cause; this is the first sign of it."


def _is_of(row: FindingFacts, accused: Sequence[str]) -> bool:
    writers = set(row.node_names)
    are_all_named = 0 < row.nodes == len(writers)
    return are_all_named and writers <= set(accused)
