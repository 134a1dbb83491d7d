"""How heavy each event is as a candidate for the root: what it says, and what lowers that.

An event loses weight if healthy jobs survived it, if training went on after it, or if it comes
after the first consequence.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from diagnosis.history import MIN_POOL_JOBS
from diagnosis.kinds.logs.causes.failure_facts import FailureFacts
from diagnosis.kinds.logs.causes.root_events.candidates import CLUSTER_EVENT
from diagnosis.kinds.logs.causes.root_events.roots import (
    CANCELLED,
    KILLED,
    THRESHOLDS,
    has_wide_echo,
)
from diagnosis.kinds.logs.meaning.signatures.model import Strength
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.knowledge import words
from diagnosis.model import Level, Role

KILLED_BY_SIGNAL: Final = words.pattern("phrases", "killed_by_signal")
#: Later than any stamp.
_NEVER: Final = 2**62

_LEVEL: Final = pl.col("level")
_ROLE: Final = pl.col("role")
_IS_ROOT: Final = _ROLE == Role.ROOT


def weigh(facts: FailureFacts) -> pl.Series:
    """The weight of each event as a root, before it is compared with others. O(events)."""
    base = _base_weight(facts) * _warning_factor(facts) * _echo_factor(facts)
    weight = base * pl.col("novelty") * _lateness_factor(facts, base) * _survival_factor(facts)
    return facts.events.select(weight.fill_null(0.0).alias("weight")).to_series()


def _base_weight(facts: FailureFacts) -> pl.Expr:
    """The weight by what the event says: that of a rule, an unknown exception, error or sign."""
    by_strength = {strength: getattr(THRESHOLDS, strength) for strength in Strength}
    strength = pl.col("strength")
    of_rule = strength.replace_strict(by_strength, default=THRESHOLDS.weak, return_dtype=pl.Float64)
    is_quoted = _ROLE.is_null() & ~pl.col("is_exception") & pl.col("is_quoted_code")
    is_unknown_exception = pl.col("is_exception") & (_LEVEL >= Level.NONE)
    return (
        pl.when(pl.col("is_structure") | is_quoted)
        .then(0.0)
        .when(_IS_ROOT)
        .then(of_rule)
        .when(_is_kill_of_few(facts))
        .then(THRESHOLDS.killed)
        .when(_ROLE.is_not_null())
        .then(0.0)
        .when(is_unknown_exception)
        .then(THRESHOLDS.unknown_exception)
        .when(_LEVEL >= Level.ERROR)
        .then(THRESHOLDS.unknown_error)
        .when(_is_unknown_sign(facts))
        .then(THRESHOLDS.unknown_sign)
        .otherwise(0.0)
    )


def _is_of_few_or_no_nodes(facts: FailureFacts) -> pl.Expr:
    return facts.is_few | (pl.col("n_nodes") == 0)


def _is_kill_of_few(facts: FailureFacts) -> pl.Expr:
    """Whether a few nodes report that a process was killed by a signal."""
    is_report_of_end = _ROLE.is_in([Role.CONFIRMATION, Role.TEARDOWN])
    is_kill = facts.catalogue.says(KILLED_BY_SIGNAL) | (pl.col("category") == KILLED)
    return is_report_of_end & is_kill & _is_of_few_or_no_nodes(facts)


def _is_unknown_sign(facts: FailureFacts) -> pl.Expr:
    """Whether a message without a rule, which no healthy job prints, is from the time of the
    failure and conspicuous: by its level, by a word for a problem, or because the system writes it.
    """
    if facts.since is None or len(facts.pool.jobs) < MIN_POOL_JOBS:
        return pl.lit(False)
    is_stamped = pl.col("is_stamped")
    latest_at = pl.when(is_stamped).then("first_at").otherwise(pl.col("until_at").fill_null(_NEVER))
    is_loud = (_LEVEL >= Level.WARNING) & facts.is_few & is_stamped
    # a line without level and time must at least contain a word for a problem
    has_problem_word = pl.col("is_ill") & _is_of_few_or_no_nodes(facts)
    is_of_system = pl.col("is_system") & _is_of_few_or_no_nodes(facts) & is_stamped
    is_new = pl.col("jobs_with_it") == 0
    is_conspicuous = is_loud | has_problem_word | is_of_system
    return (latest_at >= facts.since) & is_new & is_conspicuous


def _warning_factor(facts: FailureFacts) -> pl.Expr:
    """The share of a rule's weight in a message that its program calls a warning, or less."""
    is_tolerated = pl.col("is_tolerated")
    is_own_program = ~pl.col("is_system") & ~facts.catalogue.says(CLUSTER_EVENT)
    is_mild = _LEVEL.is_between(Level.DEBUG, Level.WARNING) | is_tolerated
    # an exception has the level of the record that it continues, unless its own line states one
    has_own_level = ~pl.col("is_exception") | pl.col("is_stamped")
    is_warning = is_mild & is_own_program & has_own_level
    is_below_warning = (_LEVEL < Level.WARNING) | is_tolerated
    is_named_by_rule = is_warning & _IS_ROOT
    return (
        pl.when(is_named_by_rule & is_below_warning)
        .then(THRESHOLDS.informed)
        .when(is_named_by_rule)
        .then(THRESHOLDS.warned)
        .otherwise(1.0)
    )


