"""When lines without a stamp of their own were written.

A worker's error stream often states no time at all, so that its lines carry the last time before them, which may be
that of the launch. The next time of the file bounds them from above; the same message with a stamp elsewhere (an
agent's report, an error file) says when it was, and what ended training cannot be older than its last progress.
"""

from __future__ import annotations

import polars as pl

from diagnosis.logs.catalogue import Catalogue
from diagnosis.logs.temporal import Pace
from diagnosis.model import Role

_ENDS = (Role.ROOT.value, Role.CASCADE.value, Role.TEARDOWN.value)


def said_at(catalogue: Catalogue, pace: Pace, roles: dict[int, str]) -> pl.DataFrame:
    """The cells with ``said_at`` (ns): ``first_at`` where a line states its time, else the best guess from there to
    ``until_at``. ``roles`` are the events' in this failure. O(cells).
    """
    ends = pl.col("event").is_in([event for event, role in roles.items() if role in _ENDS])
    stamped = pl.col("first_at").filter("is_stamped").min().over("event")
    guess = pl.coalesce(stamped, pl.when(ends).then(pl.lit(pace.last_at, pl.Int64)))
    placed = pl.max_horizontal("first_at", pl.min_horizontal(guess, "until_at"))
    return catalogue.cells.with_columns(
        said_at=pl.when(pl.col("is_stamped") | pl.col("first_at").is_null() | guess.is_null())
        .then("first_at")
        .otherwise(placed)
    )
