"""Kinds of query keys, each with a database condition and with words."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from django.db.models import Q

from diagnosis import taxonomy
from ingest.models import Job
from triage.search.grammar import SearchError, Term

_COMPARISONS = {"": "", ">": "__gt", "<": "__lt", ">=": "__gte", "<=": "__lte"}
_COMPARED_WORDS = {"": "", ">": "above ", "<": "below ", ">=": "at least ", "<=": "at most "}
#: the day after exists, too, in every time zone
_LAST_YEAR = 9000
#: each star makes a condition, and a database accepts at most a thousand
MAX_STARS = 10
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


#: keys about the job, and the columns of Job with their values
JOB_LOOKUPS = {
    "job": ("slug", "name"),
    "family": ("family",),
    "framework": ("framework",),
    "model": ("model",),
    "cluster": ("cluster__slug",),
    "team": ("team__slug",),
}


@dataclass(frozen=True, slots=True)
class Asker:
    """The person and time of the query: the meaning of relative terms (``assignee:me``, ``opened:<7d``)."""

    user_id: int | None
    now: datetime


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the language. ``condition`` makes a database condition of a term; ``phrase`` describes the term in
    words.
    """

    name: str
    explanation: str
    example: str
    condition: Callable[[Term, Asker], Q]
    phrase: Callable[[Term], str]
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = field(default=())
    #: whether ``choices`` are all possible values
    is_closed: bool = False


def any_of(values: Iterable[str], condition: Callable[[str], Q]) -> Q:
    joined = Q()
    for value in values:
        joined |= condition(value)
    return joined


def list_values(values: Iterable[str]) -> str:
    return " or ".join(values)


def refuse_operator(term: Term) -> None:
    if term.operator:
        raise SearchError(f"“{term.key}” is a name, not a number: write {term.key}:{term.values[0]}.")


def text_q(lookup: str, value: str) -> Q:
    """Equality without regard to case, or a pattern if ``value`` has ``*``.

    A pattern becomes conditions on beginning, end and contained parts, not a regular expression: SQLite would use
    Python's, which a pattern of many stars could keep busy for hours.
    """
    if "*" not in value:
        return Q(**{f"{lookup}__iexact": value})
    if value.count("*") > MAX_STARS:
        raise SearchError(f"A pattern has at most {MAX_STARS} stars: leave some out of “{value[:40]}”.")
    first, *middle, last = value.split("*")
    joined = ~Q(**{lookup: ""})
    if first:
        joined &= Q(**{f"{lookup}__istartswith": first})
    if last:
        joined &= Q(**{f"{lookup}__iendswith": last})
    return joined & Q(*(Q(**{f"{lookup}__icontains": part}) for part in middle if part))


def text_key(name: str, explanation: str, example: str, *lookups: str, phrase: str, choices: Iterable[str] = ()) -> Key:
    def condition(term: Term, asker: Asker) -> Q:
        refuse_operator(term)
        return any_of(term.values, lambda value: any_of(lookups, lambda lookup: text_q(lookup, value)))

    known = tuple(choices)
    return Key(name, explanation, example, condition, name_phrase(phrase), known, is_closed=bool(known))


def job_key(name: str, explanation: str, example: str, *, phrase: str) -> Key:
    """A key about the job. Jobs are few: it finds them first, then their incidents."""

    def condition(term: Term, asker: Asker) -> Q:
        refuse_operator(term)
        named = any_of(term.values, lambda value: any_of(JOB_LOOKUPS[name], lambda lookup: text_q(lookup, value)))
        return Q(job__in=Job.objects.filter(named).order_by())

    return Key(name, explanation, example, condition, lambda term: f"{phrase} {list_values(term.values)}")


def category_condition(lookup: str) -> Callable[[Term, Asker], Q]:
    def condition(term: Term, asker: Asker) -> Q:
        refuse_operator(term)

        def below(value: str) -> Q:
            if "*" in value:
                return text_q(lookup, value)
            return Q(**{lookup: value.lower()}) | Q(**{f"{lookup}__startswith": f"{value.lower()}."})

        return any_of(term.values, below)

    return condition


def category_phrase(phrase: str) -> Callable[[Term], str]:
    tree = taxonomy.load()
    return lambda term: f"{phrase} {list_values(' › '.join(tree.path(v)) if v in tree else v for v in term.values)}"


