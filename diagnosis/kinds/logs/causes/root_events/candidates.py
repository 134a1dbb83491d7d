"""The lines that a failure may begin with, one row an event, and what was measured of each: the
columns by which
:mod:`ranker` orders them.

Every column is a truth or a share, from 0 to 1. Most come from the order of lines in a file, which
needs no clocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.causes.failure_facts import FailureFacts
from diagnosis.kinds.logs.meaning.signatures.model import Strength
from diagnosis.knowledge import words
from diagnosis.model import Level, Role

THRESHOLDS: Final = thresholds.of("candidates")
#: An event of Kubernetes, whose worst level is a warning.
CLUSTER_EVENT: Final = words.pattern("phrases", "cluster_event")

_LEVEL: Final = pl.col("level")
_IS_CAUSE: Final = pl.col("own_role") == Role.ROOT
_IS_UNNAMED: Final = pl.col("role").is_null()
_IS_RAISED: Final = pl.col("is_exception")
_IS_LOUD: Final = _IS_UNNAMED & (_IS_RAISED | (_LEVEL >= Level.ERROR))
_IS_SIGN: Final = _IS_UNNAMED & pl.col("is_ill")
_CLAIMS: Final = (Role.ROOT, Role.CASCADE, Role.TEARDOWN, Role.CONFIRMATION)
_FIRST: Final = pl.col("first_line")
_LAST: Final = pl.col("last_line")

#: What an event says of itself.
OF_WORDS: Final[Mapping[str, pl.Expr]] = {
    "rule": _IS_CAUSE,
    "rule_strong": _IS_CAUSE & (pl.col("strength") != Strength.WEAK),
    "rule_decisive": _IS_CAUSE & (pl.col("strength") == Strength.DECISIVE),
    "explained": _IS_CAUSE & (pl.col("role") != Role.ROOT),
    "consequence": pl.col("own_role") == Role.CASCADE,
    "end": pl.col("own_role") == Role.TEARDOWN,
    "confirmation": pl.col("own_role") == Role.CONFIRMATION,
    "problem_word": pl.col("is_ill"),
}

#: All measures, in the order of the columns.
NAMES: Final = (
    *OF_WORDS,
    "error",
    "mild",
    "survived",
    "decision",
    "death",
    "first_exception",
    "near_end",
    "after_progress",
    "went_on",
    "writers",
)


def candidates(facts: FailureFacts) -> pl.DataFrame:
    """The events that may begin a failure: ``event`` and a column of floats for each of
    :data:`NAMES`. O(occurrences).
    """
    is_quoted = _IS_UNNAMED & ~_IS_RAISED & pl.col("is_quoted_code")
    is_message = (pl.col("template") != "") & ~pl.col("is_structure") & ~is_quoted
    is_claim = pl.col("role").is_in(_CLAIMS) | _IS_LOUD | _IS_SIGN
    measured = dict(OF_WORDS) | _of_job(facts)
    events = facts.events.with_columns(**measured, is_message=is_message)
    chosen = events.filter(is_message & is_claim).select("event", *measured)
    joined = chosen.join(_of_order(facts, events), on="event", how="left", maintain_order="left")
    return joined.select("event", pl.col(NAMES).cast(pl.Float64).fill_null(0.0))


def _of_job(facts: FailureFacts) -> dict[str, pl.Expr]:
    """How loud an event is, whether training went on after it, somebody ordered the end, or a process died."""
    # lines of kernels and of Kubernetes call no failure an error
    is_of_machines = pl.col("is_system") | facts.catalogue.says(CLUSTER_EVENT)
    is_mild = _LEVEL.is_between(Level.DEBUG, Level.WARNING) & ~is_of_machines
    return {
        "error": (_LEVEL >= Level.ERROR) | is_of_machines,
        "mild": is_mild | pl.col("is_tolerated"),
        "survived": facts.is_survived,
        "decision": facts.catalogue.has("decision"),
        "death": facts.catalogue.has("death"),
    }


def _of_order(facts: FailureFacts, events: pl.DataFrame) -> pl.DataFrame:
    """Where an event is among the lines of its files, one row an event. O(occurrences)."""
    is_plain = _IS_UNNAMED & ~_IS_RAISED & (_LEVEL < Level.WARNING)
    is_message = pl.col("is_message")
    kinds = events.select(
        "event",
        is_raised=is_message & _IS_RAISED,
        is_plain=is_message & is_plain,
        is_message=is_message,
    )
    found = facts.catalogue.occurrences.join(kinds, on="event")
    occurrences = found.sort("file", "source", "masked")
    placed = occurrences.join(_last_points(facts), on="file", how="left").with_columns(
        first_raised=_FIRST.filter(pl.col("is_raised")).min().over("file"),
        file_end=_LAST.max().over("file"),
    )
    writers = max(1, occurrences.select("file", "source").n_unique())
    return (
        _with_fresh_lines(placed)
        .group_by("event")
        .agg(
            first_exception=(pl.col("is_raised") & (pl.col("first_raised") >= _FIRST)).any(),
            near_end=(pl.col("file_end") - _LAST <= THRESHOLDS.near_end).any(),
            after_progress=(pl.col("point") < _LAST).any(),
            went_on=pl.col("fresh").min().clip(0, THRESHOLDS.fresh).log1p() / math.log1p(THRESHOLDS.fresh),
            writers=pl.struct("file", "source").n_unique() / writers,
        )
    )


def _last_points(facts: FailureFacts) -> pl.DataFrame:
    """The last line of progress of each file that shows some."""
    return facts.progress.points.group_by("file").agg(point=pl.col("line").max())


def _with_fresh_lines(occurrences: pl.DataFrame) -> pl.DataFrame:
    """Occurrences with ``fresh``: how many ordinary messages begin in their file after them."""
    begun = occurrences.filter("is_plain").select("file", line="first_line").sort("file", "line")
    counted = begun.with_columns(before=pl.int_range(1, pl.len() + 1).over("file"))
    total = begun.group_by("file").agg(total=pl.len())
    ordered = occurrences.with_columns(line="last_line").sort("line")
    found = ordered.join_asof(counted.sort("line"), on="line", by="file", strategy="backward", check_sortedness=False)
    fresh = pl.col("total").fill_null(0).cast(pl.Int64) - pl.col("before").fill_null(0)
    return found.join(total, on="file", how="left").with_columns(fresh=fresh.cast(pl.Float64))
