"""Conditions on evidence: words of the index, ranks and signatures. The index is the database's own.

A word without quotes matches words that begin with it (``cud`` finds CUDA), quoted words match exactly in this order,
``*`` matches any text: at an end of a word with the index of words, else with trigrams, of which it needs one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from django.core.cache import cache
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BigAutoField, Lookup, Q
from django.db.models.sql.compiler import SQLCompiler

from diagnosis.values import numbers
from triage.search import word_rules
from triage.search.grammar import SearchError, Term, quote

#: fields of the index → weight on PostgreSQL; "" for all of them
_WEIGHTS = {"": "", "about": "A", "said": "B", "places": "C"}
#: shorter beginnings of words would match nearly everything
_MIN_PREFIX = 3
#: minimum letters of a part for trigrams
_MIN_PART = 3
MAX_RANKS = 64
#: Incidents found from which on all are walked through; whether a text finds as many is asked again after so long.
_MIN_COMMON = 500
_COMMON_CACHED_S = 600

_HAS_LETTER = re.compile(r"[^\W\d]")


def words_q(terms: Iterable[tuple[str, bool]], field: str = "") -> Q:
    """Entries with every one of the texts (each with whether it was quoted) in ``field``: one index query."""
    searches: list[str] = []
    joined = Q()
    for text, is_exact in terms:
        if "*" in text and not is_exact and not _is_beginning(text):
            joined &= _parts_q(text, field)
            continue
        found = word_rules.words_of(text)
        if not found:
            raise SearchError(f"“{text}” has no letter or digit: search for a word or a number.")
        begun = text.endswith("*") or (len(found[-1]) >= _MIN_PREFIX and bool(_HAS_LETTER.search(found[-1])))
        searches.append(_phrase(found, begun and not is_exact, field))
    return joined & _search_q(searches) if searches else joined


def word_q(term: Term, field: str = "") -> Q:
    """Entries with any of the term's values."""
    joined = Q()
    for value in term.values:
        joined |= words_q([(value, is_exact(term, value))], field)
    return joined


def is_exact(term: Term, value: str) -> bool:
    """Whether the value is literal: in quotes, needed or not."""
    return term.is_exact or quote(value) != value


def _is_beginning(text: str) -> bool:
    return text.endswith("*") and "*" not in text[:-1] and bool(word_rules.words_of(text))


def _phrase(found: list[str], is_begun: bool, field: str) -> str:
    if connection.vendor == "sqlite":
        phrase = f'"{" ".join(found)}"{"*" if is_begun else ""}'
        return f"{field} : {phrase}" if field else phrase
    weight = _WEIGHTS[field]
    last = f":{'*' if is_begun else ''}{weight}" if is_begun or weight else ""
    suffixes = [f":{weight}" if weight else ""] * (len(found) - 1) + [last]
    return " <-> ".join(f"'{word}'{suffix}" for word, suffix in zip(found, suffixes, strict=True))


def _search_q(phrases: list[str]) -> Q:
    if connection.vendor == "sqlite":
        found = "SELECT rowid FROM triage_search_words WHERE triage_search_words MATCH %s"
        return Q(pk__found=IndexSearch(found, "", (" AND ".join(f"({phrase})" for phrase in phrases),)))
    words = (" & ".join(f"({phrase})" for phrase in phrases),)
    return Q(pk__found=IndexSearch("SELECT triage_search_found(%s::tsquery)", "words @@ %s::tsquery", words))


class IndexSearch(NamedTuple):
    """A text to find. The statements are constants of this module, values are parameters."""

    #: selects the incidents from the index
    index_query: str
    #: PostgreSQL's condition on one entry
    entry_condition: str
    parameters: tuple[str | None, ...]


