"""Conditions on evidence: words of the index, ranks and signatures. The index is the database's own.

A word without quotes matches words that begin with it (``cud`` finds CUDA), quoted words match exactly in this order,
``*`` matches any text: at an end of a word with the index of words, else with trigrams, of which it needs one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

from django.core.cache import cache
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BigAutoField, Q
from django.db.models.expressions import RawSQL
from django.db.models.lookups import In
from django.db.models.sql.compiler import SQLCompiler

from diagnosis import numbers
from triage.search import word_rules
from triage.search.grammar import SearchError, Term, quoted

#: fields of the index → weight on PostgreSQL; "" for all of them
_WEIGHTS = {"": "", "about": "A", "said": "B", "places": "C"}
#: shorter beginnings of words would match nearly everything
_MIN_BEGUN = 3
#: minimum letters of a part for trigrams
_TRIGRAM = 3
MAX_RANKS = 64
#: Incidents found from which on all are walked through; whether a text finds as many is asked again after so long.
_COMMON = 4_000
_COMMON_KEPT_S = 600

_HAS_LETTER = re.compile(r"[^\W\d]")


def words_q(terms: Iterable[tuple[str, bool]], field: str = "") -> Q:
    """Entries with every one of the texts (each with whether it was quoted) in ``field``: one index query."""
    asked: list[str] = []
    joined = Q()
    for text, is_exact in terms:
        if "*" in text and not is_exact and not _is_beginning(text):
            joined &= _parts_q(text, field)
            continue
        found = word_rules.words_of(text)
        if not found:
            raise SearchError(f"“{text}” has no letter or digit: search for a word or a number.")
        begun = text.endswith("*") or (len(found[-1]) >= _MIN_BEGUN and bool(_HAS_LETTER.search(found[-1])))
        asked.append(_phrase(found, begun and not is_exact, field))
    return joined & _matching(asked) if asked else joined


def word_q(term: Term, field: str = "") -> Q:
    """Entries with any of the term's values."""
    joined = Q()
    for value in term.values:
        joined |= words_q([(value, is_exact(term, value))], field)
    return joined


def is_exact(term: Term, value: str) -> bool:
    """Whether the value is literal: in quotes, needed or not."""
    return term.is_exact or quoted(value) != value


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


def _matching(asked: list[str]) -> Q:
    if connection.vendor == "sqlite":
        sql, joint = "SELECT rowid FROM triage_search_words WHERE triage_search_words MATCH %s", " AND "
    else:
        sql, joint = "SELECT incident_id FROM triage_searchentry WHERE words @@ %s::tsquery", " & "
    return _among(sql, [joint.join(f"({one})" for one in asked)])


def _among(sql: str, parameters: list[str]) -> Q:
    # the statements are constants of this module, values are parameters
    return Q(pk__found=RawSQL(sql, parameters))  # noqa: S611


@BigAutoField.register_lookup
class Found(In):
    """``pk__in`` for what the index finds.

    SQLite looks up each row found by its key. Where a word is in every second incident, that takes three times as long
    as to walk all incidents in order and ask of each whether it was found. A key with a sign is no key to SQLite: it
    walks then. PostgreSQL chooses by itself.
    """

    lookup_name = "found"

    def process_lhs(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, lhs: Any = None
    ) -> tuple[str, tuple[str | int, ...]]:
        sql, parameters = super().process_lhs(compiler, connection, lhs)
        is_walked = connection.vendor == "sqlite" and isinstance(self.rhs, RawSQL) and _is_common(self.rhs)
        return f"+{sql}" if is_walked else sql, parameters


def _is_common(found: RawSQL) -> bool:
    key = f"search-common:{hashlib.sha256(f'{found.sql} {found.params}'.encode()).hexdigest()[:32]}"
    known = cache.get(key)
    if known is None:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM ({found.sql} LIMIT %s)", [*found.params, _COMMON])  # noqa: S608
            known = cursor.fetchone()[0] >= _COMMON
        cache.set(key, known, _COMMON_KEPT_S)
    return bool(known)


def _parts_q(text: str, field: str) -> Q:
    """Entries with the parts of the pattern in order, by trigrams."""
    parts = [" ".join(word_rules.words_of(part)) for part in text.split("*")]
    if max(map(len, parts)) < _TRIGRAM:
        raise SearchError(f"“{text}” needs three letters or digits next to a *: add some.")
    first, last = (" " if parts[0] else ""), (" " if parts[-1] else "")
    parts = f"{first}{'*'.join(part for part in parts if part)}{last}".split("*")
    pattern = f"%{'%'.join(parts)}%"
    fields = [field] if field else ["about", "said"]
    if connection.vendor == "sqlite":
        phrases = " AND ".join(f'"{part}"' for part in parts if len(part) >= _TRIGRAM)
        sql = "SELECT rowid FROM triage_search_parts WHERE triage_search_parts MATCH %s"
        asked = [f"{{{' '.join(fields)}}} : ({phrases})"]
        if len(parts) == 1:  # the positions in the index tell all: no text is read
            return _among(sql, asked)
        in_order = " OR ".join(f"{name} LIKE %s" for name in fields)
        return _among(f"{sql} AND ({in_order})", asked + [pattern] * len(fields))
    select = "SELECT incident_id FROM triage_searchentry WHERE"
    sql = " UNION ALL ".join(f"{select} {name} LIKE %s" for name in fields)
    return _among(sql, [pattern] * len(fields))


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
        joined |= _matching([(" OR " if connection.vendor == "sqlite" else " | ").join(ranks)])
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
        joined |= _matching([_phrase(phrase, is_begun and value[-2:-1].isalnum(), "places")])
    return joined
