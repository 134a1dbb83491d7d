"""Literals that every match of a regular expression must contain.

They are the prefilter: one multi-string search over all messages leaves few pairs of rule and message for the regular
expressions, each of which takes milliseconds to compile. The idea is that of indexed regular expression search (R. Cox,
"Regular Expression Matching with a Trigram Index").
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from itertools import chain
from typing import Final

import msgspec

from diagnosis import thresholds

LIMITS: Final = thresholds.limits("literals")

#: maximum number of sets of one way, the best ones: more cost more in the search than they save
MAX_SETS = 3
#: A set in square brackets, which may hold named ones and, twice, other sets.
_SET = r"\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\[\]\\]|%s)*+\]"
#: The pieces of a pattern: what matches any of many characters, a position, brackets, repetitions, literal text.
_TOKEN = re.compile(
    rf"(?P<any>{_SET % (_SET % (_SET % '(?!)'))}|\.|\\[dDwWsS]"
    r"|\\[pPxuU]\{[^}]*\}|\\[pP].|\\x..|\\u.{4}|\\U.{8})"
    r"|(?P<place>[$^]|\\[bBAz<>](?:\{(?:start|end)[^}]*\})?|\(\?[^:>)]*\))"
    r"|(?P<open>\((?:\?[^:>)]*[:>])?)|(?P<bar>\|)|(?P<close>\))|(?P<times>(?:[*+?]|\{[^}]*\})[+?]?)"
    r"|(?P<text>[^\\()\[\]|.^$*+?{}]+(?![*+?{])|\\?.)",
    re.DOTALL,
)
#: The strings of a text that a pattern matches in one way: at least one of each set.
type Way = frozenset[frozenset[str]]

_CONTROL = {r"\t": "\t", r"\n": "\n", r"\r": "\r", r"\f": "\f", r"\v": "\v"}
type _Tokens = deque[tuple[str | None, str]]


class _Part(msgspec.Struct):
    """A piece of a pattern: ``exact`` if it matches only one string, and the ways in which it can match."""

    exact: str | None
    ways: tuple[Way, ...]


_ANYTHING: tuple[Way, ...] = (frozenset(),)


def ways(pattern: str) -> tuple[Way, ...]:
    """How a text can match: it contains, in at least one of the ways, one or more lower-case strings of every set.

    A way without sets fits every text; the rule must then be tried on every message. Strings have at least
    ``LIMITS.chars`` characters. The pattern must be valid already. O(length) for ordinary patterns: only one
    alternation of a sequence is expanded, so that the numbers of ways are added and never multiplied.
    """
    tokens: _Tokens = deque((found.lastgroup, found.group()) for found in _TOKEN.finditer(pattern))
    is_read = ("text", "[") not in tokens  # sets within sets within sets, and deeper
    return _alternation(tokens).ways if is_read else _ANYTHING


def _alternation(tokens: _Tokens) -> _Part:
    """The branches up to the closing bracket, which is taken."""
    branches = [_sequence(tokens)]
    while tokens and tokens.popleft()[0] == "bar":
        branches.append(_sequence(tokens))
    return branches[0] if len(branches) == 1 else _Part(None, _any_of(branch.ways for branch in branches))


def _sequence(tokens: _Tokens) -> _Part:
    found: list[tuple[Way, ...]] = []
    run, is_exact = "", True
    while tokens and tokens[0][0] not in ("bar", "close"):
        part = _atom(*tokens.popleft(), tokens)
        if tokens and tokens[0][0] == "times":
            if tokens.popleft()[1].startswith(("*", "?", "{0", "{,")):
                part = _Part(None, _ANYTHING)
        elif part.exact is not None:
            run += part.exact
            continue
        # "ab+" still needs the "ab" before anything else may follow
        found += [_only_text(run + (part.exact or "")), part.ways]
        run, is_exact = "", False
    found.append(_only_text(run))
    telling = [ways_of_part for ways_of_part in found if ways_of_part is not _ANYTHING]
    return _Part(run if is_exact else None, _all_of(telling))


def _atom(kind: str | None, text: str, tokens: _Tokens) -> _Part:
    if kind == "open":
        return _alternation(tokens)
    if kind != "text":
        return _Part("" if kind == "place" else None, _ANYTHING)
    exact = _CONTROL.get(text) or "".join(map(str.lower, text[1:] if text[0] == "\\" else text))
    return _Part(exact, _only_text(exact))


def _only_text(text: str) -> tuple[Way, ...]:
    return (frozenset({frozenset({text})}),) if len(text) >= LIMITS.chars else _ANYTHING


def _any_of(branches: Iterable[tuple[Way, ...]]) -> tuple[Way, ...]:
    """The ways of all branches; those that need one string only are one way together."""
    found = list(chain.from_iterable(branches))
    if not all(found):
        return _ANYTHING
    single = frozenset[str]().union(*chain.from_iterable(way for way in found if len(way) == 1))
    several = [way for way in found if len(way) > 1]
    return (*([frozenset({single})] if single else []), *several)


def _all_of(parts: list[tuple[Way, ...]]) -> tuple[Way, ...]:
    """The needs of a sequence: those of each part. One part is expanded into its ways; of the others the best set that
    all their ways share counts.
    """
    if len(parts) < 2:  # most sequences
        return parts[0] if parts else _ANYTHING
    forked = max((part for part in parts if len(part) > 1), key=lambda part: _worth(_best(part)), default=_ANYTHING)
    sets = chain.from_iterable(_shared_needs(part) for part in parts if part is not forked)
    shared = frozenset(sets)
    return _any_of([(_rarest(shared | way),) for way in forked])


def _shared_needs(part: tuple[Way, ...]) -> Way:
    """What a text needs in each way of a part."""
    return part[0] if len(part) == 1 else frozenset({_best(part)})


def _rarest(way: Way) -> Way:
    """The sets of a way that say most, few enough to search for."""
    return frozenset(sorted(filter(None, way), key=_worth, reverse=True)[:MAX_SETS])


def _best(found: tuple[Way, ...]) -> frozenset[str]:
    """Strings of which every text contains at least one, in each way; empty if there are none."""
    return frozenset[str]().union(*(max(way, key=_worth) for way in found)) if all(found) else frozenset()


def _worth(strings: frozenset[str]) -> tuple[int, int, list[str]]:
    """Longer is rarer; of equal length fewer strings are better, then the later ones. The empty set is worth least."""
    return (min((len(s) for s in strings), default=0), -len(strings), sorted(strings))