def _echo_factor(facts: FailureFacts) -> pl.Expr:
    """The share that broken communication keeps: on all nodes it is a consequence if all nodes
    also print known consequences.
    """
    if not has_wide_echo(facts, facts.total):
        return pl.lit(1.0)
    is_weak = facts.catalogue.has("communication") & (pl.col("strength") == "weak")
    is_of_many = (pl.col("n_nodes") >= 2) & ~facts.is_few
    return pl.when(is_weak & is_of_many).then(THRESHOLDS.echo).otherwise(1.0)


def _lateness_factor(facts: FailureFacts, base: pl.Expr) -> pl.Expr:
    """The share that an event keeps that comes after the first consequence."""
    is_cancellation = pl.col("category").fill_null("").str.starts_with(CANCELLED)
    return (
        pl.when(is_cancellation & _is_after_stop(facts))
        .then(THRESHOLDS.cancelled_after)
        .when(_is_late(facts, base))
        .then(THRESHOLDS.late)
        .otherwise(1.0)
    )


def _is_late(facts: FailureFacts, base: pl.Expr) -> pl.Expr:
    """Whether an event is too late after the first consequence to be its cause."""
    if facts.consequence_at is None or not facts.is_dated:
        return pl.lit(False)
    # a line without a rule is a cause only if it comes first
    is_sign = base == THRESHOLDS.unknown_sign
    slack_s = pl.when(is_sign).then(THRESHOLDS.sign_late_s).otherwise(THRESHOLDS.late_s)
    # a watcher outside the job reports a lost machine when its own time-out is over
    is_of_watcher = facts.catalogue.has("reported_late") & (pl.col("n_nodes") == 0)
    return (pl.col("first_at") > facts.consequence_at + slack_s * SECOND) & ~is_of_watcher


def _is_after_stop(facts: FailureFacts) -> pl.Expr:
    """Whether an event comes after the job stood still or was slow: then cancelling was no cause."""
    if facts.pace.slow_from is not None:
        return pl.lit(True)
    # a lower bound of the first consequence does not show that the stop came after it
    is_known = facts.is_dated or not facts.has_times
    if facts.consequence_at is None or not is_known:
        return pl.lit(False)
    return pl.col("first_at") > facts.consequence_at


def _survival_factor(facts: FailureFacts) -> pl.Expr:
    """The share that an event keeps that training survived, or may have survived."""
    is_undated = pl.col("event").is_in(sorted(facts.undated))
    of_undated = pl.when(is_undated).then(THRESHOLDS.undated).otherwise(1.0)
    return pl.when(facts.is_survived).then(THRESHOLDS.recovered).otherwise(of_undated)
