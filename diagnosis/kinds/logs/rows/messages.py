"""The distinct messages of a job, merged from those of its files, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import polars as pl

from diagnosis.kinds.logs.rows import stored_rows
from diagnosis.kinds.logs.rows.stored_rows import Rows
from diagnosis.model import Level

#: Distinct messages of a job that are compared, of each of two kinds: those with a code or of a
#: level from warning on, and all others. Each takes about 2 kB and 40 µs of a diagnosis.
MAX_MESSAGES = 200_000
#: Files merged at a time: thousands at once are gigabytes.
_MAX_BATCH_FILES = 64
_BATCH_BYTES = 64 << 20
_SCHEMA = {"masked": pl.UInt64, "text": pl.String, "example": pl.String, "level": pl.UInt8, "count": pl.UInt64}
#: Rows of counts from which they are added up.
_MAX_ROWS = 1 << 20
_STATED = ("masked", "text", "example")
_COUNTED = ("masked", "level", "count")
#: Parameters are masked already: a remaining digit is part of the message.
_IS_INFORMATIVE = (pl.col("level") >= Level.WARNING) | pl.col("text").str.contains(r"\d")


def merge_messages(logs: Sequence[Rows]) -> tuple[pl.DataFrame, bool]:
    """One row a distinct message of these rows of ``uniques.parquet`` (``masked``, ``text``,
    ``example``, ``level``: the worst, ``count``), by ``masked``, and whether some were left out.

    Of more than :data:`MAX_MESSAGES` messages of a kind those with most lines are kept. A message
    that was left out in earlier files loses their lines, so counts are then lower bounds. Depends
    on the order of ``logs`` in that case alone. O(messages); memory O(``MAX_MESSAGES`` + those of a
    batch of files).
    """
    stated, counted = [pl.DataFrame(schema=_SCHEMA).select(_STATED)], [pl.DataFrame(schema=_SCHEMA).select(_COUNTED)]
    is_cut = False
    for batch in _batches(logs):
        more = stored_rows.read(batch, list(_SCHEMA))
        stated.append(more.select(_STATED))
        counted.append(more.select(_COUNTED))
        if sum(one.height for one in counted) > _MAX_ROWS:
            counted = [_counts(counted)]
        if sum(one.height for one in stated) > MAX_MESSAGES:
            stated = [_distinct(stated)]
        if sum(one.height for one in stated) > MAX_MESSAGES:
            merged = _merge_counts(stated, counted)
            kept = _most_frequent(merged)
            is_cut |= kept.height < merged.height
            stated, counted = [kept.select(_STATED)], [kept.select(_COUNTED)]
    return _merge_counts(stated, counted).sort("masked"), is_cut


def _merge_counts(stated: Sequence[pl.DataFrame], counted: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The texts of messages with their worst level and their lines."""
    return _distinct(stated).join(_counts(counted), on="masked", maintain_order="left").select(_SCHEMA.keys())


def _distinct(stated: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(stated).unique("masked", keep="first", maintain_order=True)


def _counts(counted: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(counted).group_by("masked").agg(pl.col("level").max(), pl.col("count").sum())


def _batches(logs: Sequence[Rows]) -> Iterator[list[Rows]]:
    """Files whose messages are merged at a time: a table, or several small ones. Logs that share
    tables are many, and come in another order than in the tables: with each further table they are
    one batch.
    """
    batch: list[Rows] = []
    files: set[Path] = set()
    size = 0
    for file, rows in groupby(logs, key=lambda log: log.file):
        batch += rows
        if file not in files:
            files.add(file)
            size += file.stat().st_size
        if len(files) >= _MAX_BATCH_FILES or size >= _BATCH_BYTES:
            yield batch
            batch, files, size = [], set(), 0
    if batch:
        yield batch


def _most_frequent(messages: pl.DataFrame) -> pl.DataFrame:
    """The ``MAX_MESSAGES`` messages of each kind with most lines."""
    ranked = messages.with_columns(is_telling=_IS_INFORMATIVE).sort("count", "masked", descending=[True, False])
    return ranked.group_by("is_telling", maintain_order=True).head(MAX_MESSAGES).select(_SCHEMA.keys())
