"""What messages mean to the watches. A message of a running job comes again in every range, so its
meaning is kept.

A process keeps the meanings of the messages that it saw last; they depend on the wording alone,
never on the job.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.kinds.logs.causes import not_finite
from diagnosis.kinds.logs.columns.tables import EXAMPLE_CHARS
from diagnosis.kinds.logs.meaning import signatures, stages
from diagnosis.kinds.logs.pace import progress
from diagnosis.kinds.logs.read.prepared import Prepared
from diagnosis.knowledge import words
from diagnosis.live.job_state import SHUTDOWN
from diagnosis.model import Role

#: Number of messages that a process keeps, and that are searched at a time.
MAX_MESSAGES: Final = 50_000
#: Number of characters of a line that are read.
MAX_LINE_CHARS: Final = 2_000


class Meaning(NamedTuple):
    """``has_numbers``: one of its numbers may count; ``stage``: the stage that the message begins or
    ends; ``signature``: the decisive rule of a cause; ``tells_end``: a process ended, well or badly.
    """

    is_counter: bool = False
    has_numbers: bool = False
    stage: str = ""
    is_end: bool = False
    signature: str = ""
    category: str = ""
    is_retry: bool = False
    is_disk: bool = False
    tells_end: bool = False


_NO_MEANING: Final = Meaning()
_cache: dict[int, Meaning] = {}


def meanings(prepared: Prepared) -> list[Meaning]:
    """The meaning of each message of a block, in its order. Only new messages cost a search. Of
    more than :data:`MAX_MESSAGES` new ones, those of the worst levels are searched: a block of so
    many different messages is data, not a log.
    """
    every = prepared.facts.masked[prepared.first].tolist()
    fresh = {masked: place for place, masked in enumerate(every) if masked not in _cache}
    if not fresh:
        return [_cache[masked] for masked in every]
    if len(_cache) + len(fresh) > MAX_MESSAGES:
        _cache.clear()
        fresh = {masked: place for place, masked in enumerate(every)}
    places = np.array(list(fresh.values()))
    if len(places) > MAX_MESSAGES:
        places = places[np.argsort(255 - prepared.worst[places], kind="stable")[:MAX_MESSAGES]]
    _cache.update(_find_meanings(examples(prepared, places)))
    return [_cache.get(masked, _NO_MEANING) for masked in every]


def examples(prepared: Prepared, places: npt.NDArray[np.int64]) -> pl.DataFrame:
    """Some messages of a block as rows of ``masked``, ``text`` and ``example``."""
    first = prepared.first[places]
    masked = prepared.facts.masked[first]
    texts = [prepared.texts[one] for one in masked.tolist()]
    lines = prepared.rows.text(first, 4 * EXAMPLE_CHARS).str.head(EXAMPLE_CHARS)
    masked_column = pl.Series("masked", masked)
    text_column = pl.Series("text", texts, pl.String)
    return pl.DataFrame([masked_column, text_column, lines.alias("example")])


def _closing(messages: pl.DataFrame) -> list[int]:
    """Messages in which a program or a launcher ends well; the next count denies it."""
    is_denied = pl.col("text").str.contains(words.pattern("outcome", "not_success"))
    is_closing = pl.col("text").str.contains(words.pattern("outcome", "closing")) & ~is_denied
    is_good_end = pl.col("example").str.contains(words.pattern("phrases", "ended_well"))
    return messages.filter(is_closing | is_good_end)["masked"].to_list()


def _find_meanings(messages: pl.DataFrame) -> dict[int, Meaning]:
    marks: dict[int, tuple[str, bool]] = dict.fromkeys(_closing(messages), (SHUTDOWN, False))
    stage_marks = stages.stage_marks(messages).iter_rows()
    marks |= {masked: (stage, is_end) for masked, stage, is_end in stage_marks}
    hits = signatures.load().match(messages)
    hits = hits.filter((pl.col("role") == Role.ROOT) & (pl.col("strength") == "decisive"))
    rows = hits.select("masked", "signature", "category").iter_rows()
    causes = {masked: pair for masked, *pair in rows}
    retry = words.pattern("watched", "retry")
    about_retries = messages.filter(pl.col("example").str.contains(retry))
    retries = set(about_retries["masked"].to_list())
    states_use = words.regex("watched", "disk")
    tells_end = words.regex("phrases", "worker_ended")
    found = {}
    for masked, example in messages.select("masked", "example").iter_rows():
        stage, is_end = marks.get(masked, ("", False))
        signature, category = causes.get(masked, ("", ""))
        kind = progress.counter_kind(example)
        is_measured = progress.may_count(example) is not None
        # what a line of progress states measures the job, and ends none ("stall 0.02 s")
        measures_job = bool(kind) and is_measured and category != not_finite.CATEGORY
        found[masked] = Meaning(
            is_counter=kind is not None,
            has_numbers=progress.may_count_unnamed(example, kind),
            stage=stage,
            is_end=is_end,
            signature="" if measures_job else signature,
            category=category,
            is_retry=masked in retries,
            is_disk="%" in example and states_use.search(example[:MAX_LINE_CHARS]) is not None,
            tells_end=tells_end.search(example[:MAX_LINE_CHARS]) is not None,
        )
    return found
