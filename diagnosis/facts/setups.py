"""Nodes compared with nodes, and a job with the last healthy one of its family: what each states of
its set-up, in logs and in state reports.

A value that only a few nodes state is a finding about them. Where no value is that of most nodes,
the difference is a finding about none of them. A value of most nodes that is worse than that of the
healthy job is a finding about the job; another value is a remark.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from statistics import median
from typing import Final, NamedTuple

import msgspec

from diagnosis import thresholds
from diagnosis.evidence import SETUP_CHECK, Check, Fact, Outcome, Result, number_of
from diagnosis.facts.majority import is_of_most
from diagnosis.knowledge.knowledge_files import records, table

LIMITS: Final = thresholds.limits("setups")

#: Nodes of which each has a value of its own: addresses and names, not one set-up.
_MIN_OWN_VALUES: Final = 3
#: Ranges of sizes of a machine in one value: spaces and lists are equal in another order.
_SPACES: Final = re.compile(r"\s+")

#: What ends a sentence, behind a value.
_STOPS: Final = ".,:"

type _StatedFact = tuple[str, Fact]


class Property(msgspec.Struct, frozen=True):
    """A row of ``setup.toml``, which explains the fields. Its patterns are compiled when a line or a
    name is compared: compiling all takes longer than reading a small log.
    """

    id: str
    category: str
    ratio: float
    says: str
    pattern: str = ""
    fact: str = ""
    worse: str = ""
    falls: bool = False
    counts: bool = False
    below: float | None = None


class Usual(NamedTuple):
    """What most nodes of a job state of one property."""

    row: Property
    value: str
    votes: int
    nodes: int


@cache
def properties() -> tuple[Property, ...]:
    """All properties that are compared, in order."""
    return records(Property, table("setup")["property"])


def stated_in(line: str) -> Iterator[tuple[str, str]]:
    """Name and value of each property that a line of a log states. O(characters × properties)."""
    for row in properties():
        if row.pattern:
            for found in re.finditer(row.pattern, line):
                yield _full_name(row, found), found["value"].rstrip(_STOPS)


def compare_nodes(facts: Iterable[_StatedFact]) -> list[Result]:
    """The differences between the nodes that state a property, the most telling first. ``facts``:
    each with the path of its file. O(facts × properties).
    """
    of_nodes = [stated for stated in facts if stated[1].place.name]
    found: list[Result] = []
    for (row, name), own in _by_property(of_nodes).items():
        found += _differences(row, name, own) if row.below is None else _far_below(row, name, own)
    return sorted(found, key=lambda result: -result.outcome.ratio)[: LIMITS.results]


def compare_files(facts: Iterable[_StatedFact]) -> list[Result]:
    """The differences between reports of which none names its machine: whether two files are of two
    machines is not known, so that they weigh half. ``facts``, cost: as of :func:`compare_nodes`.
    """
    stated = list(facts)
    if any(fact.place.name for _, fact in stated):
        return []
    found: list[Result] = []
    for (row, name), own in _by_property(stated).items():
        found += _differences_of_files(row, name, own)
    return sorted(found, key=lambda result: -result.outcome.ratio)[: LIMITS.results]


def _differences_of_files(row: Property, name: str, own: Mapping[str, list[_StatedFact]]) -> Iterator[Result]:
    values = _values(_without_counts(row), own)
    each = len(set(values.values()))
    is_setup = 1 < each < max(len(values), _MIN_OWN_VALUES)
    if row.below is None and is_setup:
        told = "; ".join(f"{path}: {value}" for path, value in list(values.items())[: LIMITS.shown])
        says = f"the files differ in their {name}"
        yield _located(_result(row, says, row.ratio / 2, told), next(iter(own.values()))[0])


def usual_setup(facts: Iterable[_StatedFact]) -> dict[str, str]:
    """The value that most nodes of a job state, by the name of the property."""
    usual = {name: _usual(_without_counts(row), own) for (row, name), own in _by_property(facts).items()}
    return {name: known.value for name, known in usual.items() if known is not None}


def compare_with_healthy(facts: Iterable[_StatedFact], healthy: Mapping[str, str], job: str) -> list[Result]:
    """Where most nodes of a job state another value than a healthy ``job`` did: a finding if it is
    worse, else a remark. ``healthy``: as :func:`usual_setup` gives it. O(facts × properties).
    """
    found: list[Result] = []
    for (row, name), own in _by_property(facts).items():
        usual, before = _usual(_without_counts(row), own), healthy.get(name)
        if usual is not None and before is not None and usual.value != before:
            result = _changed(row, name, usual, before, job)
            found.append(_located(result, next(iter(own.values()))[0]))
    return sorted(found, key=lambda result: -result.outcome.ratio)[: LIMITS.results]


def _by_property(facts: Iterable[_StatedFact]) -> Mapping[tuple[Property, str], dict[str, list[_StatedFact]]]:
    """The facts of each compared property in the order of the properties, by node, or by file where
    it names none. Reports repeat few names many times.
    """
    property_of = cache(_property_of)
    stated: dict[tuple[Property, str], dict[str, list[_StatedFact]]] = defaultdict(lambda: defaultdict(list))
    for path, fact in facts:
        known = property_of(fact.name)
        if known is not None:
            stated[known][fact.place.name or path].append((path, fact))
    order = {row: place for place, row in enumerate(properties())}
    return dict(sorted(stated.items(), key=lambda item: (order[item[0][0]], item[0][1])))


def compared_name(name: str) -> str:
    """The name under which the values of a property are compared: that of the property, else its own.

    Reports and logs name one property in several ways.
    """
    known = _property_of(name)
    return name if known is None else known[1]


def _property_of(name: str) -> tuple[Property, str] | None:
    """The property that a fact states, with its full name: its own or the reports' one."""
    for row in properties():
        if name == row.id:
            return row, name
        found = _fact_named(row, name)
        if found is not None:
            return row, _full_name(row, found)
    return None


