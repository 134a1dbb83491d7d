"""What the keys of a query mean: each turns a term into a database condition and into words, and suggests values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import F, Q

from diagnosis import taxonomy
from diagnosis.model import STAGES, SYMPTOMS
from ingest.models import Job, Node, Team
from triage.models import Incident, Suspect
from triage.search.grammar import SearchError, Term

_COMPARISONS = {"": "", ">": "__gt", "<": "__lt", ">=": "__gte", "<=": "__lte"}
_COMPARED_WORDS = {"": "", ">": "above ", "<": "below ", ">=": "at least ", "<=": "at most "}
#: the day after has a date too, and in every zone
_LAST_YEAR = 9000
#: each makes a condition of its own, and a database takes no more than a thousand
MAX_STARS = 10
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


#: keys that speak of the job, and where Job keeps their values
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
    """Who asks, and when: what relative terms (``assignee:me``, ``opened:<7d``) refer to."""

    user_id: int | None
    now: datetime


@dataclass(frozen=True, slots=True)
class Key:
    """One word before the colon. ``condition`` takes a term and its asker; ``phrase`` says the term in words."""

    name: str
    explanation: str
    example: str
    condition: Callable[[Term, Asker], Q]
    phrase: Callable[[Term], str]
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = field(default=())


def _either(values: Iterable[str], one: Callable[[str], Q]) -> Q:
    joined = Q()
    for value in values:
        joined |= one(value)
    return joined


def _listed(values: Iterable[str]) -> str:
    return " or ".join(values)


def _no_operator(term: Term) -> None:
    if term.operator:
        raise SearchError(f"“{term.key}” is a name, not a number: write {term.key}:{term.values[0]}.")


def text_q(lookup: str, value: str) -> Q:
    """Equality without regard to case, or a pattern where ``value`` has ``*``.

    A pattern is put together from beginning, end and contained parts rather than made a regular expression: SQLite's
    would be Python's, which a pattern of many stars could keep busy for hours.
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


def _text(name: str, explanation: str, example: str, *lookups: str, said: str, choices: Iterable[str] = ()) -> Key:
    def condition(term: Term, asker: Asker) -> Q:
        _no_operator(term)
        return _either(term.values, lambda value: _either(lookups, lambda lookup: text_q(lookup, value)))

    return Key(name, explanation, example, condition, lambda term: f"{said} {_listed(term.values)}", tuple(choices))


def _job(name: str, explanation: str, example: str, *, said: str) -> Key:
    """A key that speaks of the job. Jobs are few: they are found first, and their incidents by them."""

    def condition(term: Term, asker: Asker) -> Q:
        _no_operator(term)
        named = _either(term.values, lambda value: _either(JOB_LOOKUPS[name], lambda lookup: text_q(lookup, value)))
        return Q(job__in=Job.objects.filter(named).order_by())

    return Key(name, explanation, example, condition, lambda term: f"{said} {_listed(term.values)}")


def _team(term: Term, asker: Asker) -> Q:
    """An incident's own team, which is its job's."""
    _no_operator(term)
    return Q(team__in=Team.objects.filter(_either(term.values, lambda value: text_q("slug", value))).order_by())


def _category(lookup: str) -> Callable[[Term, Asker], Q]:
    def condition(term: Term, asker: Asker) -> Q:
        _no_operator(term)

        def below(value: str) -> Q:
            if "*" in value:
                return text_q(lookup, value)
            return Q(**{lookup: value.lower()}) | Q(**{f"{lookup}__startswith": f"{value.lower()}."})

        return _either(term.values, below)

    return condition


def _category_words(said: str) -> Callable[[Term], str]:
    tree = taxonomy.load()
    return lambda term: f"{said} {_listed(' › '.join(tree.path(v)) if v in tree else v for v in term.values)}"


def _entity_q(value: str) -> Q:
    # names are looked up as written: the index on them knows no other way
    return Q(entity=value) if "*" not in value else text_q("entity", value)


def _node(term: Term, asker: Asker) -> Q:
    _no_operator(term)
    named = Suspect.objects.filter(_either(term.values, _entity_q), is_accused=True)
    return Q(pk__in=named.values("incident"))


