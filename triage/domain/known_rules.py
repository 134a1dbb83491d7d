"""The built-in rules and the codes of their tables as one list that can be searched. Pure."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from msgspec.structs import replace

from diagnosis import taxonomy
from diagnosis.kinds.logs.meaning import signatures
from diagnosis.kinds.logs.meaning.signatures import Signature
from diagnosis.kinds.logs.meaning.signatures.load import AREAS

#: rows of one answer
MAX_ROWS = 100
#: of a pasted line: no rule reads more of one
_MAX_LINE_CHARS = 4096


@dataclass(frozen=True)
class KnownRule:
    """One rule, or one code of a rule with a table of codes. ``code`` is empty for a rule."""

    rule: Signature
    code: str
    name: str
    text: str

    @property
    def table(self) -> str:
        """The id of the rule that reads the code."""
        return self.rule.id.removesuffix(f".{self.code}")

    @property
    def categories(self) -> list[str]:
        """The category, then others that the same words come from."""
        return [name for name in (self.rule.category, *self.rule.also) if name != "none"]


@dataclass(frozen=True)
class Wanted:
    """What a reader looks for: words, all of which must be there; a category or a domain; an area; a role."""

    words: tuple[str, ...] = ()
    category: str = ""
    area: str = ""
    role: str = ""

    def __bool__(self) -> bool:
        return bool(self.words or self.category or self.area or self.role)


@cache
def known_rules() -> tuple[KnownRule, ...]:
    """All rules in the order in which they are tried, each followed by its codes."""
    return tuple(itertools.chain.from_iterable(map(_rows, signatures.builtin())))


def areas() -> list[tuple[str, int]]:
    """Each area with its number of rules and codes, in the order in which areas are tried."""
    counts = Counter(row.rule.area for row in known_rules())
    return [(area, counts[area]) for area in AREAS]


def categories() -> list[str]:
    """Ids of domains and categories that rules name."""
    named = set(itertools.chain.from_iterable(row.categories for row in known_rules()))
    domains = {name.partition(".")[0] for name in named}
    return [node.id for node in taxonomy.load() if node.id in named | domains]


def find(wanted: Wanted) -> list[KnownRule]:
    """The rules that fit: the one of that id, then those with the words in their name or meaning, then others."""

    def rank(row: KnownRule) -> tuple[bool, int]:
        words_in_name = sum(_has(row.name, word) for word in wanted.words)
        return row.rule.id not in wanted.words, -words_in_name

    return sorted((row for row in known_rules() if _fits(row, wanted)), key=rank)


def deciding_rule(line: str) -> Signature | None:
    """The built-in rule that decides this line of a log, if one does."""
    rules = signatures.load()
    return rules.rule(rules.match_texts([line[:_MAX_LINE_CHARS]])[0] or "")


def _rows(rule: Signature) -> Iterator[KnownRule]:
    yield _row(rule, "")
    for code, coded in rule.codes.items():
        # the lines of the table's rule are of a few codes
        yield _row(replace(coded, examples=tuple(line for line in rule.examples if _has(line, code))), code)


def _row(rule: Signature, code: str) -> KnownRule:
    name = f"{rule.id} {rule.title}".casefold()
    pattern = "" if code else rule.pattern
    others = (name, rule.category, *rule.also, rule.advice, rule.source, pattern, *rule.examples)
    return KnownRule(rule, code, name, " ".join(others).casefold())


def _fits(row: KnownRule, wanted: Wanted) -> bool:
    if wanted.area and row.rule.area != wanted.area:
        return False
    if wanted.role and row.rule.role != wanted.role:
        return False
    if wanted.category and not any(_is_below(name, wanted.category) for name in row.categories):
        return False
    return all(_has(row.text, word) for word in wanted.words)


def _is_below(category: str, wanted: str) -> bool:
    return category == wanted or category.startswith(f"{wanted}.")


def _has(text: str, word: str) -> bool:
    """Whether the word is there; a number must be whole, so that 79 does not find 179."""
    if not word.isdecimal():
        return word in text
    return re.search(rf"(?<![0-9]){re.escape(word)}(?![0-9])", text) is not None
