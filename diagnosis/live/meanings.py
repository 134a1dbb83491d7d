"""What messages mean to the watches. A message of a running job comes again in every range, so its meaning is kept.

A process keeps the meanings of the messages that it saw last; they depend on the wording alone, never on the job.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import polars as pl

from diagnosis.logs import progress, signatures, stages, words
from diagnosis.model import Role

#: Number of messages that a process keeps.
MOST: Final = 50_000
#: Number of characters of a line that are read.
LINE_BYTES: Final = 2_000


class Meaning(NamedTuple):
    """``stage``: the stage that the message begins or ends; ``signature``: the decisive rule of a cause."""

    is_counter: bool = False
    stage: str = ""
    is_end: bool = False
    signature: str = ""
    category: str = ""
    is_retry: bool = False
    is_disk: bool = False


_kept: dict[int, Meaning] = {}


def meanings(uniques: pl.DataFrame) -> dict[int, Meaning]:
    """The meaning of each message (``masked``) of ``uniques.parquet``. Only new messages cost a search."""
    every = uniques["masked"].to_list()
    fresh = [masked for masked in every if masked not in _kept]
    if fresh:
        if len(_kept) + len(fresh) > MOST:
            _kept.clear()
            fresh = every
        found = _read(uniques.filter(pl.col("masked").is_in(pl.Series(fresh, dtype=pl.UInt64).implode())))
        if len(found) > MOST:  # a range of more messages than are kept
            return found
        _kept.update(found)
    return {masked: _kept[masked] for masked in every}


def _read(uniques: pl.DataFrame) -> dict[int, Meaning]:
    marks = {masked: (stage, is_end) for masked, stage, is_end in stages.mark(uniques).iter_rows()}
    hits = signatures.load().match(uniques)
    hits = hits.filter((pl.col("role") == Role.ROOT.value) & (pl.col("strength") == "decisive"))
    causes = {masked: pair for masked, *pair in hits.select("masked", "signature", "category").iter_rows()}
    again = uniques.filter(pl.col("example").str.contains(words.pattern("watched", "retry")))
    retries = set(again["masked"].to_list())
    states_use = words.regex("watched", "disk")
    found = {}
    for masked, example in uniques.select("masked", "example").iter_rows():
        stage, is_end = marks.get(masked, ("", False))
        signature, category = causes.get(masked, ("", ""))
        found[masked] = Meaning(
            is_counter=progress.names_counter(example),
            stage=stage,
            is_end=is_end,
            signature=signature,
            category=category,
            is_retry=masked in retries,
            is_disk="%" in example and states_use.search(example[:LINE_BYTES]) is not None,
        )
    return found
