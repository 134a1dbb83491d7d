"""The checks of ``checks.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from diagnosis.evidence.check_results import Check, Outcome
from diagnosis.knowledge.knowledge_files import table
from diagnosis.knowledge.late_patterns import late


@cache
def load() -> tuple[Check, ...]:
    """All checks, cheapest first."""
    return tuple(sorted(map(_check, table("checks", "diagnosis.kinds.checks")["check"]), key=lambda c: c.cost_s))


def _check(row: Mapping[str, Any]) -> Check:
    outcomes = tuple(
        Outcome(
            o["id"],
            o["says"],
            float(o["ratio"]),
            late(o["pattern"]) if "pattern" in o else None,
            o.get("categories", {}),
            o.get("adds", ""),
        )
        for o in row["outcome"]
    )
    return Check(
        row["id"],
        row["title"],
        row["command"],
        row["cost"],
        float(row["cost_s"]),
        row["needs"],
        tuple(row["about"]),
        tuple(row.get("conditions", ())),
        outcomes,
        late(row["sign"]) if "sign" in row else None,
        {o["id"]: o["example"] for o in row["outcome"] if "example" in o},
        row.get("counter", ""),
        row.get("link_command", ""),
        row.get("link_cost", row["cost"]),
    )
