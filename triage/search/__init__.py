"""The search language of the queue, the list, the statistics and the API: one meaning everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from triage.models import Incident
from triage.search.grammar import SearchError, Term, quoted, terms_of
from triage.search.keys import ALL as KEYS
from triage.search.keys import BY_NAME, JOB_LOOKUPS, Asker, key_of, text_q, visible_values

__all__ = ["KEYS", "Query", "SearchError", "Suggestion", "Term", "parse", "suggest"]

MAX_TERMS = 40
#: values and stars of a query: each is a condition, and SQLite takes no more than a thousand, several for each of ours
MAX_WEIGHT = 120


@dataclass(frozen=True, slots=True)
class Query:
    """A query that was understood: apply it, say it in words, change it by one term."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    @property
    def is_personal(self) -> bool:
        """Whether it means something else to each who asks: ``assignee:me``, ``is:mine``."""
        return "me" in self._said("assignee") or "mine" in self._said("is")

    def _said(self, key: str) -> set[str]:
        return {value for term in self.terms if term.key == key for value in term.values}

    def condition(self, *, user: Any = None, now: datetime | None = None) -> Q:
        """All terms joined by *and*, for Incident."""
        asker = Asker(getattr(user, "pk", None), now or timezone.now())
        joined = Q()
        for term in self.terms:
            if term.key:
                one = key_of(term).condition(term, asker)
            else:
                one = Q(search_text__contains=term.values[0].lower().replace("*", ""))
            joined &= ~one if term.is_negated else one
        return joined

    def job_condition(self) -> Q:
        """The terms that speak of jobs, for Job: what run time is measured over."""
        joined = Q()
        for term in self.terms:
            if lookups := JOB_LOOKUPS.get(term.key):
                one = Q()
                for value in term.values:
                    for lookup in lookups:
                        one |= text_q(lookup, value)
                joined &= ~one if term.is_negated else one
        return joined

    def apply(
        self, incidents: QuerySet[Incident], *, user: Any = None, now: datetime | None = None
    ) -> QuerySet[Incident]:
        """The incidents that match. Withdrawn ones are left out unless asked for with ``is:withdrawn``."""
        if not any(term.key == "is" and "withdrawn" in term.values for term in self.terms):
            incidents = incidents.filter(is_withdrawn=False)
        return incidents.filter(self.condition(user=user, now=now))

    def words(self) -> str:
        """What the query shows, as a sentence: “Incidents awaiting review, in Hardware › GPU, containing “Xid 79”.”"""
        phrases = []
        for term in self.terms:
            said = key_of(term).phrase(term) if term.key else f"containing “{term.values[0]}”"
            phrases.append(f"not {said}" if term.is_negated else said)
        return f"Incidents {', '.join(phrases)}." if phrases else "All incidents."

    def values(self, key: str) -> frozenset[str]:
        """The values that are asked for (not excluded) under ``key``."""
        return frozenset(
            value for term in self.terms if term.key == key and not term.is_negated for value in term.values
        )

    def without(self, key: str) -> Query:
        """The query with every term of ``key`` taken out."""
        return Query(tuple(term for term in self.terms if term.key != key))

    def plus(self, key: str, value: str, *, is_negated: bool = False) -> Query:
        """The query with one more term, unless it is there already."""
        term = Term(key, (value,), is_negated=is_negated)
        return self if any(known.says(term) for known in self.terms) else Query((*self.terms, term))

    def toggled(self, key: str, value: str) -> Query:
        """The query with ``key:value`` added, or taken out where it stands: what a click on a facet does."""
        term = Term(key, (value,))
        kept = tuple(known for known in self.terms if not known.says(term))
        return Query(kept) if len(kept) < len(self.terms) else Query((*self.terms, term))


def parse(text: str) -> Query:
    """Understands ``text`` or raises SearchError with a message for its author. Linear in its length."""
    terms = terms_of(text)
    if len(terms) > MAX_TERMS:
        raise SearchError(f"The search has {len(terms)} terms, at most {MAX_TERMS} are allowed: leave some out.")
    weight = sum(1 + value.count("*") for term in terms for value in term.values)
    if weight > MAX_WEIGHT:
        raise SearchError(
            f"The search has {weight} values and stars, at most {MAX_WEIGHT} are allowed: leave some out."
        )
    query = Query(terms)
    query.condition()  # values are understood here, so that no later use can fail
    return query


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One way to go on: ``text`` replaces the characters ``start`` to ``end`` of the box."""

    text: str
    explanation: str
    start: int
    end: int


def suggest(text: str, cursor: int, *, jobs: Any = None, limit: int = 12) -> list[Suggestion]:
    """What may stand where the cursor is: keys, or values of the key before it.

    ``jobs`` are those that the asker may see: names in use come from them alone.
    """
    cursor = max(0, min(cursor, len(text)))
    start = max(text.rfind(" ", 0, cursor) + 1, 0)
    token = text[start:cursor]
    if token.startswith("!"):
        start, token = start + 1, token[1:]
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
    """A value as written after a colon: comparisons stay bare."""
    return value if value[:1] in "<>" else quoted(value)