def _number(name: str, explanation: str, example: str, lookup: str, *, said: str, aliases: tuple[str, ...] = ()) -> Key:
    def parse(raw: str) -> float:
        try:
            value = float(raw.replace(",", "").replace("_", "").removeprefix("#"))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise SearchError(f"“{name}:{raw}” is not a number: write {example}.")
        return value

    def condition(term: Term, asker: Asker) -> Q:
        def one(value: str) -> Q:
            low, dots, high = value.partition("..")
            if dots and not term.operator:
                return Q(**{f"{lookup}__gte": parse(low), f"{lookup}__lte": parse(high)})
            return Q(**{f"{lookup}{_COMPARISONS[term.operator]}": parse(value)})

        return _either(term.values, one)

    def phrase(term: Term) -> str:
        return f"with {said} {_COMPARED_WORDS[term.operator]}{_listed(term.values).replace('..', ' to ')}"

    return Key(name, explanation, example, condition, phrase, aliases=aliases)


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


def _time(name: str, explanation: str, lookup: str, *, said: str) -> Key:
    def one(value: str, operator: str, asker: Asker) -> Q:
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
            return f"{said} more than {span} ago" if operator.startswith(">") else f"{said} in the last {span}"
        low, dots, high = value.partition("..")
        if dots:
            return f"{said} from {low} to {high}"
        return f"{said} { {'': 'on', '>': 'after', '>=': 'since', '<': 'before', '<=': 'until'}[operator] } {value}"

    return Key(
        name,
        explanation,
        f"{name}:<7d",
        lambda term, asker: _either(term.values, lambda value: one(value, term.operator, asker)),
        lambda term: _listed(words(value, term.operator) for value in term.values),
        ("<24h", "<7d", "<30d", ">30d"),
    )


_State = Incident.State
_FLAGS: dict[str, tuple[str, Callable[[Asker], Q]]] = {
    "unreviewed": ("awaiting review", lambda asker: Q(state=_State.AWAITING_REVIEW)),
    "reviewed": ("reviewed", lambda asker: ~Q(state=_State.AWAITING_REVIEW)),
    "open": ("open", lambda asker: ~Q(state__in=[_State.RESOLVED, _State.REJECTED])),
    **{
        state.value: (state.label, lambda asker, state=state: Q(state=state))  # type: ignore[misc]
        for state in _State
        if state != _State.AWAITING_REVIEW
    },
    "regressed": ("regressed", lambda asker: Q(regressed_from__isnull=False)),
    "assigned": ("assigned", lambda asker: Q(assignee__isnull=False)),
    "unassigned": ("unassigned", lambda asker: Q(assignee__isnull=True)),
    "mine": ("assigned to me", lambda asker: Q(assignee_id=asker.user_id)),
    "snoozed": ("snoozed", lambda asker: Q(snoozed_until__gt=asker.now)),
    "grouped": ("merged into a group", lambda asker: Q(group__isnull=False)),
    "withdrawn": ("withdrawn by a later diagnosis", lambda asker: Q(is_withdrawn=True)),
    "imported": ("imported records", lambda asker: Q(is_imported=True)),
}


def _is(term: Term, asker: Asker) -> Q:
    unknown = [value for value in term.values if value not in _FLAGS]
    if unknown:
        raise SearchError(f"“is:{unknown[0]}” is unknown: use one of {', '.join(sorted(_FLAGS))}.")
    return _either(term.values, lambda value: _FLAGS[value][1](asker))


def _assignee(term: Term, asker: Asker) -> Q:
    _no_operator(term)

    def one(value: str) -> Q:
        if value in {"me", "none"}:
            return Q(assignee_id=asker.user_id) if value == "me" else Q(assignee__isnull=True)
        return text_q("assignee__username", value)

    return _either(term.values, one)


def _was(term: Term, asker: Asker) -> Q:
    """``verdict:right`` and ``verdict:wrong`` compare the machine's category with the one that stands.

    Imported faults and what the machine left unnamed are no verdicts of the machine.
    """
    is_judged = ~Q(state__in=Incident.OPEN) & Q(is_imported=False) & ~Q(category=taxonomy.UNKNOWN)
    is_right = Q(state__in=Incident.STOOD, category=F("standing_category"))
    right, wrong = is_judged & is_right, is_judged & ~is_right
    meanings = {"right": right, "wrong": wrong}
    if unknown := [value for value in term.values if value not in meanings]:
        raise SearchError(f"“verdict:{unknown[0]}” is unknown: use right or wrong.")
    return _either(term.values, lambda value: meanings[value])


