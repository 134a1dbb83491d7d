"""What a fact of a report is judged beside: the same property of the other objects, and the other
properties of its own.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import filterfalse
from math import isnan, nan
from statistics import median
from typing import Final

from diagnosis import thresholds
from diagnosis.evidence import Fact, number_of
from diagnosis.kinds.states import bad_values
from diagnosis.knowledge.late_patterns import late

THRESHOLDS: Final = thresholds.of("peers")

#: Properties of an object that may be limits of others.
_MAX_PROPERTIES: Final = 200
_WORD: Final = late(r"[a-z]+|[0-9]+")
#: Numbers in names, also hexadecimal ones.
_NUMBERS: Final = late(r"(?i)(?<![a-z])[0-9a-f]{2,16}(?![a-z])|[0-9]+")
_FIGURES: Final = late(r"^[-+]?[0-9.,]+(?:e[-+]?[0-9]+)?")
#: Words of a property that is as it is now, beside its limit.
_NOW: Final = frozenset(
    # how it is, or is used
    {"current", "cur", "actual", "now", "measured", "used", "use", "negotiated"}
)

type _Words = frozenset[str]
#: The words of a property, its number, and its unit.
type _Limit = tuple[_Words, float, str]


#: A property, its unit, and how the objects that state it are called, without numbers.
type _Kind = tuple[str, str, str]


class Peers:
    """What the facts of one report are beside each other. O(facts)."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        #: the greatest number of each property of a machine
        self.greatest = _greatest(facts)
        #: the number of each property of each part
        self.numbers = _numbers(facts)
        #: the objects that are well
        self.well = _well(facts)
        self._values: dict[_Kind, dict[tuple[str, str], str]] = defaultdict(dict)
        self._worded: dict[tuple[str, str], list[_Limit]] = defaultdict(list)
        self._middles: dict[_Kind, float | None] = {}
        self._shares: dict[_Kind, float] = {}
        for fact in facts:
            limit = _words(fact.name.lower()), _number_of(fact.value), _unit(fact.value)
            self._values[_kind(fact)][fact.place.name, fact.part] = fact.value
            own = self._worded[fact.place.name, fact.part]
            own += [limit][: _MAX_PROPERTIES - len(own)]

    def usual(self, fact: Fact) -> float | None:
        """The middle number of a property of several objects; None if they are few."""
        kind = _kind(fact)
        if kind not in self._middles:
            numbers = list(filterfalse(isnan, map(_number_of, self._values[kind].values())))
            is_known = len(numbers) >= THRESHOLDS.objects
            self._middles[kind] = median(numbers) if is_known else None
        return self._middles[kind]

    def is_unlike(self, fact: Fact) -> bool:
        """Whether nearly all other objects are alike in a property, well or near one number, and
        this one is not.
        """
        kind, middle = _kind(fact), self.usual(fact)
        if kind not in self._shares:
            values = self._values[kind].values()
            near = sum(_is_like(value, middle) for value in values)
            self._shares[kind] = near / max(len(values), THRESHOLDS.objects)
        return self._shares[kind] >= THRESHOLDS.alike and not _is_like(fact.value, middle)

    def limit(self, fact: Fact, words: re.Pattern[str]) -> float:
        """The number of the property of the same object that is called alike, but for a word of
        limits; not a number without one.
        """
        own = _words(fact.name.lower())
        for others, number, unit in self._worded[fact.place.name, fact.part]:
            more = others - own
            is_limit = bool(more) and all(map(words.fullmatch, more))
            if is_limit and own - others <= _NOW and unit == _unit(fact.value):
                return number
        return nan


def _is_like(value: str, middle: float | None) -> bool:
    if middle is None:
        return bad_values.says_up(value)
    return bool(THRESHOLDS.near * middle <= _number_of(value) <= middle / THRESHOLDS.near)


def _number_of(value: str) -> float:
    number = number_of(value)
    return nan if number is None else number


def _kind(fact: Fact) -> _Kind:
    """Which facts are compared: of one property, words with words, and numbers of one unit of
    objects that are called alike ("gpu 3", "gpu 4").
    """
    if isnan(_number_of(fact.value)) or ": " in fact.value:
        return fact.name, "", ""
    return fact.name, _unit(fact.value), _NUMBERS.sub("", f"{fact.place.name} {fact.part}")


def _unit(value: str) -> str:
    return _FIGURES.sub("", value).strip().lower()


def _words(name: str) -> _Words:
    return frozenset(_WORD.findall(name))


def _numbers(facts: Iterable[Fact]) -> dict[tuple[str, str, str], float]:
    """The number of each property of each part of a machine, by its name in lower case; 0 for
    words.
    """
    keyed = ((fact.place.name, fact.part, fact.name.lower(), fact.value) for fact in facts)
    return {(place, part, name): number_of(value) or 0.0 for place, part, name, value in keyed}


def _greatest(facts: Iterable[Fact]) -> dict[tuple[str, str], float]:
    """The greatest number of each property of each machine."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for fact in facts:
        key = fact.place.name, fact.name
        found[key] = max(found[key], number_of(fact.value) or 0.0)
    return found


def object_of(fact: Fact) -> tuple[str, str, str]:
    """The object that states a fact: its place, its part, and the way to it."""
    return fact.place.name, fact.part, fact.name.rpartition(".")[0]


def _well(facts: Iterable[Fact]) -> set[tuple[str, str, str]]:
    """The objects that say that they are well, and nothing else of themselves."""
    told = [fact for fact in facts if bad_values.is_of_itself(fact.name)]
    ill = {object_of(fact) for fact in told if not bad_values.says_well(fact.value)}
    return {object_of(fact) for fact in told} - ill
