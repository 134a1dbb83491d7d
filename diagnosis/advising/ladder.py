"""The ladder of advice: ordered rules as data (``advice.toml``), and the facts that they test.

Source: ByteRobust, arXiv 2509.16293, section 4 (figure 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from diagnosis.knowledge.knowledge_files import parsed, table
from diagnosis.records.tried import ACTIONS

#: Every fact that a rule may test, with its meaning.
FACTS: Final[Mapping[str, str]] = table("advice", "diagnosis")["facts"]

#: What one of them may be; a list is of machines, switches or ranks.
type FactValue = str | float | list[str] | list[int]
#: The facts about one diagnosis, by their names.
type Facts = Mapping[str, FactValue]

#: What a rule may mean for a program that restarts jobs by itself.
RESTARTS = frozenset({"continue", "restart", "stop", "stop_if_repeated", "unknown"})


class Condition(msgspec.Struct, frozen=True):
    """One test of one fact. A list or a string counts by its length in comparisons with numbers."""

    fact: str
    test: str
    value: Any
    otherwise: str
    decide: str = ""

    def holds(self, facts: Facts) -> bool:
        actual = facts.get(self.fact)
        if self.test == "is":
            return bool(actual == self.value)
        if self.test == "in":
            return bool(actual in self.value)
        number = len(actual) if isinstance(actual, (list, tuple, str)) else float(actual or 0)
        return bool(number >= self.value if self.test == "at_least" else number < self.value)


class Rule(msgspec.Struct, frozen=True):
    """One rule of the ladder."""

    id: str
    title: str
    action: str
    when: tuple[Condition, ...]
    why: str
    next: str
    source: str
    #: what a restart controller is told: a word of :data:`RESTARTS`
    restart: str
    targets: str = ""
    checks: tuple[str, ...] = ()
    #: whether the commands of the action do what ``next`` says
    has_commands: bool = True


class Ladder(msgspec.Struct, frozen=True):
    """All rules in order, with lists of leaves, checks and commands."""

    rules: tuple[Rule, ...]
    leaves: Mapping[str, frozenset[str]]
    checks: Mapping[str, Mapping[str, str]]
    commands: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)


def _condition(row: Mapping[str, Any]) -> Condition:
    tests = [t for t in ("is", "in", "at_least", "below") if t in row]
    if len(tests) != 1 or row.get("fact") not in FACTS:
        raise ValueError(f"advice.toml: a condition needs one known fact and one test, got {dict(row)!r}")
    return Condition(row["fact"], tests[0], row[tests[0]], row["else"], row.get("decide", ""))


def parse(text: str) -> Ladder:
    """Read a ladder. :raises ValueError: names the invalid rule."""
    data = parsed(text)
    rules = []
    for row in data["rule"]:
        if row["action"] not in ACTIONS:
            raise ValueError(f"advice.toml: rule {row['id']} has unknown action {row['action']!r}")
        if row.get("restart") not in RESTARTS:
            raise ValueError(f"advice.toml: rule {row['id']} has unknown restart {row.get('restart')!r}")
        when = tuple(map(_condition, row["when"]))
        rules.append(Rule(**{**row, "when": when, "checks": tuple(row.get("checks", ()))}))
    leaves = {k: frozenset(v) for k, v in data.items() if isinstance(v, list) and k != "rule"}
    return Ladder(tuple(rules), leaves, data.get("checks", {}), data.get("commands", {}))


@cache
def load() -> Ladder:
    """The built-in ladder."""
    return parse(resources.files("diagnosis").joinpath("advice.toml").read_text(encoding="utf-8"))
