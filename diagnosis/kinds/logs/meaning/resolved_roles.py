"""The roles of events in the context of one failure: which root yields to another, what a stop
explains, and who only waited.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Any

import polars as pl
from msgspec.structs import replace

from diagnosis import taxonomy
from diagnosis.kinds.logs.meaning.catalogue import Catalogue, event_starts
from diagnosis.kinds.logs.meaning.signatures import SignatureSet
from diagnosis.kinds.logs.meaning.signatures.model import Signature, Strength
from diagnosis.model import Level, Role


def resolve_roles(
    catalogue: Catalogue,
    rules: SignatureSet,
    survived: Collection[int] = (),
    late: Collection[int] = (),
) -> Catalogue:
    """Roles in the context of this failure: a root that yields to another matching rule becomes a cascade. Ordinary
    events, and those that training survived, explain nothing. ``own_role`` keeps the role of the rule itself. An
    explicit stop explains only what follows it, never an earlier cause or death; and later events are not the reason
    for the stop. Who waited for others explains nothing if an error was raised before, nor does
    what is ``late``: its process had ended by then. O(events × rules).
    """
    events = catalogue.events
    if "own_role" not in events.columns:
        events = events.with_columns(own_role="role")
    is_over = pl.col("event").is_in([*survived, *late])
    is_here = pl.col("signature").is_not_null() & ~pl.col("is_ordinary") & ~is_over
    here = events.with_columns(began=event_starts(catalogue)).filter(is_here)
    first = dict(here.group_by("signature").agg(pl.col("began").min()).iter_rows())
    waiting = _explained_waits(here, first)
    roles = rules.resolve(set(first) - waiting) | dict.fromkeys(waiting, Role.CASCADE)
    roles |= _roles_around_stop(rules, first)
    other_rule = pl.col("signature").replace_strict(
        {k: v.value for k, v in roles.items()}, default=None, return_dtype=pl.String
    )
    resolved = pl.coalesce(other_rule if roles else pl.lit(None), "own_role")
    as_late = pl.when(pl.col("event").is_in(list(late))).then(pl.lit(Role.CASCADE.value))
    own_role, role = as_late.otherwise("own_role"), as_late.otherwise(resolved)
    return replace(catalogue, events=events.with_columns(own_role=own_role, role=role))


def _roles_around_stop(rules: SignatureSet, first: Mapping[str, int | None]) -> dict[str, Role]:
    """The roles of what was stopped, and of causes before the first explicit stop; none without one.
    ``first``: when each rule's first event began.
    """
    stops = {rule.id for rule in rules.known(first) if _has_trait(rule, "decision")}
    stopped_at = min((at for rule_id, at in first.items() if rule_id in stops and at is not None), default=None)
    if stopped_at is None:
        return {}
    earlier = {rule_id for rule_id, at in first.items() if at is not None and at < stopped_at}
    not_later = {rule_id for rule_id, at in first.items() if at is None or at <= stopped_at}
    sure = {rule.id for rule in rules.known(earlier - stops) if _is_sure_cause(rule)}
    causes = rules.resolve(set(first) - stops)
    until_stop = rules.resolve(not_later)
    return _only(causes, sure) | _only(until_stop, stops)


def _has_trait(rule: Signature, trait: str) -> bool:
    return trait in taxonomy.load().get(rule.category).traits


def _is_sure_cause(rule: Signature) -> bool:
    return rule.strength is not Strength.WEAK or _has_trait(rule, "death")


def _only(roles: Mapping[str, Role], chosen: Set[str]) -> dict[str, Role]:
    return {rule_id: role for rule_id, role in roles.items() if rule_id in chosen}


def _explained_waits(here: pl.DataFrame, first: Mapping[str, int | None]) -> set[str]:
    """The rules by which processes say that they waited for others in vain, after another error was
    raised: whoever raised it did not come. Where the order is not known, only what a rule knows
    well is such an error. ``first``: when the events ``here`` of each rule began.
    """
    names = taxonomy.load().having("waits", here["category"])
    if not names:
        return set()
    is_wait = pl.col("category").is_in(names)
    is_cause = pl.col("own_role") == Role.ROOT
    is_error = (pl.col("level") >= Level.ERROR) | (pl.col("level") == Level.NONE)
    raised = here.filter(is_cause & ~is_wait & is_error, "is_exception")
    # a line without a time comes before the next one that states its own
    at: Any = raised.select(pl.coalesce("began", pl.col("until_at") - 1)).to_series().min()
    is_known_well = bool((raised["strength"] != Strength.WEAK).any())
    found = set()
    for signature in here.filter(is_cause & is_wait)["signature"].unique():
        began = first[signature]
        is_explained = is_known_well
        if at is not None and began is not None:
            is_explained = bool(at < began)
        if is_explained:
            found.add(signature)
    return found
