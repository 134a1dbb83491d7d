"""A parsed query: its condition on incidents and jobs, its words, and its changes by one term."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from triage.models import Incident
from triage.search.evidence_words import is_exact, words_q
from triage.search.grammar import Group, Item, SearchError, Term, items_of
from triage.search.keys import key_of
from triage.search.kinds import JOB_LOOKUPS, Asker, text_q

MAX_TERMS = 40
#: values and stars of a query: each is a condition, and SQLite accepts at most a thousand, several for each of ours
MAX_WEIGHT = 120
_NUMBER = re.compile(r"#(\d{1,9})")


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query: apply it, describe it in words, change it by one term. All its items must hold."""

    terms: tuple[Item, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    @property
    def leaves(self) -> tuple[Term, ...]:
        """Every term, including those in brackets."""
        return tuple(itertools.chain.from_iterable(item.leaves for item in self.terms))

    @property
    def is_personal(self) -> bool:
        """Whether it depends on the person: ``assignee:me``, ``is:mine``."""
        return "me" in self._values_of("assignee") or "mine" in self._values_of("is")

    def _values_of(self, key: str) -> set[str]:
        return set(itertools.chain.from_iterable(term.values for term in self.leaves if term.key == key))

    def condition(self, *, user: Any = None, now: datetime | None = None) -> Q:
        """All items joined by *and*, for Incident."""
        return _condition_of_all(self.terms, Asker(getattr(user, "pk", None), now or timezone.now()))

    def job_condition(self) -> Q:
        """The query's conditions on jobs, for Job: run time is measured over these. Never too few."""
        joined = Q()
        for item in self.terms:
            one = _of_jobs(item)
            if one is not None:
                joined &= one
        return joined

    def apply(
        self, incidents: QuerySet[Incident], *, user: Any = None, now: datetime | None = None
    ) -> QuerySet[Incident]:
        """The incidents that match. Excludes withdrawn ones unless the query has ``is:withdrawn``."""
        if "withdrawn" not in self._values_of("is"):
            incidents = incidents.filter(is_withdrawn=False)
        return incidents.filter(self.condition(user=user, now=now))

    def words(self) -> str:
        """The query as a sentence: “Incidents awaiting review, in Hardware › GPU, containing “Xid 79”.”"""
        return f"Incidents {', '.join(map(_phrase, self.terms))}." if self.terms else "All incidents."

    def values(self, key: str) -> frozenset[str]:
        """The requested (not excluded) values of ``key``, independent of the other terms."""
        plain = [term for term in self.terms if isinstance(term, Term) and term.key == key and not term.is_negated]
        return frozenset(itertools.chain.from_iterable(term.values for term in plain))

    def without(self, key: str) -> Query:
        """The query without the terms of ``key`` outside brackets."""
        return Query(tuple(term for term in self.terms if not (isinstance(term, Term) and term.key == key)))

    def plus(self, key: str, value: str, *, is_negated: bool = False) -> Query:
        """The query with one more term, unless it has the term already."""
        term = Term(key, (value,), is_negated=is_negated)
        return self if any(known.says(term) for known in self.terms) else Query((*self.terms, term))

    def toggled(self, key: str, value: str) -> Query:
        """The query with ``key:value`` added, or removed if present: a click on a facet."""
        term = Term(key, (value,))
        kept = tuple(known for known in self.terms if not known.says(term))
        return Query(kept) if len(kept) < len(self.terms) else Query((*self.terms, term))

    def instead(self, term: Term, values: tuple[str, ...]) -> Query:
        """The query with ``values`` for ``term``, also inside brackets."""
        return Query(tuple(_replace_term(item, term, replace(term, values=values)) for item in self.terms))


def _replace_in_row(row: tuple[Any, ...], old: Term, new: Term) -> tuple[Any, ...]:
    return tuple(_replace_term(one, old, new) for one in row)


def _replace_term(item: Item, old: Term, new: Term) -> Item:
    if isinstance(item, Term):
        return new if item == old else item
    return replace(item, alternatives=tuple(_replace_in_row(row, old, new) for row in item.alternatives))


def _condition_of_all(items: tuple[Item, ...], asker: Asker) -> Q:
    joined = Q()
    plain: list[tuple[str, bool]] = []
    for item in items:
        if isinstance(item, Group):
            one = Q()
            for alternative in item.alternatives:
                one |= _condition_of_all(alternative, asker)
        elif item.key:
            one = key_of(item).condition(item, asker)
        elif (number := _incident_number(item)) is not None:
            one = Q(pk=number)
        else:
            word = (item.values[0], is_exact(item, item.values[0]))
            if not item.is_negated:
                plain.append(word)
                continue
            one = words_q([word])
        joined &= ~one if item.is_negated else one
    return joined & words_q(plain) if plain else joined


def _incident_number(term: Term) -> int | None:
    """The number of “#308”: an incident's, no word of its lines."""
    found = _NUMBER.fullmatch(term.values[0]) if not term.is_exact else None
    return int(found[1]) if found else None


def _of_jobs(item: Item) -> Q | None:
    """An item's condition on jobs, or None if jobs of any kind may match it."""
    one = Q()
    if isinstance(item, Group):
        # negated, a condition on another column matches every job
        if item.is_negated and any(leaf.key not in JOB_LOOKUPS for leaf in item.leaves):
            return None
        for alternative in item.alternatives:
            known = [_of_jobs(each) for each in alternative]
            if all(part is None for part in known):
                return None
            one |= Q(*(part for part in known if part is not None))
    else:
        lookups = JOB_LOOKUPS.get(item.key)
        if not lookups:
            return None
        for value in item.values:
            for lookup in lookups:
                one |= text_q(lookup, value)
    return ~one if item.is_negated else one


def _phrase(item: Item) -> str:
    if isinstance(item, Group):
        sides = ", or ".join(" and ".join(map(_phrase, row)) for row in item.alternatives)
        words = f"either {sides}" if len(item.alternatives) > 1 else f"({sides})"
    elif item.key:
        words = key_of(item).phrase(item)
    elif (number := _incident_number(item)) is not None:
        words = f"with number {number}"
    else:
        words = f"containing “{item.values[0]}”"
    return f"not {words}" if item.is_negated else words


def parse(text: str) -> Query:
    """Parses ``text`` or raises SearchError with a message for its author. Linear in its length.

    If a correction is known, the error's ``meant`` is the whole corrected query.
    """
    query = Query(items_of(text))
    if len(query.leaves) > MAX_TERMS:
        count = len(query.leaves)
        raise SearchError(f"The search has {count} terms, at most {MAX_TERMS} are allowed: leave some out.")
    values = itertools.chain.from_iterable(term.values for term in query.leaves)
    weight = sum(1 + value.count("*") for value in values)
    if weight > MAX_WEIGHT:
        raise SearchError(
            f"The search has {weight} values and stars, at most {MAX_WEIGHT} are allowed: leave some out."
        )
    try:
        query.condition()  # evaluated here, so that no later use can fail
    except SearchError as error:
        if error.meant:
            error.meant = f"{text[: error.start]}{error.meant}{text[error.end :]}"
        raise
    return query