@BigAutoField.register_lookup
class InIndex(Lookup):
    """Whether the index finds the incident's entry.

    The best way depends on how many it finds, which neither database estimates well for phrases. Few are looked up by
    their keys. Many would take long to collect and sort: the incidents are walked in order instead, and each is asked,
    until the page is full. A key with a sign is no key to SQLite, and its list of those found costs little; PostgreSQL
    reads the entry of each incident that it walks past, which pays only if it may stop.
    """

    lookup_name = "found"
    prepare_rhs = False
    rhs: IndexSearch

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        incident, parameters = self.process_lhs(compiler, connection)
        is_walked = (connection.vendor == "sqlite" or compiler.query.is_sliced) and _is_common(self.rhs)
        if is_walked and connection.vendor != "sqlite":
            condition = self.rhs.entry_condition
            entry = f"SELECT {condition} FROM triage_searchentry WHERE incident_id = {incident}"  # noqa: S608
            return f"coalesce(({entry}), false)", (*self.rhs.parameters, *parameters)
        return f"{'+' if is_walked else ''}{incident} IN ({self.rhs.index_query})", (*parameters, *self.rhs.parameters)


def _is_common(search: IndexSearch) -> bool:
    key = f"search-common:{hashlib.sha256(repr(search).encode()).hexdigest()[:32]}"
    known = cache.get(key)
    if known is None:
        with connection.cursor() as cursor:
            counted = f"SELECT count(*) FROM ({search.index_query} LIMIT %s) found"  # noqa: S608
            cursor.execute(counted, [*search.parameters, _MIN_COMMON])
            known = cursor.fetchone()[0] >= _MIN_COMMON
        cache.set(key, known, _COMMON_CACHED_S)
    return bool(known)


def _parts_q(text: str, field: str) -> Q:
    """Entries with the parts of the pattern in order, by trigrams."""
    parts = [" ".join(word_rules.words_of(part)) for part in text.split("*")]
    if max(map(len, parts)) < _MIN_PART:
        raise SearchError(f"“{text}” needs three letters or digits next to a *: add some.")
    first, last = (" " if parts[0] else ""), (" " if parts[-1] else "")
    parts = f"{first}{'*'.join(part for part in parts if part)}{last}".split("*")
    pattern = f"%{'%'.join(parts)}%"
    fields = [field] if field else ["about", "said"]
    if connection.vendor != "sqlite":
        both = tuple(pattern if name in fields else None for name in ("about", "said"))
        return Q(pk__found=IndexSearch("SELECT triage_search_found(%s, %s)", "about LIKE %s OR said LIKE %s", both))
    phrases = " AND ".join(f'"{part}"' for part in parts if len(part) >= _MIN_PART)
    found = "SELECT rowid FROM triage_search_parts WHERE triage_search_parts MATCH %s"
    searches = (f"{{{' '.join(fields)}}} : ({phrases})",)
    if len(parts) == 1:  # the positions in the index tell all: no text is read
        return Q(pk__found=IndexSearch(found, "", searches))
    in_order = " OR ".join(f"{name} LIKE %s" for name in fields)
    return Q(pk__found=IndexSearch(f"{found} AND ({in_order})", "", (*searches, *[pattern] * len(fields))))


def rank_q(term: Term) -> Q:
    """Incidents in which a rank is accused, or named by a line of a root cause: a number, or a range of numbers."""
    joined = Q()
    for value in term.values:
        low, dots, high = value.partition("..")
        first, last = numbers.whole(low, digits=9), numbers.whole(high if dots else low, digits=9)
        if first is None or last is None or last < first or term.operator:
            raise SearchError(f"“rank:{term.operator}{value}” is not a rank: write rank:5 or rank:0..7.")
        if last - first >= MAX_RANKS:
            raise SearchError(f"“rank:{value}” names more than {MAX_RANKS} ranks: write a shorter range.")
        ranks = [_phrase([word_rules.place_of(rank)], False, "places") for rank in range(first, last + 1)]
        joined |= _search_q([(" OR " if connection.vendor == "sqlite" else " | ").join(ranks)])
    return joined


def signature_q(term: Term) -> Q:
    """Incidents with a finding of a rule: its id, or the beginning of ids before a ``*``."""
    joined = Q()
    for value in term.values:
        found = word_rules.words_of(value)
        if not found or "*" in value[:-1] or term.operator:
            raise SearchError(
                f"“signature:{value}” is not the id of a rule: write signature:nvidia.xid.79 or nvidia.*."
            )
        is_begun = value.endswith("*")
        phrase = [word_rules.SIGNATURE, *found, *([] if is_begun else [word_rules.LINE])]
        joined |= _search_q([_phrase(phrase, is_begun and value[-2:-1].isalnum(), "places")])
    return joined