def number_key(
    name: str, explanation: str, example: str, lookup: str, *, phrase: str, aliases: tuple[str, ...] = ()
) -> Key:
    def parse(raw: str) -> float:
        try:
            value = float(raw.replace(",", "").replace("_", "").removeprefix("#"))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise SearchError(f"“{name}:{raw}” is not a number: write {example}.")
        return value

    def condition(term: Term, asker: Asker) -> Q:
        def matches(value: str) -> Q:
            low, dots, high = value.partition("..")
            if dots and not term.operator:
                return Q(**{f"{lookup}__gte": parse(low), f"{lookup}__lte": parse(high)})
            return Q(**{f"{lookup}{_COMPARISONS[term.operator]}": parse(value)})

        return any_of(term.values, matches)

    def term_phrase(term: Term) -> str:
        return f"with {phrase} {_COMPARED_WORDS[term.operator]}{list_values(term.values).replace('..', ' to ')}"

    return Key(name, explanation, example, condition, term_phrase, aliases=aliases)


def day(name: str, raw: str) -> datetime:
    """Midnight UTC of ``2026-11-01`` (or of the month's first day, ``2026-11``), or the instant of a full ISO time."""
    try:
        moment = datetime.fromisoformat(f"{raw}-01" if re.fullmatch(r"\d{4}-\d\d", raw) else raw)
        if moment.year > _LAST_YEAR:
            raise ValueError
    except ValueError:
        raise SearchError(
            f"“{name}:{raw}” is not a time: write {name}:2026-11-01, {name}:2026-11-01..2026-11-07 or {name}:<7d."
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _day_after(raw: str, moment: datetime) -> datetime:
    if re.fullmatch(r"\d{4}-\d\d", raw):
        return (moment + timedelta(days=32)).replace(day=1)
    return moment + timedelta(days=1) if len(raw) <= 10 else moment


def time_key(name: str, explanation: str, lookup: str, *, phrase: str) -> Key:
    def condition(value: str, operator: str, asker: Asker) -> Q:
        if ago := re.fullmatch(r"(\d{1,5})([mhdw])", value):
            moment = asker.now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
            return Q(**{f"{lookup}__lt" if operator.startswith(">") else f"{lookup}__gte": moment})
        low, dots, high = value.partition("..")
        if dots and not operator:
            return Q(**{f"{lookup}__gte": day(name, low), f"{lookup}__lt": _day_after(high, day(name, high))})
        moment = day(name, value)
        end = _day_after(value, moment)
        return {
            "": Q(**{f"{lookup}__gte": moment, f"{lookup}__lt": end}),
            ">=": Q(**{f"{lookup}__gte": moment}),
            ">": Q(**{f"{lookup}__gte": end}),
            "<": Q(**{f"{lookup}__lt": moment}),
            "<=": Q(**{f"{lookup}__lt": end}),
        }[operator]

    def words(value: str, operator: str) -> str:
        if ago := re.fullmatch(r"(\d+)([mhdw])", value):
            span = f"{ago[1]} {_UNITS[ago[2]] if ago[1] != '1' else _UNITS[ago[2]][:-1]}"
            return f"{phrase} more than {span} ago" if operator.startswith(">") else f"{phrase} in the last {span}"
        low, dots, high = value.partition("..")
        if dots:
            return f"{phrase} from {low} to {high}"
        return f"{phrase} { {'': 'on', '>': 'after', '>=': 'since', '<': 'before', '<=': 'until'}[operator] } {value}"

    return Key(
        name,
        explanation,
        f"{name}:<7d",
        lambda term, asker: any_of(term.values, lambda value: condition(value, term.operator, asker)),
        lambda term: list_values(words(value, term.operator) for value in term.values),
        ("<24h", "<7d", "<30d", ">30d"),
    )


def name_phrase(phrase: str) -> Callable[[Term], str]:
    return lambda term: f"{phrase} {list_values(term.values)}"


def refuse_unknown(term: Term, known: Iterable[str]) -> None:
    for value in term.values:
        if value not in known:
            meant = closest_value(value, known)
            suggestion = f"did you mean {term.key}:{meant}? " if meant else ""
            instead = str(replace(term, values=tuple(meant if v == value else v for v in term.values))) if meant else ""
            sentence = f"“{term.key}:{value}” is unknown: {suggestion}Use one of {', '.join(sorted(known))}."
            raise SearchError(sentence, meant=instead, term=term)


def closest_value(value: str, known: Iterable[str]) -> str:
    """The known value with the most similar spelling, or nothing."""
    names = list(known)
    found = difflib.get_close_matches(value.lower(), names, n=1, cutoff=0.6)
    begun = [name for name in names if value and name.startswith(value.lower())]
    return next(iter([*found, *sorted(begun, key=len)]), "")
