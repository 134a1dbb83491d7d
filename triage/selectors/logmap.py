"""An overview of a log: the positions of warnings and errors in the file."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from math import sqrt

import polars as pl
from django.core.cache import cache
from redis.exceptions import RedisError

from diagnosis import Level
from diagnosis.kinds.logs.rows import stored_rows
from ingest import selectors as evidence
from ingest.models import Artifact

log = logging.getLogger(__name__)

MAX_BINS = 180
HEIGHT = 28
#: the column file of an artifact never changes, so only the size of the cache limits this
_CACHED_S = 7 * 86400


@dataclass(frozen=True, slots=True)
class Bin:
    """A part of a file, hundreds to millions of lines: how many, how many warnings and errors, when they begin."""

    first: int
    last: int
    warnings: int
    errors: int
    at: datetime | None

    @property
    def lines(self) -> int:
        return self.last - self.first + 1

    @property
    def error_height(self) -> float:
        """Units of HEIGHT: the root of the share, so that one line in a million is visible."""
        return _height(self.errors, self.lines)

    @property
    def warning_height(self) -> float:
        return min(_height(self.warnings, self.lines), HEIGHT - self.error_height)


def log_map(artifact: Artifact) -> list[Bin]:
    """The file in at most BINS parts of equal line counts; empty if it is not a log.

    One pass over two columns, then cached: the file is immutable.
    """
    lines = evidence.lines_of(artifact)
    if lines is None or not artifact.lines:
        return []
    key = f"triage:map:{MAX_BINS}:{artifact.parsed_key}:{artifact.parsed_number}"
    try:
        cached: list[Bin] | None = cache.get(key)
        if cached is None:
            cached = _bins(stored_rows.scan(lines), artifact.lines)
            cache.set(key, cached, _CACHED_S)
    except RedisError as error:
        log.warning("the cache cannot be reached: %s", error)
        cached = _bins(stored_rows.scan(lines), artifact.lines)
    return cached


def _bins(table: pl.LazyFrame, total: int) -> list[Bin]:
    size = max(1, -(-total // MAX_BINS))
    level = pl.col("level")
    rows = (
        table.select(((pl.col("line") - 1) // size).alias("bin"), "level", "time")
        .group_by("bin")
        .agg(
            (level == int(Level.WARNING)).sum().alias("warnings"),
            (level >= int(Level.ERROR)).sum().alias("errors"),
            pl.col("time").min(),
        )
        .sort("bin")
        .collect(engine="streaming")
    )
    return [
        Bin(
            first=row["bin"] * size + 1,
            last=min((row["bin"] + 1) * size, total),
            warnings=row["warnings"],
            errors=row["errors"],
            at=datetime.fromtimestamp(row["time"] / 1e9, UTC) if row["time"] is not None else None,
        )
        for row in rows.to_dicts()
    ]


def _height(count: int, lines: int) -> float:
    return round(max(3.0, HEIGHT * sqrt(count / lines)), 1) if count else 0.0
