"""Literals that every match of a regular expression must contain.

They make the prefilter: one pass of a multi-string search over all messages leaves few pairs of rule and message for
the regular expressions. The idea is that of indexed regular expression search (R. Cox, "Regular Expression Matching
with a Trigram Index").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MIN_LENGTH = 3
_CLASS_ESCAPES = frozenset("dDwWsS")
# Characters that stand for themselves, once each, are most of a pattern: they are taken in one step.
_PLAIN = re.compile(r"[^\\()\[\]|.^$*+?{}]+(?![*+?{])")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}


@dataclass(slots=True)
class _Part:
    """A piece of a pattern: ``exact`` if it stands for one string only, and the best set of required strings."""

    exact: str | None
    required: frozenset[str]


def required(pattern: str) -> frozenset[str]:
    """Lower-case strings of at least :data:`MIN_LENGTH` characters of which each match of ``pattern`` contains one or
    more.

    Empty when there is no such set; the rule must then look at every message. The pattern must be valid already.
    O(length).
    """
    return _Reader(pattern).alternation().required


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
        if not all(branch.required for branch in branches):
            return _Part(None, frozenset())
        return _Part(None, frozenset().union(*(branch.required for branch in branches)))

    def sequence(self) -> _Part:
        found: list[frozenset[str]] = []
        run, is_exact = "", True
        while (char := self.peek()) and char not in "|)":
            if plain := _PLAIN.match(self.pattern, self.at):
                run += "".join(map(str.lower, plain.group()))
                self.at = plain.end()
                continue
            part = self.atom()
            least, is_fixed = self.repetition()
            if least == 0:
                part = _Part(None, frozenset())
            if part.exact is not None and is_fixed:
                run += part.exact
                continue
            # "ab+" still needs the "ab" before anything else may follow
            found.append(_as_set(run + (part.exact or "")))
            found.append(part.required)
            run, is_exact = "", False
        found.append(_as_set(run))
        return _Part(run if is_exact else None, max(found, key=_worth))

    def atom(self) -> _Part:
        char = self.take()
        if char == "(":
            return self.group()
        if char == "[":
            self.skip_class()
            return _Part(None, frozenset())
        if char in "^$":
            return _Part("", frozenset())
        if char == ".":
            return _Part(None, frozenset())
        if char == "\\":
            return self.escape()
        return _Part(char.lower(), _as_set(char.lower()))

    def escape(self) -> _Part:
        char = self.take()
        if char in "bBAz<>":  # positions; a word boundary may carry its kind: \b{start}
            if self.pattern.startswith(("{start", "{end"), self.at):
                self.braces()
            return _Part("", frozenset())
        if char in "pPxuU":
            if not self.braces():
                self.at += {"x": 2, "u": 4, "U": 8}.get(char, 1)
            return _Part(None, frozenset())
        if char in _CLASS_ESCAPES:
            return _Part(None, frozenset())
        return _Part(_CONTROL.get(char, char.lower()), frozenset())

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
                return _Part("", frozenset())
        inside = self.alternation()
        self.at += 1  # the closing bracket
        return inside

    def repetition(self) -> tuple[int, bool]:
        """How often the last atom comes at least, and whether it comes exactly once."""
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


def _as_set(text: str) -> frozenset[str]:
    return frozenset({text}) if len(text) >= MIN_LENGTH else frozenset()


def _worth(strings: frozenset[str]) -> tuple[int, int]:
    """Longer is rarer; of equal length fewer strings are better. The empty set is worth least."""
    return (min((len(s) for s in strings), default=0), -len(strings))
