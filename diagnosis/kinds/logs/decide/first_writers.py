"""Who printed an event first: the first line of each node, in the order of time."""

from __future__ import annotations

from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.causes.case import Case

LIMITS: Final = thresholds.limits("verdict")


def first_lines(case: Case, own: pl.DataFrame) -> pl.DataFrame:
    """The first line of an event on each of its first nodes, by time; no rows unless two nodes state times.

    ``own``: the event's occurrences, with ``node``, ``is_stamped`` and ``stated_at`` (ns). Reads the
    positions of at most ``LIMITS.root_lines`` lines, in the files of these nodes alone.
    """
    stamped = own.filter("is_stamped").drop_nulls(["node", "stated_at"])
    by_time = stamped.sort("stated_at", "node", maintain_order=True)
    firsts = by_time.unique("node", keep="first", maintain_order=True).head(LIMITS.writers)
    if firsts.height < 2:
        return case.placed(case.table.rows([]))
    messages, files = firsts["masked"].unique().to_list(), firsts["file"].to_list()
    rows = case.placed(case.table.rows(messages, files=files, limit=LIMITS.root_lines))
    dated = case.clocks.correct(rows, "at")
    times = firsts.select("node", "file", "masked", "stated_at")
    at_first = dated.join(times, on=["node", "file", "masked"]).filter(pl.col("at") == pl.col("stated_at"))
    return at_first.sort("at", "node", "line").unique("node", keep="first", maintain_order=True)