def _chosen(term: Term) -> str:
    return _listed(_FLAGS[value][0] if value in _FLAGS else value for value in term.values)


def _named(said: str) -> Callable[[Term], str]:
    return lambda term: f"{said} {_listed(term.values)}"


_CATEGORIES = tuple(node.id for node in taxonomy.load())

ALL = (
    Key("is", "the state of an incident", "is:unreviewed", _is, _chosen, tuple(_FLAGS)),
    Key(
        "category",
        "the category that stands, with all below it",
        "category:hardware.gpu",
        _category("standing_category"),
        _category_words("in"),
        _CATEGORIES,
    ),
    Key(
        "machine",
        "the category that the machine named, whatever stands",
        "machine:network",
        _category("category"),
        _category_words("taken by the machine for"),
        _CATEGORIES,
    ),
    Key(
        "node",
        "an accused node, rank, group or switch",
        "node:gpu-0412",
        _node,
        _named("accusing"),
        aliases=("suspect",),
    ),
    _job("job", "the job's address or name", "job:llama-*", said="of job"),
    _job("family", "the family of comparable jobs", "family:llama-70b", said="in family"),
    _job("framework", "the training framework", "framework:megatron", said="on"),
    _job("model", "the model trained", "model:llama-70b", said="training"),
    _text("cluster", "the cluster", "cluster:default", "cluster__slug", said="on cluster"),
    Key("team", "the team of the job", "team:pretraining", _team, _named("of team")),
    _text("symptom", "how it showed", "symptom:hang", "symptom", said="showing as", choices=SYMPTOMS),
    _text("stage", "the stage it failed in", "stage:training", "stage", said="in stage", choices=STAGES),
    _number(
        "iter",
        "the iteration it failed at",
        "iter:>1200",
        "iteration",
        said="iteration",
        aliases=("iteration",),
    ),
    _number("confidence", "how sure the machine is, 0 to 1", "confidence:<0.6", "confidence", said="confidence"),
    _number("nodes", "how many nodes the job had", "nodes:>=64", "node_count", said="a number of nodes"),
    _number("gpu_hours", "GPU-hours lost", "gpu_hours:>100", "gpu_hours", said="GPU-hours lost"),
    replace(
        _number("group", "the group it was merged into", "group:7", "group_id", said="group"),
        phrase=lambda term: f"in group {_listed(term.values)}",
    ),
    _number("number", "the incident's number", "number:142", "pk", said="number"),
    _time("happened", "when it happened", "happened_at", said="that happened"),
    _time("opened", "when Faultline first knew of it", "opened_at", said="opened"),
    Key(
        "assignee",
        "who looks after it: a name, me or none",
        "assignee:me",
        _assignee,
        _named("assigned to"),
        ("me", "none"),
    ),
    Key(
        "verdict",
        "whether the machine was right, by its reviewers",
        "verdict:wrong",
        _was,
        _named("where the machine was"),
        ("right", "wrong"),
    ),
    _text("fingerprint", "the fingerprint of the failure", "fingerprint:3f9a*", "fingerprint", said="with fingerprint"),
)

BY_NAME: dict[str, Key] = {name: key for key in ALL for name in (key.name, *key.aliases)}


def key_of(term: Term) -> Key:
    """The key of a term; raises SearchError naming the known keys."""
    try:
        return BY_NAME[term.key]
    except KeyError:
        known = ", ".join(key.name for key in ALL)
        raise SearchError(
            f"“{term.key}:” is not a key. Known keys: {known}. To search for the text itself, put it in quotes."
        ) from None


def visible_values(key: Key, jobs: Any, prefix: str, limit: int) -> list[str]:
    """Values in use for the keys whose values are names, among the ``jobs`` that the asker may see."""
    if key.name == "node":
        nodes = Node.objects.filter(cluster__in=jobs.order_by().values("cluster"), name__istartswith=prefix)
        return list(nodes.order_by("name").values_list("name", flat=True).distinct()[:limit])
    if lookups := JOB_LOOKUPS.get(key.name):
        lookup = lookups[0]
        named = jobs.filter(**{f"{lookup}__istartswith": prefix}).exclude(**{lookup: ""}).exclude(**{lookup: None})
        return list(named.order_by(lookup).values_list(lookup, flat=True).distinct()[:limit])
    return []
