"""The time of lines without a stamp.

A worker's error stream often states no time, so its lines get the last time before them, which may be the launch. The
next time in the file is an upper bound. The same message with a stamp elsewhere (an agent's report, an error file)
gives the exact time, and an event that ended training cannot be older than the last progress.
"""

from __future__ import annotations

import polars as pl

from diagnosis.kinds.logs.meaning.catalogue import Catalogue
from diagnosis.kinds.logs.pace.pacing import Pace
from diagnosis.model import Role

_CONSEQUENCE_ROLES = (Role.CASCADE, Role.TEARDOWN)
_ENDING_ROLES = (Role.ROOT, *_CONSEQUENCE_ROLES)


def occurrences_with_times(catalogue: Catalogue, pace: Pace, roles: dict[int, str]) -> pl.DataFrame:
    """The occurrences with ``stated_at`` (ns): ``first_at`` if a line states its time, else the best
    guess from there to ``until_at``. ``roles``: those of the events in this failure. O(occurrences).
    """
    ends = pl.col("event").is_in([event for event, role in roles.items() if role in _ENDING_ROLES])
    stamped = pl.col("first_at").filter("is_stamped").min().over("event")
    follows = pl.col("event").is_in([event for event, role in roles.items() if role in _CONSEQUENCE_ROLES])
    is_root = pl.col("event").is_in([event for event, role in roles.items() if role == Role.ROOT])
    cause = pl.when(follows).then(pl.col("first_at").filter(is_root & pl.col("is_stamped")).min())
    last = pl.when(ends).then(pl.lit(pace.last_at, pl.Int64))
    guess = pl.coalesce(stamped, pl.max_horizontal(last, cause))
    placed = pl.max_horizontal("first_at", pl.min_horizontal(guess, "until_at"))
    return catalogue.occurrences.with_columns(
        stated_at=pl.when(pl.col("is_stamped") | pl.col("first_at").is_null() | guess.is_null())
        .then("first_at")
        .otherwise(placed)
    )
