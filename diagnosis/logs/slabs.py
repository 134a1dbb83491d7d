"""The lines of one log, a slab at a time: memory stays bounded for a log of any length, and time follows the lines that
are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from diagnosis.logs import cells, tables
from diagnosis.logs.tables import Rows

#: Lines before a slab in which its time is looked for first.
_NEAR: Final = 1 << 12


def read(lines: Rows, low: int, high: int, year_at: int | None) -> Iterator[pl.DataFrame]:
    """The rows of the lines ``low`` to ``high`` (from 1 on, both included), at most :data:`cells.MOST_LINES` at a time,
    with ``at``: the line's own time, or the last before it in the log.
    """
    low, high = max(low, 1), min(high, lines.size)
    before = _stated_before(lines, low, year_at)
    for first in range(low, high + 1, cells.MOST_LINES):
        count = min(cells.MOST_LINES, high + 1 - first)
        rows = tables.scan(lines).slice(first - 1, count).collect()
        rows = rows.with_columns(at=cells.own_time(year_at).forward_fill())
        if before is not None:
            rows = rows.with_columns(pl.col("at").fill_null(before))
        yield rows
        before = rows["at"].item(-1)


def _stated_before(lines: Rows, line: int, year_at: int | None) -> int | None:
    """The last time that a line before this one states."""
    high, count = line - 1, _NEAR
    while high > 0:
        low = max(0, high - count)
        own = cells.own_time(year_at).alias("own")
        times = tables.scan(lines).slice(low, high - low).select(own).drop_nulls().tail(1).collect()
        if times.height:
            return int(times.item())
        high, count = low, cells.MOST_LINES
    return None
