"""The checks of ``checks.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """A possible outcome of a check. ``ratio``: its likelihood ratio for a faulty machine against a healthy one;
    ``categories``: the same for categories by the beginning of their id; ``adds``: the leaf to add if no alternative
    begins so. ``pattern`` None: its output is not recognised, a person reports it.
    """

    id: str
    says: str
    ratio: float
    pattern: re.Pattern[str] | None = None
    categories: Mapping[str, float] = field(default_factory=dict)
    adds: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One check. ``about``: beginnings of the categories it decides on; ``conditions``: empty for any; ``needs``: the
    fact that is needed to name its target (node, rank or other, a second suspect). ``link_command``, ``link_cost``: the
    same for a switch or the link between two; empty: the check says nothing about those.
    """

    id: str
    title: str
    command: str
    cost: str
    cost_s: float
    needs: str
    about: tuple[str, ...]
    conditions: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    sign: re.Pattern[str] | None = None
    examples: Mapping[str, str] = field(default_factory=dict)
    counter: str = ""
    link_command: str = ""
    link_cost: str = ""


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
