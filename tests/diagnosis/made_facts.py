"""Facts of a failure from a few rows, without reading any log: what each event is, on which nodes, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl

from diagnosis.kinds.logs.causes.failure_facts import FailureFacts
from diagnosis.kinds.logs.meaning import event_words
from diagnosis.kinds.logs.meaning.catalogue import Catalogue
from diagnosis.kinds.logs.pace import progress
from diagnosis.kinds.logs.pace.pacing import NONE, Pace
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.model import Level

NODES = tuple(f"n{number}" for number in range(8))
_EVENT: dict[str, Any] = {
    "example": "a line",
    "signature": None,
    "role": None,
    "strength": None,
    "category": None,
    "level": int(Level.ERROR),
    "n": 1,
    "first_at": None,
    "until_at": None,
    "is_exception": False,
    "is_system": False,
    "jobs_with_it": 0,
    "is_ordinary": False,
    "novelty": 1.0,
}
_TYPES: dict[str, Any] = {
    "event": pl.UInt32,
    "signature": pl.String,
    "role": pl.String,
    "own_role": pl.String,
    "strength": pl.String,
    "category": pl.String,
    "first_at": pl.Int64,
    "until_at": pl.Int64,
    "level": pl.UInt8,
}
_OCCURRENCE_TYPES: dict[str, Any] = {"event": pl.UInt32, "masked": pl.UInt64, "node": pl.String, "last_at": pl.Int64}


def rule(role: str, category: str | None = None, strength: str = "decisive", **more: Any) -> dict[str, Any]:
    """An event that a rule knows."""
    return {"role": role, "category": category, "strength": strength, "signature": f"a.{category}"} | more


def facts_of(*events: dict[str, Any], nodes: tuple[str, ...] = NODES, **more: Any) -> FailureFacts:
    """The facts of a job on ``nodes``. An event has the columns of the catalogue; ``at``: seconds of its first line, if
    it states a time; ``on``: its nodes; ``file``: the number of its file.
    """
    rows = [_row(number, event) for number, event in enumerate(events)]
    occurrences: list[dict[str, Any]] = []
    for number, (event, row) in enumerate(zip(events, rows, strict=True)):
        occurrence = {
            "event": number,
            "masked": number,
            "file": event.get("file", number % 2),
            "last_at": row["last_at"],
            "n": 1,
        }
        writer = {"source": occurrence["file"], "rank": None}
        lines = {"first_line": row["first_line"], "last_line": row["first_line"]} | writer
        occurrences += [occurrence | lines | {"node": node} for node in event.get("on") or (None,)]
    table = event_words.with_words(pl.DataFrame(rows, schema_overrides=_TYPES))
    of = table.select(masked=pl.col("event").cast(pl.UInt64), event="event")
    catalogue = Catalogue(
        table, of, pl.DataFrame(occurrences, schema_overrides={"event": pl.UInt32, "node": pl.String}), nodes
    )
    given: dict[str, Any] = dict.fromkeys(
        ("inventory", "hints", "read", "table", "clocks", "progress", "marks", "is_complete", "roster", "node_of_rank")
    )
    messages = table.select(masked=pl.col("event").cast(pl.UInt64), text="template", example="example")
    given |= {"pool": SimpleNamespace(jobs=[0] * 9), "pace": NONE, "survived": frozenset()}
    given |= {"table": SimpleNamespace(messages=messages), "is_complete": False, "progress": progress.NONE}
    return FailureFacts(**given | {"catalogue": catalogue} | more)


def pace(last: float, usual_s: float = 2.0, **more: Any) -> Pace:
    """The pace of a job whose last progress was printed at this second."""
    points = pl.DataFrame({"n": [1], "at": [int(last * SECOND)], "seconds": [usual_s]})
    return Pace(points, usual_s, last_at=int(last * SECOND), **more)


def _row(number: int, event: dict[str, Any]) -> dict[str, Any]:
    at = event.get("at")
    row = {**_EVENT, "template": f"message {number}", "first_line": number + 1}
    row |= {name: value for name, value in event.items() if name not in ("at", "on", "file")}
    first_at = row["first_at"] if at is None else int(at * SECOND)
    named = {"event": number, "n_nodes": len(event.get("on") or ()), "first_at": first_at, "last_at": first_at}
    return {"own_role": row["role"], "is_stamped": at is not None} | row | named
