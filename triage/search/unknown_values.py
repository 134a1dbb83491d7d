"""“Did you mean …?”: suggestions for a query with unknown values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from triage.search.grammar import Term
from triage.search.keys import BY_NAME, CLOSED, visible_values
from triage.search.kinds import closest_value
from triage.search.query import Query

#: maximum names compared with an unknown one, and maximum hints
MAX_NAMES = 500
MAX_HINTS = 3


@dataclass(frozen=True, slots=True)
class Hint:
    """An unknown value: what is wrong with it, and the query with the most similar value ("" if there is none)."""

    sentence: str
    value: str
    query: str


def hints(query: Query, *, jobs: Any, is_empty: bool) -> list[Hint]:
    """One hint for each unknown value of the query, at most MAX_HINTS.

    Always checks values of closed sets. Checks names, which only the database knows, if the query found nothing (two
    small queries per name). ``jobs`` are those that the user may see: no other name is suggested.
    """
    found: list[Hint] = []
    for term in query.leaves:
        key = BY_NAME.get(term.key)
        if key is None or len(found) >= MAX_HINTS:
            continue
        for value in term.values:
            if "*" in value:
                continue
            if key.name in CLOSED:
                known: Iterable[str] = CLOSED[key.name]
                is_known = value.lower() in known
            elif is_empty and not term.is_negated:
                same = visible_values(key, jobs, value, 1)
                is_known = any(name.lower() == value.lower() for name in same)
                known = [] if is_known else (visible_values(key, jobs, value[:2], MAX_NAMES))
                if not known and not is_known:
                    known = visible_values(key, jobs, "", MAX_NAMES)
                if not known:
                    continue
            else:
                continue
            if not is_known:
                found.append(_hint(query, term, value, closest_value(value, known)))
    return found[:MAX_HINTS]


def _hint(query: Query, term: Term, value: str, near: str) -> Hint:
    sentence = f"No {BY_NAME[term.key].name} is called “{value}”."
    values = tuple(near if one == value else one for one in term.values)
    return Hint(sentence, f"{term.key}:{near}" if near else "", str(query.instead(term, values)) if near else "")
