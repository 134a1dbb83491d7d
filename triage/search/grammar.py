"""The form of a query: ``key:value`` terms and words, told apart without knowing what the keys mean.

    category:network node:gpu-0412 !stage:launch iter:>1200 symptom:[crash,hang] "CUDA error"

``!`` before a term negates it, ``>`` ``<`` ``>=`` ``<=`` compare, ``a..b`` is a range, ``*`` stands for any text,
``[a,b]`` for either. Quotes keep spaces together, in words and in values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace


class SearchError(ValueError):
    """A query that cannot be understood; the message is fit to show to its author."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition. ``key`` is empty for a word; ``start`` and ``end`` are its place in the text it was read from."""

    key: str
    values: tuple[str, ...]
    operator: str = ""
    is_negated: bool = False
    start: int = 0
    end: int = 0

    def __str__(self) -> str:
        written = [quoted(value) for value in self.values]
        value = written[0] if len(written) == 1 else f"[{','.join(written)}]"
        return f"{'!' if self.is_negated else ''}{self.key + ':' if self.key else ''}{self.operator}{value}"

    def says(self, other: Term) -> bool:
        """Whether both state the same, wherever they stand."""
        return replace(self, start=0, end=0) == replace(other, start=0, end=0)


_TERM = re.compile(
    r"""
    (?P<not>!?)
    (?:(?P<key>[A-Za-z_]+):(?P<operator>>=|<=|>|<|))?
    (?P<value>
        \[(?:"(?:[^"\\]|\\.)*"|[^\]"])*\]
      | "(?:[^"\\]|\\.)*"
      | (?![A-Za-z_]+:[\["])[^\s"\[]\S*
      |
    )
    (?=\s|$)
    """,
    re.VERBOSE,
)
_ITEM = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^,]*)\s*(?:,|$)')
_PLAIN = re.compile(r"[^\s\"\[\],!:<>][^\s\"\[\],]*")


def quoted(value: str) -> str:
    """``value`` as it must be written in a query."""
    if _PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def terms_of(text: str) -> tuple[Term, ...]:
    """Cuts ``text`` into terms, in order; raises SearchError with the place of what cannot be read. Linear."""
    if len(text) > 2000:
        raise SearchError("The search is longer than 2,000 characters: shorten it.")
    terms: list[Term] = []
    at = 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return tuple(terms)
        match = _TERM.match(text, at)
        if match is None or match.end() == at:
            raise SearchError(
                f"Cannot read “{text[at : at + 20]}”: a quote or bracket is not closed, "
                "or something follows it without a space."
            )
        terms.append(_term(match))
        at = match.end()


def _term(match: re.Match[str]) -> Term:
    raw, key = match["value"], (match["key"] or "").lower()
    if raw.startswith("["):
        values = tuple(value for item in _ITEM.finditer(raw[1:-1]) if (value := _unquoted(item[1])))
    else:
        values = (_unquoted(raw),)
    if not values or not values[0]:
        named = f"{key}:" if key else match[0]
        raise SearchError(f"“{named}” needs a value after it.")
    return Term(key, values, match["operator"] or "", bool(match["not"]), match.start(), match.end())
