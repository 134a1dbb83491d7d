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
#: Weight of a machine's fault that training outlived, how long before training stopped it may have come, and what
#: counts as one.
FLAP: Final = 0.3
FLAP_S: Final = 300.0
MACHINES: Final = r"^(network|hardware)"
#: A machine that is called back, drained or due for maintenance is announced minutes before it goes.
ANNOUNCED: Final = r"^platform\.scheduler\.preemption"
#: How a kernel greets.
BOOT: Final = r"\bLinux version \d|\bBooting Linux\b"
#: What nodes say that wait for others.
WAITING: Final = r"^framework\.(rendezvous|collective|elastic)"
#: Writers of consequences needed to call one odd, the share of them that nearly all are, and the share that is odd.
WRITERS: Final = 4
NEARLY_ALL: Final = 0.7
ODD: Final = 0.1
#: Silence before the first consequence from which on the only one that speaks is telling.
SILENCE_S: Final = 60.0


def flapped(
    events: pl.DataFrame,
    weights: pl.Series,
    recovered: pl.Series,
    consequence_at: int,
    total: int,
    stopped_at: int | None = None,
) -> pl.Series:
    """The weights where nothing has one: a part of a machine or of the network that failed on few nodes shortly before
    training stopped (ns; else before the first consequence), or a machine's end that was announced then, explains it,
    although training went on at first.
    """
    lead = (consequence_at if stopped_at is None else min(stopped_at, consequence_at)) - pl.col("last_at")
    category = pl.col("category").fill_null("")
    few = max(1, int(roots.CONCENTRATED * total))
    is_flap = (
        pl.Series(recovered)
        & (pl.col("role") == Role.ROOT.value)
        & (pl.col("strength") == "decisive")
        & (
            (category.str.contains(MACHINES) & pl.col("n_nodes").is_between(1, few))
            | (category.str.contains(ANNOUNCED) & (pl.col("n_nodes") <= few))
        )
        & lead.is_between(-int(roots.AFTER_S * SECOND), int(FLAP_S * SECOND))
    )
    flap = pl.when(is_flap.fill_null(False)).then(FLAP * pl.col("novelty").fill_null(0.0)).otherwise(pl.lit(weights))
    return events.select(flap.alias("weight")).to_series()


def rebooted(events: pl.DataFrame, weights: pl.Series, *, stopped_at: int | None, total: int) -> pl.Series:
    """The weights where a kernel of few nodes greets anew after training stopped (ns): whatever was, its machine went
    down. In the order of ``events``.
    """
    if stopped_at is None:
        return weights
    is_here = (
        pl.col("is_system")
        & pl.col("example").str.contains(BOOT)
        & pl.col("is_stamped")
        & (pl.col("first_at") > stopped_at)
        & pl.col("n_nodes").is_between(1, max(1, int(roots.CONCENTRATED * total)))
    )
    return _raised(events, weights, is_here, roots.KILLED)


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


def without_summaries(catalogue: Catalogue, weights: pl.Series) -> pl.Series:
    """The weights without those of plain lines that no rule knows and that all their writers print only after they
    began to end their workers: a launcher's summary repeats what was, and tells no cause. O(cells).
    """
    ends = catalogue.events.filter((pl.col("role") == Role.TEARDOWN.value) & ~pl.col("is_ordinary"))["event"]
    plain = catalogue.events.filter(pl.col("role").is_null() & ~pl.col("is_exception"))["event"]
    began = (
        catalogue.cells.filter(pl.col("event").is_in(ends.implode()))
        .group_by("file", "source")
        .agg(end_line=pl.col("first_line").min())
    )
    after = (
        catalogue.cells.filter(pl.col("event").is_in(plain.implode()))
        .join(began, on=["file", "source"], how="left")
        .group_by("event")
        .agg(is_after=(pl.col("first_line") > pl.col("end_line")).fill_null(False).all())
        .filter("is_after")["event"]
    )
    left = pl.when(pl.col("event").is_in(after.implode())).then(0.0).otherwise(pl.lit(weights))
    return catalogue.events.select(left.alias("weight")).to_series()


