"""What leads where no root stands: a confirmation of one node in the silence before the end.

A file server that does not answer, a task blocked for minutes: beside a cause of their own such lines only confirm it,
and healthy jobs survive them. Where a job stopped and nothing else explains why, the few nodes that print them between
the last progress and the first consequence are the ones that were waited for.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from diagnosis.logs import roots
from diagnosis.logs.clocks import SECOND
from diagnosis.model import Role

#: Weight of a confirmation that stands in for a cause.
STANDS_IN: Final = 0.36
#: How long after the first consequence such a line may come, since clocks differ by a little.
AFTER_S: Final = 3.0


def confirmed(
    events: pl.DataFrame,
    weights: pl.Series,
    recovered: pl.Series,
    *,
    since: int | None,
    consequence_at: int,
    total: int,
) -> pl.Series:
    """The weights where nothing has one: confirmations of few nodes, no healthy job's, between ``since`` and
    ``consequence_at`` (ns), gain one. In the order of ``events``.
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
        & (pl.col("first_at") <= consequence_at + int(AFTER_S * SECOND))
    )
    if since is not None:
        is_here &= pl.col("first_at") >= since
    stands = pl.when(is_here.fill_null(False)).then(pl.lit(STANDS_IN)).otherwise(pl.lit(weights))
    return events.select(stands.alias("weight")).to_series()
