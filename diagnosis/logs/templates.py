"""Templates: unique masked messages of a whole job, clustered so that every node shares their ids."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from diagnosis.logs import mask

#: Schema of the table that :func:`mine` returns, one row a distinct masked message.
TEMPLATES: dict[str, pl.DataType] = {
    "masked": pl.UInt64(),
    "template": pl.UInt64(),
    "text": pl.String(),  # of the template
}


def mine(uniques: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Clusters the unique masked messages of a job's artifacts: a table of ``TEMPLATES``."""
    tables = [table.select("masked", "text") for table in uniques]
    if not tables:
        return pl.DataFrame(schema=TEMPLATES)
    together = pl.concat(tables).unique("masked").sort("text")
    return together.select("masked", pl.col("masked").alias("template"), "text")


def template_id(text: str) -> int:
    """The id of the template whose representative is ``text``."""
    return mask.identity(text)
