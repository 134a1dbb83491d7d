"""The keys of a query: each turns a term into a database condition and into words, and suggests values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.db.models import F, Q

from diagnosis import taxonomy
from diagnosis.conclusion.model import CONDITIONS
from diagnosis.model import STAGES, SYMPTOMS
from ingest.models import Node, Team
from triage.models import Incident, Suspect
from triage.search import evidence_words
from triage.search.grammar import SearchError, Term
from triage.search.kinds import (
    JOB_LOOKUPS,
    Asker,
    Key,
    any_of,
    category_condition,
    category_phrase,
    closest_value,
    job_key,
    list_values,
    name_phrase,
    number_key,
    refuse_operator,
    refuse_unknown,
    text_key,
    text_q,
    time_key,
)


def _team(term: Term, asker: Asker) -> Q:
    """An incident's own team, which is its job's."""
    refuse_operator(term)
    return Q(team__in=Team.objects.filter(any_of(term.values, lambda value: text_q("slug", value))).order_by())


def _evidence(term: Term, asker: Asker) -> Q:
    refuse_operator(term)
    return evidence_words.word_q(term, "said")


def _entity_q(value: str) -> Q:
    # names are matched exactly: the index cannot do otherwise
    return Q(entity=value) if "*" not in value else text_q("entity", value)


def _node(term: Term, asker: Asker) -> Q:
    refuse_operator(term)
    named = Suspect.objects.filter(any_of(term.values, _entity_q), is_accused=True)
    return Q(pk__in=named.values("incident"))


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
    "duplicate": ("of evidence that an earlier job has", lambda asker: Q(duplicate_of__isnull=False)),
    "imported": ("imported records", lambda asker: Q(is_imported=True)),
}


def _is(term: Term, asker: Asker) -> Q:
    refuse_unknown(term, _FLAGS)
    return any_of(term.values, lambda value: _FLAGS[value][1](asker))


def _assignee(term: Term, asker: Asker) -> Q:
    refuse_operator(term)

    def one(value: str) -> Q:
        if value in {"me", "none"}:
            return Q(assignee_id=asker.user_id) if value == "me" else Q(assignee__isnull=True)
        return text_q("assignee__username", value)

    return any_of(term.values, one)


def _verdict(term: Term, asker: Asker) -> Q:
    """``verdict:right`` and ``verdict:wrong`` compare the machine's category with the one that stands.

    Imported faults and incidents without a machine's category have no verdict.
    """
    is_judged = ~Q(state__in=Incident.OPEN) & Q(is_imported=False) & ~Q(category=taxonomy.UNKNOWN)
    is_right = Q(state__in=Incident.STOOD, category=F("standing_category"))
    right, wrong = is_judged & is_right, is_judged & ~is_right
    meanings = {"right": right, "wrong": wrong}
    refuse_unknown(term, meanings)
    return any_of(term.values, lambda value: meanings[value])


def _machine_key(key: Key) -> Key:
    """A key of what the machine said: it said nothing of an imported fault."""

    def condition(term: Term, asker: Asker) -> Q:
        return key.condition(term, asker) & Q(is_imported=False)

    return replace(key, condition=condition)


def _flag_phrase(term: Term) -> str:
    return list_values(_FLAGS[value][0] if value in _FLAGS else value for value in term.values)


_CATEGORIES = tuple(node.id for node in taxonomy.load())

ALL = (
    Key("is", "the state of an incident", "is:unreviewed", _is, _flag_phrase, tuple(_FLAGS), is_closed=True),
    Key(
        "category",
        "the current category, including subcategories",
        "category:hardware.gpu",
        category_condition("standing_category"),
        category_phrase("in"),
        _CATEGORIES,
        is_closed=True,
    ),
    _machine_key(
        Key(
            "machine",
            "the category that the machine named, even if corrected",
            "machine:network",
            category_condition("category"),
            category_phrase("taken by the machine for"),
            _CATEGORIES,
            is_closed=True,
        )
    ),
    Key(
        "node",
        "an accused node, rank, group or switch",
        "node:gpu-0412",
        _node,
        name_phrase("accusing"),
        aliases=("suspect",),
    ),
    Key(
        "rank",
        "a rank that is accused, or that lines of the root cause name",
        "rank:5",
        lambda term, asker: evidence_words.rank_q(term),
        lambda term: f"naming rank {list_values(term.values).replace('..', ' to ')}",
    ),
    Key(
        "said",
        "words in the evidence lines only; in quotes exactly these",
        'said:"fallen off the bus"',
        _evidence,
        lambda term: f"with a line that says {list_values(f'“{value}”' for value in term.values)}",
    ),
    Key(
        "signature",
        "the rule that matched a message",
        "signature:nvidia.xid.79",
        lambda term, asker: evidence_words.signature_q(term),
        name_phrase("with a message of the rule"),
    ),
    job_key("job", "the job's address or name", "job:llama-*", phrase="of job"),
    job_key("family", "the family of comparable jobs", "family:llama-70b", phrase="in family"),
    job_key("framework", "the training framework", "framework:megatron", phrase="on"),
    job_key("model", "the model trained", "model:llama-70b", phrase="training"),
    text_key("cluster", "the cluster", "cluster:default", "cluster__slug", phrase="on cluster"),
    Key("team", "the team of the job", "team:pretraining", _team, name_phrase("of team")),
    text_key(
        "condition",
        "how the job was or ended",
        "condition:hung",
        "condition",
        phrase="whose job was",
        choices=CONDITIONS,
    ),
    text_key("symptom", "how it showed", "symptom:hang", "symptom", phrase="showing as", choices=SYMPTOMS),
    text_key("stage", "the stage it failed in", "stage:training", "stage", phrase="in stage", choices=STAGES),
    number_key(
        "iter",
        "the iteration it failed at",
        "iter:>1200",
        "iteration",
        phrase="iteration",
        aliases=("iteration",),
    ),
    _machine_key(
        number_key(
            "confidence", "how sure the machine is, 0 to 1", "confidence:<0.6", "confidence", phrase="confidence"
        )
    ),
    number_key("nodes", "how many nodes the job had", "nodes:>=64", "node_count", phrase="a number of nodes"),
    number_key("gpu_hours", "GPU-hours lost", "gpu_hours:>100", "gpu_hours", phrase="GPU-hours lost"),
    replace(
        number_key("group", "the group it was merged into", "group:7", "group_id", phrase="group"),
        phrase=lambda term: f"in group {list_values(term.values)}",
    ),
    number_key("number", "the incident's number", "number:142", "pk", phrase="number"),
    time_key("happened", "when it happened", "happened_at", phrase="that happened"),
    time_key("opened", "when Faultline opened it", "opened_at", phrase="opened"),
    Key(
        "assignee",
        "who looks after it: a name, me or none",
        "assignee:me",
        _assignee,
        name_phrase("assigned to"),
        ("me", "none"),
    ),
    Key(
        "verdict",
        "whether the machine was right, by its reviewers",
        "verdict:wrong",
        _verdict,
        name_phrase("where the machine was"),
        ("right", "wrong"),
        is_closed=True,
    ),
    text_key(
        "fingerprint", "the fingerprint of the failure", "fingerprint:3f9a*", "fingerprint", phrase="with fingerprint"
    ),
)

#: closed keys (without those that refuse other values): their values and the parents of these
CLOSED: dict[str, frozenset[str]] = {
    key.name: frozenset(value.rsplit(".", n)[0] for value in key.choices for n in range(value.count(".") + 1))
    for key in ALL
    if key.is_closed and key.name not in {"is", "verdict"}
}
BY_NAME: dict[str, Key] = {name: key for key in ALL for name in (key.name, *key.aliases)}


def key_of(term: Term) -> Key:
    """The key of a term; raises SearchError with the known keys."""
    try:
        return BY_NAME[term.key]
    except KeyError:
        known, near = ", ".join(key.name for key in ALL), closest_value(term.key, BY_NAME)
        suggestion = f"Did you mean {near}:? " if near else ""
        meant = str(replace(term, key=near)) if near else ""
        raise SearchError(
            f"“{term.key}:” is not a key. {suggestion}Known keys: {known}. "
            "To search for the text itself, put it in quotes.",
            meant=meant,
            term=term,
        ) from None


def visible_values(key: Key, jobs: Any, prefix: str, limit: int) -> list[str]:
    """Values in use for keys that hold names, among the ``jobs`` that the user may see."""
    if key.name == "node":
        nodes = Node.objects.filter(cluster__in=jobs.order_by().values("cluster"), name__istartswith=prefix)
        return list(nodes.order_by("name").values_list("name", flat=True).distinct()[:limit])
    if lookups := JOB_LOOKUPS.get(key.name):
        lookup = lookups[0]
        named = jobs.filter(**{f"{lookup}__istartswith": prefix}).exclude(**{lookup: ""}).exclude(**{lookup: None})
        return list(named.order_by(lookup).values_list(lookup, flat=True).distinct()[:limit])
    return []
