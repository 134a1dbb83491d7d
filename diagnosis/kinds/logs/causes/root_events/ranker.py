"""Orders the candidates for the first line of a failure by a fitted additive model.

The score of a candidate is the sum of its columns (:mod:`candidates`) times the weights of
``ranker.json``. A weight whose sign its meaning demands has that sign. ``python -m lab.measure
ranker --write`` fits the weights on jobs whose root lines were labelled by reading, whole sources
left out for the figures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

import polars as pl

from diagnosis import thresholds

LIMITS: Final = thresholds.limits("ranker")

#: What a column with a large share in a score says of a line, as the end of "it comes first
#: because".
MEANINGS: Final[Mapping[str, str]] = {
    "rule": "a rule knows it as a cause",
    "rule_strong": "its words name the cause nearly always",
    "rule_decisive": "its words name the cause itself",
    "confirmation": "it confirms a cause",
    "error": "its program calls it an error",
    "problem_word": "it has a word for a problem",
    "decision": "somebody decided the end",
    "death": "a process or a machine died",
    "first_exception": "it is the first exception of its file",
    "near_end": "it is near the end of its file",
    "after_progress": "it comes after the last progress",
    "writers": "many processes print it",
}


@cache
def weights() -> Mapping[str, float]:
    """The fitted weight of each column."""
    text = resources.files("diagnosis").joinpath("ranker.json").read_text(encoding="utf-8")
    return dict(json.loads(text)["weights"])


def scores(candidates: pl.DataFrame) -> dict[int, float]:
    """The score of each candidate: the higher, the likelier the first. O(candidates)."""
    total = pl.sum_horizontal(pl.col(name) * weight for name, weight in weights().items())
    return dict(candidates.select("event", total).iter_rows())


def reasons(candidates: pl.DataFrame, event: int) -> tuple[str, ...]:
    """What adds most to an event's score, the largest first; nothing of no candidate."""
    own = candidates.filter(pl.col("event") == event)
    if own.is_empty():
        return ()
    row = own.row(-1, named=True)
    added = {name: row[name] * weight for name, weight in weights().items()}
    largest = sorted((name for name in added if added[name] > 0), key=lambda name: -added[name])
    return tuple(MEANINGS[name] for name in largest[: LIMITS.reasons])
