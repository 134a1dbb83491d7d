"""The checks of ``checks.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from diagnosis.evidence.check_results import Check, Outcome


@cache
def load() -> tuple[Check, ...]:
    """All checks, cheapest first."""
    text = resources.files("diagnosis.kinds.checks").joinpath("checks.toml").read_text(encoding="utf-8")
    return tuple(sorted(map(_check, tomllib.loads(text)["check"]), key=lambda c: c.cost_s))


def _check(row: Mapping[str, Any]) -> Check:
    outcomes = tuple(
        Outcome(
            o["id"],
            o["says"],
            float(o["ratio"]),
            re.compile(o["pattern"]) if "pattern" in o else None,
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
        re.compile(row["sign"]) if "sign" in row else None,
        {o["id"]: o["example"] for o in row["outcome"] if "example" in o},
        row.get("counter", ""),
        row.get("link_command", ""),
        row.get("link_cost", row["cost"]),
    )
