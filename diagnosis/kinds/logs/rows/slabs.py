"""The lines of one log, a slab at a time: memory stays bounded for a log of any length, and time
follows the lines that are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from diagnosis.kinds.logs.rows import line_counts, occurrences, stored_rows
from diagnosis.kinds.logs.rows.stored_rows import Rows

#: Lines before a slab in which its time is looked for first, and lines at a log's end that are read
#: at once.
LINES_BEFORE: Final = 1 << 12


def read_slabs(
    lines: Rows,
    low: int,
    high: int,
    year_at: int | None,
    wanted: pl.Series | None = None,
    *,
    is_timed: bool = True,
) -> Iterator[pl.DataFrame]:
    """The rows of the lines ``low`` to ``high`` (from 1 on, both included), at most
    :data:`occurrences.MAX_LINES` at a time, with ``at``: the line's own time, or the last before it in
    the log. With ``wanted`` only those of these messages: of other lines little more than the
    message is read. ``is_timed``: whether any line of the log states a time.
    """
    low, high = max(low, 1), min(high, lines.size)
    own = line_counts.own_time(year_at)
    before: int | None = None
    is_known = False  # whether ``before`` is the time before this slab
    for first in range(low, high + 1, occurrences.MAX_LINES):
        slab = lines.part(first - 1, min(occurrences.MAX_LINES, high + 1 - first))
        chosen = stored_rows.scan(slab)
        chosen = chosen if wanted is None else chosen.filter(pl.col("masked").is_in(wanted.implode()))
        rows = chosen.collect().with_columns(at=own)
        if (rows["at"].null_count() == 0 or not is_timed) and wanted is not None:
            is_known = False
            if rows.height:
                yield rows
            continue
        if not is_known:
            before = _stated_before(lines, first, year_at)
        times = (
            stored_rows.scan(slab).select(own.forward_fill().fill_null(pl.lit(before, pl.Int64))).collect().to_series()
        )
        yield rows.with_columns(at=times.gather(rows["line"] - first))
        before, is_known = times.item(-1), True


def _stated_before(lines: Rows, line: int, year_at: int | None) -> int | None:
    """The last time that a line before this one states."""
    high, count = line - 1, LINES_BEFORE
    while high > 0:
        low = max(0, high - count)
        own = line_counts.own_time(year_at).alias("own")
        times = stored_rows.scan(lines.part(low, high - low)).select(own).drop_nulls().tail(1).collect()
        if times.height:
            return int(times.item())
        high, count = low, occurrences.MAX_LINES
    return None
