"""Literals that every match of a regular expression must contain.

They are the prefilter: one multi-string search over all messages leaves few pairs of rule and message for the regular
expressions, each of which takes milliseconds to compile. The idea is that of indexed regular expression search (R. Cox,
"Regular Expression Matching with a Trigram Index").
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import cache
from importlib import resources

MIN_LENGTH = 3
#: maximum number of sets of one way, the best ones: more cost more in the search than they save
MOST_SETS = 3
_CLASS_ESCAPES = frozenset("dDwWsS")
# Literal characters are most of a pattern: they are read in one step.
_PLAIN = re.compile(r"[^\\()\[\]|.^$*+?{}]+(?![*+?{])")
#: The strings of a text that a pattern matches in one way: at least one of each set.
type Way = frozenset[frozenset[str]]

_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}


@dataclass(slots=True)
class _Part:
    """A piece of a pattern: ``exact`` if it matches only one string, and the ways in which it can match."""

    exact: str | None
    ways: tuple[Way, ...]


_ANYTHING: tuple[Way, ...] = (frozenset(),)


def ways(pattern: str) -> tuple[Way, ...]:
    """How a text can match: it contains, in at least one of the ways, one or more lower-case strings of every set.

    A way without sets fits every text; the rule must then be tried on every message. Strings have at least
    :data:`MIN_LENGTH` characters. The pattern must be valid already. O(length) for ordinary patterns: only one
    alternation of a sequence is expanded, so that the numbers of ways are added and never multiplied.
    """
    return _Reader(pattern).alternation().ways


@cache
def stored() -> dict[str, tuple[Way, ...]]:
    """The stored ways of the rules' patterns (``describe`` writes them): computing them takes longer than reading a
    small log.
    """
    text = resources.files("diagnosis.logs.signatures").joinpath("literals.json").read_text(encoding="utf-8")
    return {
        pattern: tuple(frozenset(map(frozenset, way)) for way in found) for pattern, found in json.loads(text).items()
    }


def as_json(patterns: Iterable[str]) -> str:
    """The text for :func:`stored`: a line for each pattern."""
    rows = {pattern: sorted(sorted(map(sorted, way)) for way in ways(pattern)) for pattern in sorted(set(patterns))}
    return "{\n" + ",\n".join(f"{json.dumps(p)}: {json.dumps(row)}" for p, row in rows.items()) + "\n}\n"


def required(pattern: str) -> frozenset[str]:
    """Lower-case strings of at least :data:`MIN_LENGTH` characters of which each match of ``pattern`` contains one or
    more.

    Empty if there is no such set. The pattern must be valid already.
    """
    return _best(ways(pattern))


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def alternation(self) -> _Part:
        branches = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            branches.append(self.sequence())
        if len(branches) == 1:
            return branches[0]
        return _Part(None, _either(branch.ways for branch in branches))

    def sequence(self) -> _Part:
        found: list[tuple[Way, ...]] = []
        run, is_exact = "", True
        while (char := self.peek()) and char not in "|)":
            if plain := _PLAIN.match(self.pattern, self.at):
                run += "".join(map(str.lower, plain.group()))
                self.at = plain.end()
                continue
            part = self.atom()
            least, is_fixed = self.repetition()
            if least == 0:
                part = _Part(None, _ANYTHING)
            if part.exact is not None and is_fixed:
                run += part.exact
                continue
            # "ab+" still needs the "ab" before anything else may follow
            found.append(_only(run + (part.exact or "")))
            found.append(part.ways)
            run, is_exact = "", False
        found.append(_only(run))
        return _Part(run if is_exact else None, _all(found))

    def atom(self) -> _Part:
        char = self.take()
        if char == "(":
            return self.group()
        if char == "[":
            self.skip_class()
            return _Part(None, _ANYTHING)
        if char in "^$":
            return _Part("", _ANYTHING)
        if char == ".":
            return _Part(None, _ANYTHING)
        if char == "\\":
            return self.escape()
        return _Part(char.lower(), _only(char.lower()))

    def escape(self) -> _Part:
        char = self.take()
        if char in "bBAz<>":  # positions; a word boundary may carry its kind: \b{start}
            if self.pattern.startswith(("{start", "{end"), self.at):
                self.braces()
            return _Part("", _ANYTHING)
        if char in "pPxuU":
            if not self.braces():
                self.at += {"x": 2, "u": 4, "U": 8}.get(char, 1)
            return _Part(None, _ANYTHING)
        if char in _CLASS_ESCAPES:
            return _Part(None, _ANYTHING)
        return _Part(_CONTROL.get(char, char.lower()), _ANYTHING)

    def braces(self) -> bool:
        """Step over {…} if it comes next."""
        if self.peek() != "{":
            return False
        self.at = self.pattern.index("}", self.at) + 1
        return True

    def group(self) -> _Part:
        if self.peek() == "?":
            end = min((i for i in (self.pattern.find(c, self.at) for c in ":>)") if i >= 0), default=self.at)
            closes = self.pattern[end] == ")"
            self.at = end + 1
            if closes:  # "(?i)": flags only
                return _Part("", _ANYTHING)
        inside = self.alternation()
        self.at += 1  # the closing bracket
        return inside

    def repetition(self) -> tuple[int, bool]:
        """The minimum number of the last atom, and whether it is exactly one."""
        char = self.peek()
        least, is_fixed = 1, True
        if char and char in "*?+":
            self.at += 1
            least, is_fixed = (1 if char == "+" else 0), False
        elif char == "{":
            end = self.pattern.index("}", self.at)
            least, is_fixed = int(self.pattern[self.at + 1 : end].partition(",")[0] or 0), False
            self.at = end + 1
        if not is_fixed and self.peek() and self.peek() in "?+":
            self.at += 1
        return least, is_fixed

    def skip_class(self) -> None:
        """Step over the rest of [...], which may hold other classes and named ones."""
        if self.peek() == "^":
            self.at += 1
        if self.peek() == "]":
            self.at += 1
        while (char := self.take()) != "]":
            if char == "\\":
                self.at += 1
            elif char == "[" and self.peek() == ":":
                self.at = self.pattern.index(":]", self.at) + 2
            elif char == "[":
                self.skip_class()

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self) -> str:
        char = self.pattern[self.at]
        self.at += 1
        return char


def _only(text: str) -> tuple[Way, ...]:
    return (frozenset({frozenset({text})}),) if len(text) >= MIN_LENGTH else _ANYTHING


def _either(branches: Iterable[tuple[Way, ...]]) -> tuple[Way, ...]:
    """The ways of all branches; those that need one string only are one way together."""
    found = [way for branch in branches for way in branch]
    if not all(found):
        return _ANYTHING
    single = frozenset[str]().union(*(words for way in found if len(way) == 1 for words in way))
    several = [way for way in found if len(way) > 1]
    return (*([frozenset({single})] if single else []), *several)


def _all(parts: list[tuple[Way, ...]]) -> tuple[Way, ...]:
    """The needs of a sequence: those of each part. One part is expanded into its ways; of the others the best set that
    all their ways share counts.
    """
    forked = max((part for part in parts if len(part) > 1), key=lambda part: _worth(_best(part)), default=_ANYTHING)
    sets = {words for part in parts if part is not forked for words in (part[0] if len(part) == 1 else {_best(part)})}
    return _either([(_kept(sets | way),) for way in forked])


def _kept(sets: Set[frozenset[str]]) -> Way:
    return frozenset(sorted((words for words in sets if words), key=_worth, reverse=True)[:MOST_SETS])


def _best(found: tuple[Way, ...]) -> frozenset[str]:
    """Strings of which every text contains at least one, in each way; empty if there are none."""
    if not all(found):
        return frozenset()
    return frozenset[str]().union(*(max(way, key=_worth) for way in found))


def _worth(strings: frozenset[str]) -> tuple[int, int, list[str]]:
    """Longer is rarer; of equal length fewer strings are better, then the later ones. The empty set is worth least."""
    return (min((len(s) for s in strings), default=0), -len(strings), sorted(strings))
