"""Suggestions while somebody types a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from triage.search.grammar import quote
from triage.search.keys import ALL as KEYS
from triage.search.keys import BY_NAME, visible_values


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggestion: ``text`` replaces the characters ``start`` to ``end`` of the box."""

    text: str
    explanation: str
    start: int
    end: int


def suggest(text: str, cursor: int, *, jobs: Any = None, limit: int = 12) -> list[Suggestion]:
    """Suggestions at the cursor: keys, or values of the key before it.

    ``jobs`` are those that the user may see: only their names are suggested.
    """
    cursor = max(0, min(cursor, len(text)))
    start = max(text.rfind(" ", 0, cursor) + 1, 0)
    token = text[start:cursor]
    bare = token.lstrip("!(")
    start, token = start + len(token) - len(bare), bare
    name, colon, typed = token.partition(":")
    if not colon:
        return [
            Suggestion(f"{key.name}:", f"{key.explanation}, as in {key.example}", start, cursor)
            for key in KEYS
            if key.name.startswith(name.lower())
        ][:limit]
    key = BY_NAME.get(name.lower())
    if key is None:
        return []
    begun = [choice for choice in key.choices if choice.startswith(typed.lower())]
    if not begun and jobs is not None:
        begun = visible_values(key, jobs, typed, limit)
    return [Suggestion(f"{key.name}:{quoted_value(value)}", "", start, cursor) for value in begun[:limit]]


def quoted_value(value: str) -> str:
    """A value as written after a colon: comparisons without quotes."""
    return value if value[:1] in "<>" else quote(value)
