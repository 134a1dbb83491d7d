"""The stage of a job that a line shows: launch, rendezvous, model_build, checkpoint_load, training,
evaluation, checkpoint_save, shutdown.

Markers are words for beginnings and ends that frameworks share ("loading checkpoint", "number of
parameters", "evaluating"), not the lines of one framework. The stage of a traceback comes from the
functions of its frames, which is more reliable than the last marker before it.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from diagnosis.kinds.logs.meaning.remembered import RememberedAnswers
from diagnosis.kinds.logs.text.patterns import Haystack
from diagnosis.knowledge import words
from diagnosis.model import STAGES

BEFORE_TRAINING: Final = frozenset(STAGES[:4])
#: "while reading model.bin of checkpoint 40" is a note below an exception.
_FRAME: Final = r'^\W*file "|^\s*at |^while \w+ing |traceback|#\d+ |^\W*\^+\W*$'
_BAD: Final = r"\b(fail(ed|ure)?|error|exception|cannot|unable|warn(ing)?|not called)\b"


def stage_marks(messages: pl.DataFrame) -> pl.DataFrame:
    """The messages that are stage markers: ``masked``, ``stage``, ``is_end``. One vectorised search
    a pattern over unique messages that are not known from before.
    O(characters of those × patterns).
    """
    folded = messages.select("masked", text=pl.col("text").str.head(400).str.to_lowercase())
    rows = words.load("stages")
    place = pl.Series("place", _STAGE_ROWS.of(folded["text"]), dtype=pl.Int32)
    marked = folded.select("masked", place).drop_nulls("place")
    return marked.select(
        "masked",
        stage=pl.col("place").replace_strict(range(len(rows)), [r.id for r in rows], return_dtype=pl.String),
        is_end=pl.col("place").replace_strict(range(len(rows)), [r.is_end for r in rows], return_dtype=pl.Boolean),
    )


def _stage_rows(texts: pl.Series) -> list[int | None]:
    """The row of the stage that each text marks, if it marks one."""
    text, hay = pl.col("text"), Haystack.of(texts)
    expr = pl.lit(None, dtype=pl.Int32)
    for place, row in reversed(list(enumerate(words.load("stages")))):
        expr = pl.when(hay.contains(text, row.pattern)).then(pl.lit(place, dtype=pl.Int32)).otherwise(expr)
    is_marker = ~(hay.contains(text, _FRAME) | hay.contains(text, _BAD))
    found = pl.DataFrame({"text": texts}).select(pl.when(is_marker).then(expr))
    return found.to_series().to_list()


_STAGE_ROWS: Final = RememberedAnswers(_stage_rows)


def stage_of_frames(lines: list[str]) -> str | None:
    """The stage of a traceback's frames, by the most reliable rule, innermost first."""
    rows = words.load("frames")
    for row in rows:
        if any(re.search(row.pattern, line, re.IGNORECASE) for line in lines):
            return row.id
    return None


def stage_after_end(stage: str, trained: bool) -> str:
    """The stage after the end of ``stage``: training, if begun; else the next preparation."""
    return "training" if trained or stage in ("checkpoint_save", "evaluation") else "model_build"
