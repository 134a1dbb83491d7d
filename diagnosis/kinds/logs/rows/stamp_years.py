"""The year of stamps that state none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.columns.tables import YEARLESS
from diagnosis.kinds.logs.rows import occurrences, stored_rows
from diagnosis.kinds.logs.rows.stored_rows import Rows
from diagnosis.model import Parsed

_HALF_YEAR: Final = thresholds.of("clocks").half_year_days * 24 * 3600 * 1_000_000_000


def year_at(logs: Sequence[Parsed], as_of: int | None) -> int | None:
    """Some time of the job whose stamp has a year, or ``as_of`` if none has; None if no stamp needs it: all have one,
    or those without one already lie in the half year around it, so that no other year is nearer.
    """
    if not any(p.facts.get("has_yearless", True) for p in logs):
        return None
    rows = _stamp_bounds(logs)
    at, first, last = rows["full"].max() or as_of, rows["first"].min(), rows["last"].max()
    if not isinstance(at, int) or not isinstance(first, int) or not isinstance(last, int):
        return None
    is_near = at - first <= _HALF_YEAR and last - at <= _HALF_YEAR
    return None if is_near else at


def _stamp_bounds(logs: Sequence[Parsed]) -> pl.DataFrame:
    """Of groups of files, the last time that has a year (``full``), ``first`` and ``last`` of those without."""
    time, is_bare = pl.col("time"), (pl.col("flags") & YEARLESS) > 0
    stated = [p.facts["stamps"] for p in logs if "stamps" in p.facts]
    found = [pl.DataFrame(stated, schema=dict.fromkeys(("full", "first", "last"), pl.Int64), orient="row")]
    lines = [stored_rows.lines_of(p) for p in logs if "stamps" not in p.facts]
    for group in occurrences.file_groups([one.size for one in lines]):
        stamps = _stamps([lines[file] for file in group]).select(
            full=time.filter(~is_bare).max(),
            first=time.filter(is_bare).min(),
            last=time.filter(is_bare).max(),
        )
        found.append(stamps.collect(engine="streaming"))
    return pl.concat(found)


def _stamps(files: Sequence[Rows]) -> pl.LazyFrame:
    if len(files) == 1:  # a single one may be large
        return stored_rows.scan(files[0])
    return stored_rows.read(files, ("time", "flags")).lazy()
