"""What leads where no root stands: what one node alone says in the silence before the end.

A file server that does not answer, a task blocked for minutes: beside a cause of their own such lines only confirm it,
and healthy jobs survive them. Where a job stopped and nothing else explains why, the few nodes that print them between
the last progress and the first consequence are the ones that were waited for. So is the one node that, in a long
silence, says something that no rule knows and no healthy job prints. A log of consequences alone is read from the
first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import polars as pl

from diagnosis.history import POOL_MIN
from diagnosis.logs import roots
from diagnosis.logs.catalogue import STRUCTURE, Catalogue
from diagnosis.logs.clocks import SECOND
from diagnosis.model import Role
from diagnosis.taxonomy import UNKNOWN

#: Weight of a confirmation that stands in for a cause.
STANDS_IN: Final = 0.36
#: How long after the first consequence such a line may come, since clocks differ by a little.
AFTER_S: Final = 3.0
#: Silence before the first consequence from which on the only one that speaks is telling.
SILENCE_S: Final = 60.0


def confirmed(
    events: pl.DataFrame,
    weights: pl.Series,
    recovered: pl.Series,
    *,
    since: int | None,
    consequence_at: int | None,
    total: int,
) -> pl.Series:
    """The weights where nothing has one: confirmations of few nodes, no healthy job's, between ``since`` and
    ``consequence_at`` (ns; None: not known), gain one. In the order of ``events``.
    """
    is_here = (
        (pl.col("role") == Role.CONFIRMATION.value)
        & pl.col("category").is_not_null()
        & (pl.col("strength") != "weak")
        & (pl.col("jobs_with_it") == 0)
        & pl.col("n_nodes").is_between(1, max(1, int(roots.CONCENTRATED * total)))
        & ~pl.Series(recovered)
        & ~pl.col("example").str.contains(roots.DEATH)
        & pl.col("is_stamped")
    )
    if consequence_at is not None:
        is_here &= pl.col("first_at") <= consequence_at + int(AFTER_S * SECOND)
    if since is not None:
        is_here &= pl.col("first_at") >= since
    return _raised(events, weights, is_here, STANDS_IN)


def without_reactions(
    events: pl.DataFrame, weights: pl.Series, named: Mapping[int, tuple[str, ...]], total: int
) -> pl.Series:
    """The weights where consequences have no time: what a launcher says in words that no rule knows, naming no node,
    beside consequences on most nodes, is taken for its answer to them and loses its weight.
    """
    is_answer = (
        (pl.col("n_nodes") == 0)
        & pl.col("role").is_null()
        & ~pl.col("event").is_in([event for event, nodes in named.items() if nodes])
    )
    if not roots.has_wide_echo(events, total):
        return weights
    is_sign = pl.lit(weights) <= roots.UNKNOWN_SIGN
    return events.select(pl.when(is_answer & is_sign).then(0.0).otherwise(pl.lit(weights)).alias("weight")).to_series()


def spoken_alone(
    catalogue: Catalogue, weights: pl.Series, *, silent_since: int | None, consequence_at: int, healthy: int
) -> pl.Series:
    """The weights where nothing has one: messages of one node alone, unknown to rules and healthy jobs, in a silence
    (ns) of :data:`SILENCE_S` or more gain one. All of them must be of one node, or none counts.
    """
    if silent_since is None or healthy < POOL_MIN or consequence_at - silent_since < SILENCE_S * SECOND:
        return weights
    events = catalogue.events
    is_here = (
        pl.col("role").is_null()
        & (pl.col("jobs_with_it") == 0)
        & (pl.col("n_nodes") == 1)
        & pl.col("is_stamped")
        & ~pl.col("is_system")
        & pl.col("first_at").is_between(silent_since, consequence_at, closed="none")
        & ~pl.col("template").str.contains(STRUCTURE)
    )
    said = events.filter(is_here.fill_null(False))["event"]
    nodes = catalogue.cells.filter(pl.col("event").is_in(said.implode()))["node"].drop_nulls().n_unique()
    return _raised(events, weights, is_here, roots.UNKNOWN_SIGN) if nodes == 1 else weights


def _raised(events: pl.DataFrame, weights: pl.Series, is_here: pl.Expr, weight: float) -> pl.Series:
    stands = pl.when(is_here.fill_null(False)).then(pl.lit(weight)).otherwise(pl.lit(weights))
    return events.select(stands.alias("weight")).to_series()


def first_consequence(catalogue: Catalogue, survived: Collection[int]) -> int | None:
    """The event to read where one writer's log holds consequences alone: the first that says what went wrong, else the
    first at all; None where several nodes write, for then their order tells more than any of them.
    """
    if len(catalogue.nodes) > 1:
        return None
    rows = catalogue.events.filter(
        (pl.col("role") == Role.CASCADE.value)
        & (pl.col("category") != UNKNOWN)
        & ~pl.col("is_ordinary")
        & (pl.col("jobs_with_it") == 0)
        & ~pl.col("template").str.contains(STRUCTURE)
        & ~pl.col("event").is_in(sorted(survived))
    )
    found = rows.with_columns(is_weak=pl.col("strength") == "weak").sort("is_weak", "first_line", "event")["event"]
    return None if found.is_empty() else int(found[0])
