"""Chooses the leading root events from all events together, and a fallback if there is none.

Two ordered tables. :data:`CORRECTIONS` change weights before the leader is chosen, because an event
alone does not show its context. :data:`FALLBACKS` are tried in order if no event leads although the
job failed: the first that finds a leader wins. With a real cause such lines only confirm it, and
healthy jobs survive them. If a job stopped and nothing else explains why, the others waited for
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final

import msgspec
import polars as pl
from msgspec.structs import replace

from diagnosis import thresholds
from diagnosis.kinds.logs.causes import lifecycles
from diagnosis.kinds.logs.causes.failure_facts import FailureFacts
from diagnosis.kinds.logs.causes.root_events import candidates, ranker, roots
from diagnosis.kinds.logs.causes.root_events.roots import Roots
from diagnosis.kinds.logs.meaning.catalogue import event_starts, rows_of
from diagnosis.kinds.logs.meaning.signatures.model import Strength
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.model import Level, Role
from diagnosis.taxonomy import UNKNOWN

THRESHOLDS: Final = thresholds.of("fallbacks")
LAUNCHER_STOPPED: Final = "launcher_stopped"


class Rule(msgspec.Struct, frozen=True):
    """``act`` returns weights in the order of the events, or None if the rule does not apply."""

    id: str
    why: str
    act: Callable[[FailureFacts, pl.Series], pl.Series | None]


def choose(facts: FailureFacts, weights: pl.Series) -> Roots:
    """The root events: of those that weigh enough after corrections the likeliest, else those of
    the first fallback that finds a leader.
    O(events × ways).
    """
    corrected = weights
    for rule in _active(CORRECTIONS, facts):
        changed = rule.act(facts, corrected)
        corrected = corrected if changed is None else changed
    if facts.total <= 1:
        chosen = _likeliest(facts, corrected, _mere_ends(facts, weights, corrected))
    else:
        chosen = roots.choose(facts, corrected)
    for rule in _active(FALLBACKS, facts):
        changed = rule.act(facts, corrected) if chosen.leader is None else None
        if changed is not None:
            chosen = replace(roots.choose(facts, changed, by=rule.id), scores=chosen.scores)
    return chosen


def _mere_ends(facts: FailureFacts, weights: pl.Series, corrected: pl.Series) -> frozenset[int]:
    """Decisions, as of a time limit, that only ended a job that was lost before."""
    is_lowered = pl.lit(corrected) < pl.lit(weights)
    return frozenset(facts.events.filter(is_lowered & facts.catalogue.has("decision"))["event"].to_list())


def _likeliest(facts: FailureFacts, weights: pl.Series, ends: Set[int]) -> Roots:
    """The root events of a job of one machine, whose order is fitted: of several machines the typed
    weights are right more often, because they compare nodes. ``ends`` come after all others.
    """
    table = candidates.candidates(facts)
    scores = ranker.scores(table)
    span = max(scores.values(), default=0.0) - min(scores.values(), default=0.0)
    ordered = {event: score - span if event in ends else score for event, score in scores.items()}
    chosen = roots.choose(facts, weights, ordered, _explained(facts))
    if chosen.leader is None:
        return chosen
    return replace(chosen, reasons=ranker.reasons(table, chosen.leader))


def _explained(facts: FailureFacts) -> frozenset[int]:
    """Causes that another rule explains, and that training did not survive. A decision to stop what
    a decisive cause had broken is only the end, and an exception whose own message names a clear
    cause below it is only its form.
    """
    is_root = (pl.col("role") == Role.ROOT) & ~facts.is_survived
    is_explained = (pl.col("own_role") == Role.ROOT) & (pl.col("role") == Role.CASCADE)
    known = facts.events.filter(is_root & (pl.col("strength") != Strength.WEAK))
    is_mere_end = facts.catalogue.has("decision") & (Strength.DECISIVE in known["strength"].to_list())
    rivals = facts.events.filter(is_explained & ~facts.is_survived & ~is_mere_end)["event"]
    if rivals.is_empty():
        return frozenset()
    return frozenset(set(rivals) - _just_above(facts.catalogue.occurrences, rivals, known["event"]))


def _just_above(occurrences: pl.DataFrame, events: pl.Series, others: pl.Series) -> set[int]:
    """The events that stand in the line above one of the others. O(occurrences)."""
    below = occurrences.filter(pl.col("event").is_in(others.implode()))
    above = occurrences.filter(pl.col("event").is_in(events.implode()))
    lines = below.select("file", last_line=pl.col("first_line") - 1)
    return set(above.join(lines, on=["file", "last_line"], how="semi")["event"])


def _active(rules: Sequence[Rule], facts: FailureFacts) -> list[Rule]:
    return [rule for rule in rules if rule.id not in facts.without]


def _stopped_on_request(facts: FailureFacts, weights: pl.Series) -> pl.Series | None:
    """A person or a limit ended the job: messages printed while stopping are no cause. But if
    training had stalled, a cause was seen or consequences came long before, the stop was only the
    end.
    """
    events = facts.events.with_columns(weight=weights, at=event_starts(facts.catalogue))
    is_stop = (
        facts.catalogue.has("decision") & (pl.col("weight") >= roots.THRESHOLDS.least) & (pl.col("jobs_with_it") == 0)
    )
    at = events.filter(is_stop)["at"].min()
    if at is None:
        return _stop_received(facts, events)
    # the reason may be stated at the end of a grace period that began with an order to stop
    is_order = facts.catalogue.has("decision") & (pl.col("role") == Role.TEARDOWN) & (pl.col("at") <= at)
    at = events.filter(is_order | (is_stop & (pl.col("at") == at)))["at"].min()
    is_other = ~is_stop & (pl.col("weight") >= roots.THRESHOLDS.doubtful)
    slack = int(THRESHOLDS.after_s * SECOND) if facts.has_times else 0
    before = events.filter(is_other & (pl.col("at") <= at + slack))  # type: ignore[operator]
    waited = facts.consequence_at is not None and facts.is_dated and facts.has_times
    is_late = waited and at - facts.consequence_at > roots.THRESHOLDS.late_s * SECOND  # type: ignore[operator]
    if before.height or is_late or (facts.has_times and lifecycles.is_hang(facts.pace, at)):  # type: ignore[arg-type]
        return _with_weight(facts, weights, is_stop, pl.lit(weights) * roots.THRESHOLDS.cancelled_after)
    is_echo = ~is_stop & (events["at"] >= at)
    return _with_weight(facts, weights, is_echo, pl.lit(weights) * roots.THRESHOLDS.recovered)


def _stop_received(facts: FailureFacts, events: pl.DataFrame) -> pl.Series | None:
    """The same if only launchers and step daemons report that they received a stop. An earlier
    problem, even a consequence or a death, is the reason of the stop; then only kills after it are
    its echo.
    """
    events = _with_order(facts, events)
    is_told = facts.catalogue.has("decision") & (pl.col("role") == Role.TEARDOWN) & ~facts.is_survived
    at = events.filter(is_told & (pl.col("jobs_with_it") == 0))["at"].min()
    if at is None:
        return None
    is_sign = (pl.col("weight") >= roots.THRESHOLDS.least) | (pl.col("role") == Role.CASCADE)
    is_death = pl.col("role").is_not_null() & facts.catalogue.says(lifecycles.WORKER_ENDED)
    is_echo = pl.lit(events["at"] > at)
    if events.filter((is_sign | is_death) & ~is_told & ~facts.is_survived & (pl.col("at") <= at)).height:
        is_echo &= (
            pl.col("category").fill_null("") == roots.KILLED
        )  # the stop had a cause, and the kills are the stop's
    return _with_weight(facts, events["weight"], is_echo, pl.lit(events["weight"]) * roots.THRESHOLDS.recovered)


def _rebooted(facts: FailureFacts, weights: pl.Series) -> pl.Series | None:
    """A kernel of few nodes boots again after training stopped: its machine went down."""
    if facts.pace.last_at is None:
        return None
    is_here = (
        pl.col("is_system")
        & facts.catalogue.says(roots.BOOT)
        & pl.col("is_stamped")
        & (pl.col("first_at") > facts.pace.last_at)
        & facts.is_few
    )
    return _with_weight(facts, weights, is_here, roots.THRESHOLDS.killed)


def _launcher_stopped(facts: FailureFacts, weights: pl.Series) -> pl.Series | None:
    """Launchers received a stop before any problem or order is told; not after a hang."""
    events = facts.events.with_columns(weight=weights, at=event_starts(facts.catalogue))
    if _stop_received(facts, events) is None:
        return None
    is_told = (pl.col("role") == Role.TEARDOWN) & pl.col("is_told_to_stop") & ~facts.is_survived
    is_order = facts.catalogue.has("decision") & (pl.col("role") == Role.TEARDOWN) & ~is_told
    stops = _with_order(facts, events).filter((is_told | is_order) & pl.col("at").is_not_null())
    if not stops.sort("at", is_order).select(is_told.alias("is")).to_series().head(1).all():
        return None
    ordered_at = events.filter(is_told & pl.col("is_stamped"))["first_at"].min()
    if lifecycles.is_hang(facts.pace, ordered_at):  # type: ignore[arg-type]
        return None
    return _with_weight(facts, weights, is_told, THRESHOLDS.flap)


def _with_order(facts: FailureFacts, events: pl.DataFrame) -> pl.DataFrame:
    """``at`` counts lines in a job of one file, whose order is known without clocks. Of several files
    that all tell a stop, a line without a time has the last one before it: nobody lacks that end.
    """
    occurrences = facts.catalogue.occurrences
    files = occurrences["file"].n_unique()
    if files == 1:
        return events.with_columns(at=pl.col("first_line").cast(pl.Int64))
    stops = events.filter("is_told_to_stop")["event"]
    told = occurrences.filter(pl.col("event").is_in(stops.implode()))["file"].n_unique()
    return events.with_columns(at=pl.coalesce("at", "first_at")) if told == files else events


def _with_weight(facts: FailureFacts, weights: pl.Series, is_here: pl.Expr, weight: float | pl.Expr) -> pl.Series:
    value = weight if isinstance(weight, pl.Expr) else pl.lit(weight)
    chosen = pl.when(is_here.fill_null(False)).then(value).otherwise(pl.lit(weights))
    events = facts.events.with_columns(weight=weights)
    return events.select(chosen.alias("weight")).to_series()


def line_to_read(facts: FailureFacts, scores: Mapping[int, float]) -> int | None:
    """The event to read if no line names a cause: the earliest consequence, in the order of lines
    if there is one file, and what its program calls information after all others. Without
    any, of one machine the likeliest of the ends, by ``scores``.
    """
    rows = facts.consequences().filter(pl.col("category") != UNKNOWN)
    is_one_file = facts.catalogue.occurrences["file"].n_unique() == 1
    at = "first_line" if is_one_file else "first_at"
    told = rows if is_one_file else rows.filter("is_stamped").drop_nulls("first_at")
    if told.height:
        is_mild = pl.col("level").is_between(Level.DEBUG, Level.INFO)
        return int(told.sort(is_mild, at, "event")["event"][0])
    ends = rows_of(facts.consequences(Role.CASCADE, Role.TEARDOWN)) if facts.total <= 1 else []
    scored = [row for row in ends if row.event in scores]
    if not scored:
        return None
    likeliest = max(scored, key=lambda row: scores[row.event])
    return roots.first_of_rule(facts.catalogue, ends, likeliest).event


CORRECTIONS: Final = (
    Rule("stopped", "what is printed while a job is stopped is no cause of the stop", _stopped_on_request),
    Rule("rebooted", "a machine that boots again went down", _rebooted),
)
FALLBACKS: Final = (Rule(LAUNCHER_STOPPED, "launchers received a stop before any problem", _launcher_stopped),)