def _fact_named(row: Property, name: str) -> re.Match[str] | None:
    """The match of a property with the name of a fact that a report states."""
    own = name.removeprefix(f"{row.id} ")
    return re.fullmatch(row.fact, own, re.IGNORECASE) if row.fact else None


def _full_name(row: Property, found: re.Match[str]) -> str:
    """The name of what a match states: ``environment variable NCCL_IB_HCA``."""
    own = found.groupdict().get("name")
    return f"{row.id} {own.replace(' ', '_')}" if own else row.id


def _values(row: Property, own: Mapping[str, list[_StatedFact]]) -> dict[str, str]:
    """What each node states."""
    return {node: _value(row, facts) for node, facts in sorted(own.items())}


def _usual(row: Property, own: Mapping[str, list[_StatedFact]]) -> Usual | None:
    """What most nodes state; None where no value is that of most."""
    values = _values(row, own)
    common, votes = Counter(values.values()).most_common(1)[0]
    return Usual(row, common, votes, len(values)) if is_of_most(votes, len(values)) else None


def _differences(row: Property, name: str, own: Mapping[str, list[_StatedFact]]) -> Iterator[Result]:
    counted = row if _names_parts(own) else _without_counts(row)
    values, usual = _values(counted, own), _usual(counted, own)
    each = len(set(values.values()))
    if each < 2 or each == len(values) >= _MIN_OWN_VALUES:
        return
    if usual is None:
        told = "; ".join(f"{node}: {value}" for node, value in list(values.items())[: LIMITS.shown])
        says = f"the nodes differ in their {name}"
        yield _located(_result(row, says, row.ratio, told), next(iter(own.values()))[0])
        return
    odd = [node for node, value in values.items() if value != usual.value]
    for node in odd[: LIMITS.shown]:
        told = f"{name} {values[node]}, but {usual.value} on {usual.votes} of {usual.nodes} nodes"
        yield _located(_result(row, row.says, row.ratio, told, node), own[node][0])


def _without_counts(row: Property) -> Property:
    return msgspec.structs.replace(row, counts=False)


def _names_parts(own: Mapping[str, list[_StatedFact]]) -> bool:
    """Whether all nodes say which part has a value. A log that names one GPU does not say that it is the only one."""
    return all(fact.part for _, fact in chain.from_iterable(own.values()))


def _far_below(row: Property, name: str, own: Mapping[str, list[_StatedFact]]) -> Iterator[Result]:
    """The nodes that measure far less than the middle one of at least three."""
    least = {node: number for node, facts in sorted(own.items()) if (number := _least(facts)) is not None}
    if len(least) < _MIN_OWN_VALUES:
        return
    usual = median(least.values())
    odd = [node for node, number in least.items() if number < (row.below or 0.0) * usual]
    for node in odd[: LIMITS.shown]:
        told = f"{name} {least[node]:g}, but {usual:g} on the middle one of {len(least)} nodes"
        yield _located(_result(row, row.says, row.ratio, told, node), own[node][0])


def _least(facts: Iterable[_StatedFact]) -> float | None:
    """The smallest number that a node states."""
    numbers = (number_of(fact.value) for _, fact in facts)
    return min((number for number in numbers if number is not None), default=None)


def _changed(row: Property, name: str, usual: Usual, before: str, job: str) -> Result:
    """The difference between most nodes of a job and a healthy one."""
    is_worse = _is_worse(row, usual.value, before)
    how = "worse" if is_worse else "other"
    says = f"all nodes have {how} {name} than the last healthy job"
    if usual.votes < usual.nodes:
        says = says.replace("all nodes", "most nodes", 1)
    told = f"{name} {usual.value}, but {before} in the healthy job {job}"
    return _result(row, says, row.ratio if is_worse else 1.0, told)


def _is_worse(row: Property, value: str, before: str) -> bool:
    """Whether a value is worse than that of a healthy job."""
    if row.worse and re.search(row.worse, value) and not re.search(row.worse, before):
        return True
    now, then = number_of(value), number_of(before)
    return row.falls and now is not None and then is not None and now < then


def _value(row: Property, facts: Iterable[_StatedFact]) -> str:
    """What one node states, in one order; of a row that counts, each value with its parts."""
    of_parts = {(fact.part, _plain(fact.value)) for _, fact in facts}
    parts = Counter(value for _, value in of_parts)
    each = sorted(parts)[: LIMITS.values]
    return ", ".join(f"{parts[value]} × {value}" for value in each) if row.counts else ", ".join(each)


def _plain(value: str) -> str:
    return _SPACES.sub(" ", value).strip()


def _result(row: Property, says: str, ratio: float, words: str, node: str = "") -> Result:
    is_finding = ratio != 1.0
    categories = {row.category: ratio} if is_finding else {}
    outcome = Outcome(f"setup-{row.id}", says, ratio, categories=categories, adds=row.category if is_finding else "")
    title = "Set-up of the nodes"
    check = Check(SETUP_CHECK, title, "", "", 0.0, "node", (), (), (outcome,), finding="setup")
    return Result(check, outcome, "", 0, words[: LIMITS.chars], node)


def _located(result: Result, stated: _StatedFact) -> Result:
    """A result with the line that states its value."""
    path, fact = stated
    return msgspec.structs.replace(result, path=path, line=fact.line)
