"""Nodes compared with nodes: what each states of its set-up, in logs and in state reports.

A value that only a few nodes state is a finding about them. Where no value is that of most nodes,
the difference is a finding about none of them.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from diagnosis import thresholds
from diagnosis.evidence import Check, Fact, Outcome, Result

LIMITS: Final = thresholds.limits("setups")

#: Ranges of sizes of a machine in one value: spaces and lists are equal in another order.
_SPACES: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Property:
    """A row of ``setup.toml``, which explains the fields."""

    id: str
    category: str
    ratio: float
    says: str
    pattern: re.Pattern[str] | None = None
    fact: re.Pattern[str] | None = None


@cache
def properties() -> tuple[Property, ...]:
    """All properties that are compared, in order."""
    text = resources.files("diagnosis.knowledge").joinpath("setup.toml").read_text(encoding="utf-8")
    return tuple(
        Property(
            id=row["id"],
            category=row["category"],
            ratio=float(row["ratio"]),
            says=row["says"],
            pattern=re.compile(row["pattern"]) if "pattern" in row else None,
            fact=re.compile(row["fact"], re.IGNORECASE) if "fact" in row else None,
        )
        for row in tomllib.loads(text)["property"]
    )


def compare_nodes(facts: Iterable[tuple[str, Fact]]) -> list[Result]:
    """The differences between the nodes that state a property, the most telling first. ``facts``:
    each with the path of its file. O(facts × properties).
    """
    stated = _by_property(facts)
    found: list[Result] = []
    for row in properties():
        found += _differences(row, stated[row.id])
    return sorted(found, key=lambda result: -result.outcome.ratio)[: LIMITS.results]


type _StatedFact = tuple[str, Fact]


def _by_property(facts: Iterable[_StatedFact]) -> Mapping[str, dict[str, list[_StatedFact]]]:
    """The facts of each compared property, by node. Reports repeat few names many times."""
    property_of = cache(_property_of)
    stated: dict[str, dict[str, list[_StatedFact]]] = defaultdict(lambda: defaultdict(list))
    for path, fact in facts:
        known = property_of(fact.name)
        if known is not None and fact.place.name:
            stated[known.id][fact.place.name].append((path, fact))
    return stated


def _property_of(name: str) -> Property | None:
    """The property that a fact states: by its id, or by the name that reports give it."""
    for row in properties():
        if row.id == name or (row.fact is not None and row.fact.fullmatch(name)):
            return row
    return None


def _differences(row: Property, facts: Mapping[str, list[tuple[str, Fact]]]) -> Iterator[Result]:
    values = {node: _value(own) for node, own in sorted(facts.items())}
    if len(set(values.values())) < 2:
        return
    common, votes = Counter(values.values()).most_common(1)[0]
    odd = [node for node, value in values.items() if value != common]
    has_usual = votes > len(values) / 2
    if not has_usual:
        told = "; ".join(f"{node}: {value}" for node, value in list(values.items())[: LIMITS.shown])
        yield _result(row, facts[odd[0]][0], "", told)
        return
    for node in odd[: LIMITS.shown]:
        told = f"{row.id} {values[node]}; {votes} of {len(values)} nodes: {common}"
        yield _result(row, facts[node][0], node, told)


def _value(facts: Iterable[tuple[str, Fact]]) -> str:
    """What one node states, in one order."""
    each = sorted({_SPACES.sub(" ", fact.value).strip() for _, fact in facts})
    return ", ".join(each[: LIMITS.values])


def _result(row: Property, stated: tuple[str, Fact], node: str, words: str) -> Result:
    says = row.says if node else f"the nodes differ in their {row.id}"
    outcome = Outcome(f"setup-{row.id}", says, row.ratio, categories={row.category: row.ratio}, adds=row.category)
    check = Check("setup", "Set-up of the nodes", "", "", 0.0, "node", (), (), (outcome,))
    path, fact = stated
    return Result(check, outcome, path, fact.line, words[: LIMITS.chars], node)
