"""Cross-job comparison: a message that healthy jobs of the same kind also print is no cause (L4, section 3.2).

A message that at least half of the healthy jobs print is dropped, unless this job prints it far more often in a
node-hour; a message that fewer print keeps a small weight: other jobs survived it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.history import Pool

THRESHOLDS: Final = thresholds.of("crossjob")


def frequencies(template_of: Mapping[str, str], pool: Pool) -> pl.DataFrame:
    """Over the pool: ``template``, ``jobs_with_it``, ``top_rate`` (highest lines a node-hour of one job).

    ``template_of`` maps masked texts, including the history's, to templates; texts without one are their own template.
    Cost: O(texts of the pool).
    """
    rows: list[tuple[str, float]] = []
    for job in pool.jobs:
        counts = Counter[str]()
        for text, n in job.counts.items():
            counts[template_of.get(text, text)] += n
        rows += [(template, n / job.node_hours) for template, n in counts.items()]
    frame = pl.DataFrame(rows, schema={"template": pl.String, "rate": pl.Float64}, orient="row")
    return (
        frame.group_by("template")
        .agg(jobs_with_it=pl.len().cast(pl.UInt32), top_rate=pl.col("rate").max())
        .sort("template")
    )


def weigh(events: pl.DataFrame, found: pl.DataFrame, healthy: int, node_hours: float) -> pl.DataFrame:
    """``events`` (``template``, ``n``) with ``jobs_with_it``, ``is_ordinary`` and ``novelty`` in [0, 1]."""
    joined = events.join(found, on="template", how="left", maintain_order="left").with_columns(
        jobs_with_it=pl.col("jobs_with_it").fill_null(0), top_rate=pl.col("top_rate").fill_null(0.0)
    )
    share = pl.col("jobs_with_it") / max(1, healthy)
    # rates are compared over one node: otherwise the hours of a thousand nodes would hide a storm on one of them
    rate = pl.col("n") / max(node_hours, 1 / 60)
    is_storm = (rate > THRESHOLDS.storm * pl.col("top_rate")) & (pl.col("n") >= THRESHOLDS.storm_lines)
    return joined.with_columns(
        is_ordinary=(share >= THRESHOLDS.ordinary) & ~is_storm,
        novelty=pl.when(pl.col("jobs_with_it") == 0)
        .then(1.0)
        .when(is_storm)
        .then(THRESHOLDS.stormy)
        .when(share >= THRESHOLDS.ordinary)
        .then(0.0)
        .when(share >= THRESHOLDS.rare)
        .then(THRESHOLDS.survived)
        .otherwise(THRESHOLDS.seldom),
    ).drop("top_rate")
