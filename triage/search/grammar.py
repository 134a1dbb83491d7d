"""The syntax of a query: ``key:value`` terms, words, OR and brackets, without the meaning of the keys.

    category:network node:gpu-0412 !stage:launch iter:>1200 symptom:[crash,hang] "CUDA error" (rank:5 OR said:xid)

All terms must hold; ``OR`` binds less than that, brackets more. ``!`` (or ``NOT``) negates a term or bracket, ``>``
``<`` ``>=`` ``<=`` compare, ``a..b`` is a range, ``*`` matches any text, ``[a,b]`` matches either. Quotes keep spaces,
in words and in values, and match exactly these words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

MAX_LENGTH = 2000
MAX_DEPTH = 8


class SearchError(ValueError):
    """An invalid query; the message is for its author.

    If a correction is known, ``meant`` replaces the characters ``start`` to ``end`` of the query.
    """

    def __init__(self, message: str, *, meant: str = "", term: Term | None = None) -> None:
        super().__init__(message)
        self.meant = meant
        self.start, self.end = (term.start, term.end) if term else (0, 0)


@dataclass(frozen=True, slots=True)
class Term:
    """One condition. ``key`` is empty for a word; ``start`` and ``end`` are its place in the parsed text.

    ``is_exact``: it was written in quotes that it does not need.
    """

    key: str
    values: tuple[str, ...]
    operator: str = ""
    is_negated: bool = False
    start: int = 0
    end: int = 0
    is_exact: bool = False

    def __str__(self) -> str:
        written = [_in_quotes(value) if self.is_exact else quote(value) for value in self.values]
        value = written[0] if len(written) == 1 else f"[{','.join(written)}]"
        return f"{'!' if self.is_negated else ''}{self.key + ':' if self.key else ''}{self.operator}{value}"

    @property
    def leaves(self) -> Iterator[Term]:
        yield self

    def says(self, other: Item) -> bool:
        """Whether both state the same, independent of their place."""
        return isinstance(other, Term) and _bare(self) == _bare(other)


@dataclass(frozen=True, slots=True)
class Group:
    """A bracket, or the operands of ``OR``: one of the ``alternatives`` must hold, each with all its items."""

    alternatives: tuple[tuple[Item, ...], ...]
    is_negated: bool = False

    def __str__(self) -> str:
        inside = " OR ".join(" ".join(map(str, items)) for items in self.alternatives)
        return f"{'!' if self.is_negated else ''}({inside})"

    @property
    def leaves(self) -> Iterator[Term]:
        """Every term inside, in order."""
        for items in self.alternatives:
            for item in items:
                yield from item.leaves

    def says(self, other: Item) -> bool:
        return str(self) == str(other)


Item = Term | Group

_TERM = re.compile(
    r"""
    (?P<not>!?)
    (?:(?P<key>[A-Za-z_]+):(?P<operator>>=|<=|>|<|))?
    (?P<value>
        \[(?:"(?:[^"\\]|\\.)*"|[^\]"])*\]
      | "(?:[^"\\]|\\.)*"
      | (?![A-Za-z_]+:[\["])[^\s"\[()]\S*
      |
    )
    (?=[\s)]|$)
    """,
    re.VERBOSE,
)
_ITEM = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^,]*)\s*(?:,|$)')
_PLAIN = re.compile(r"[^\s\"\[\],!:<>()][^\s\"\[\],()]*")
#: words that join; to search for one of them, write it in quotes
_JOINING = {"OR", "AND", "NOT"}
_JOINS = re.compile(r"(OR|AND|NOT)(?=[\s()]|$)")


def quote(value: str) -> str:
    """``value`` as it must be written in a query."""
    return value if _PLAIN.fullmatch(value) and value not in _JOINING else _in_quotes(value)


def _in_quotes(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unquote(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def _bare(term: Term) -> Term:
    # quotes around the value of a key have no meaning; around a word they have
    return replace(term, start=0, end=0, is_exact=term.is_exact and not term.key)


def items_of(text: str) -> tuple[Item, ...]:
    """Splits ``text`` into items that must all hold, in order; raises SearchError with the position of the error.

    Linear.
    """
    if len(text) > MAX_LENGTH:
        raise SearchError("The search is longer than 2,000 characters: shorten it.")
    items, at = _alternatives(text, 0, 0)
    if at < len(text):
        raise SearchError("A “)” has no opening bracket: remove it, or put it in quotes.")
    return items


def _alternatives(text: str, at: int, depth: int) -> tuple[tuple[Item, ...], int]:
    """The items from ``at`` to the end or to the bracket that closes this depth, and the position of that."""
    if depth > MAX_DEPTH:
        raise SearchError(f"Brackets are more than {MAX_DEPTH} deep: use fewer.")
    alternatives: list[list[Item]] = [[]]
    is_negated = False
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif text[at] == ")":
            break
        elif joins := _JOINS.match(text, at):
            at = joins.end()
            if joins[1] == "OR":
                _must_follow(alternatives[-1], "OR")
                alternatives.append([])
            is_negated ^= joins[1] == "NOT"
        else:
            item, at = _item(text, at, depth)
            alternatives[-1].append(replace(item, is_negated=item.is_negated ^ is_negated))
            is_negated = False
    if is_negated or len(alternatives) > 1:
        _must_follow([] if is_negated else alternatives[-1], "NOT" if is_negated else "OR")
    if len(alternatives) == 1:
        return tuple(alternatives[0]), at
    return (Group(tuple(tuple(items) for items in alternatives)),), at


def _must_follow(items: list[Item], word: str) -> None:
    if not items:
        sides = "something after it" if word == "NOT" else "a term on both sides"
        raise SearchError(f"“{word}” needs {sides}. To search for the word itself, put it in quotes.")


def _item(text: str, at: int, depth: int) -> tuple[Item, int]:
    opened = re.compile(r"!?\(").match(text, at)
    if opened:
        inside, end = _alternatives(text, opened.end(), depth + 1)
        if end >= len(text):
            raise SearchError("A bracket is not closed: add “)”, or put the bracket in quotes.")
        if not inside:
            raise SearchError("The brackets are empty: write a term between them, or remove them.")
        is_negated = opened[0].startswith("!")
        if len(inside) == 1:
            return replace(inside[0], is_negated=inside[0].is_negated ^ is_negated), end + 1
        return Group((inside,), is_negated), end + 1
    match = _TERM.match(text, at)
    if match is None or match.end() == at:
        raise SearchError(
            f"Cannot read “{text[at : at + 20]}”: a quote or bracket is not closed, "
            "or something follows it without a space."
        )
    term = _term(match, text, depth)
    return term, term.end


def _term(match: re.Match[str], text: str, depth: int) -> Term:
    raw, key, end = match["value"], (match["key"] or "").lower(), match.end()
    is_bare = raw[:1] not in {"[", '"'}
    if is_bare and depth:
        # the bracket that closes the group may follow a value without a space
        while raw.endswith(")") and raw.count(")") > raw.count("("):
            raw, end = raw[:-1], end - 1
    if raw.startswith("["):
        written = [item[1].strip() for item in _ITEM.finditer(raw[1:-1])]
        values = tuple(value for item in written if (value := _unquote(item)))
    else:
        written, values = [raw], (_unquote(raw),)
    if not values or not values[0]:
        named = f"{key}:" if key else match[0]
        raise SearchError(f"“{named}” needs a value after it.")
    is_exact = not is_bare and all(part.startswith('"') for part in written if part)
    needs_none = all(quote(value) == value for value in values)
    return Term(key, values, match["operator"] or "", bool(match["not"]), match.start(), end, is_exact and needs_none)