def without_waiting(catalogue: Catalogue, weights: pl.Series) -> pl.Series:
    """The weights where many nodes report that they wait for others, and the few that do not wait tell an error of
    their own, not later: then it is they who were waited for, and the waiting is an echo. O(cells).
    """
    events = catalogue.events.with_columns(weight=weights)
    is_root = (pl.col("role") == Role.ROOT.value) & (pl.col("weight") >= roots.LEAST)
    waits = events.filter(is_root & pl.col("category").fill_null("").str.contains(WAITING))
    total = len(catalogue.nodes)
    echoes: list[int] = []
    for wait in waits.iter_rows(named=True):
        waiting = _nodes_of(catalogue, [wait["event"]])
        apart = set(catalogue.nodes) - waiting
        if total < 3 or not roots.few(len(apart), total):
            continue
        # the same words at another place are of one more who waits
        own = events.filter(is_root & (pl.col("signature") != wait["signature"]) & (pl.col("strength") != "weak"))
        for row in own.iter_rows(named=True):
            here = _nodes_of(catalogue, [row["event"]])
            is_first = None in (row["first_at"], wait["first_at"]) or row["first_at"] <= wait["first_at"]
            if here and here <= apart and is_first:
                echoes.append(wait["event"])
    if not echoes:
        return weights
    left = pl.when(pl.col("event").is_in(echoes)).then(0.0).otherwise(pl.lit(weights))
    return catalogue.events.select(left.alias("weight")).to_series()


def odd_word(catalogue: Catalogue, weights: pl.Series, survived: Collection[int]) -> pl.Series:
    """The weights where only consequences are known: what few writers say of the end in other words than nearly all,
    whose words they do not say, gains one. They did not see it from outside, as schedulers and orchestrators do. Where
    a node is silent, that tells more, and nothing changes. O(cells).
    """
    ends = catalogue.events.filter(
        (pl.col("role") == Role.CASCADE.value)
        & ~pl.col("is_system")
        & ~pl.col("is_ordinary")
        & (pl.col("jobs_with_it") == 0)
        & ~pl.col("event").is_in(sorted(survived))
        & ~pl.col("template").str.contains(STRUCTURE)
    )
    # a rank whose lines come under several headers is one writer
    writer = pl.when(pl.col("rank").is_null()).then(-1 - pl.col("source").cast(pl.Int64)).otherwise(pl.col("rank"))
    mine = catalogue.cells.filter(pl.col("event").is_in(ends["event"].implode())).with_columns(writer=writer)
    writers = mine["writer"].n_unique()
    silent = set(catalogue.nodes) - set(mine["node"].drop_nulls().to_list())
    if writers < WRITERS or silent:
        return weights
    said = mine.group_by("event").agg(by=pl.col("writer").unique(), n=pl.col("writer").n_unique())
    wide = said.filter(pl.col("n") >= NEARLY_ALL * writers)
    of_all = set(wide["by"].explode().to_list()) if wide.height else set()
    odd = [e for e, by, n in said.iter_rows() if n <= max(1, ODD * writers) and of_all and not of_all & set(by)]
    return _raised(catalogue.events, weights, pl.col("event").is_in(odd), STANDS_IN)


def _nodes_of(catalogue: Catalogue, events: Collection[int]) -> set[str]:
    rows = catalogue.cells.filter(pl.col("event").is_in(list(events)))
    return set(rows["node"].drop_nulls().unique().to_list())


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
    """The event to read where a log holds consequences alone: of one writer the first that says what went wrong, else
    the first at all; of several nodes the earliest, and None where none states its time.
    """
    is_several = len(catalogue.nodes) > 1
    rows = catalogue.events.filter(
        (pl.col("role") == Role.CASCADE.value)
        & (pl.col("category") != UNKNOWN)
        & ~pl.col("is_ordinary")
        & (pl.col("jobs_with_it") == 0)
        & ~pl.col("template").str.contains(STRUCTURE)
        & ~pl.col("event").is_in(sorted(survived))
    )
    if is_several:
        found = rows.filter("is_stamped").drop_nulls("first_at").sort("first_at", "event")["event"]
    else:
        found = rows.with_columns(is_weak=pl.col("strength") == "weak").sort("is_weak", "first_line", "event")["event"]
    return None if found.is_empty() else int(found[0])


def elsewhere(catalogue: Catalogue, nodes: Collection[str]) -> set[int]:
    """Confirmations that none of ``nodes``, where the cause lies, prints: they are of another story. O(cells)."""
    if not nodes:
        return set()
    told = catalogue.events.filter(pl.col("role") == Role.CONFIRMATION.value)["event"]
    here = (
        catalogue.cells.filter(pl.col("event").is_in(told.implode()))
        .drop_nulls("node")
        .group_by("event")
        .agg(is_here=pl.col("node").is_in(list(nodes)).any())
    )
    return set(here.filter(~pl.col("is_here"))["event"].to_list())
