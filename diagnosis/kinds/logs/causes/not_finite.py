"""A training that went on with a loss that is not a number.

Nothing ends such a job: it counts to its last iteration and leaves well, and each iteration since
the first such loss trained nothing. One such line is no sign, because loss scaling skips a step and
goes on; here the last line of progress still shows it.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.evidence import Check, Outcome, Result
from diagnosis.kinds.logs.causes.failure_facts import Facts

THRESHOLDS: Final = thresholds.of("not_finite")

CATEGORY: Final = "user.numerics"
_SIGNATURE: Final = "numerics.nan_progress"
#: The value of a field that is no finite number.
_NOT_A_NUMBER: Final = re.compile(r"(?i)([=:|]\s*+)[-+]?(?:nan|inf(?:inity)?)\b")
_CHECK: Final = Check("not_finite", "Lines of progress", "", "", 0.0, "node", (), (), ())


def lasting_events(facts: Facts) -> frozenset[int]:
    """The events that show a loss that is no number to the last progress. O(occurrences)."""
    return frozenset(_last_occurrences(facts)["event"].to_list())


def lost_numbers(facts: Facts) -> tuple[Result, ...]:
    """That the loss was no number to the end, and since when; else empty. O(messages + lines)."""
    occurrences = _last_occurrences(facts)
    first = occurrences.sort("first_line", "file").head(1)
    if first.is_empty():
        return ()
    file, line = int(first["file"][0]), int(first["first_line"][0])
    points = facts.progress.points
    begun = points.filter((pl.col("file") == file) & (pl.col("line") == line))["n"]
    since = f" from iteration {begun[0]:,} on" if len(begun) else ""
    is_loss = set(first["event"]) <= set(_known(facts))
    what = "the loss" if is_loss else "a measured value"
    says = f"{what} was not finite (NaN or infinite){since}, to the last iteration shown"
    odds = THRESHOLDS.odds
    outcome = Outcome("not-finite", says, odds, categories={CATEGORY: odds}, adds=CATEGORY)
    iteration = int(begun[0]) if len(begun) else None
    return (Result(_CHECK, outcome, facts.table.files[file], line, "", iteration=iteration),)


def _last_occurrences(facts: Facts) -> pl.DataFrame:
    """The occurrences of such lines that hold the last line of progress of their file."""
    masked = [*facts.catalogue.masked(*_known(facts)), *_numbers_lost(facts)]
    occurrences = facts.catalogue.occurrences.filter(pl.col("masked").is_in(masked))
    last = facts.progress.points.group_by("file").agg(point=pl.col("line").max())
    joined = occurrences.join(last, on="file", how="inner")
    is_last = pl.col("last_line") >= pl.col("point")
    return joined.filter(is_last & (pl.col("n") >= THRESHOLDS.lines))


def _known(facts: Facts) -> list[int]:
    """The events whose lines name a loss that is not a number."""
    events = facts.catalogue.events
    return events.filter(pl.col("signature") == _SIGNATURE)["event"].to_list()


def _numbers_lost(facts: Facts) -> list[int]:
    """The messages of progress in which a number that was there before is none any more."""
    counting = facts.progress.points.group_by("masked").agg(first=pl.col("n").min())
    said = facts.table.messages.join(counting, on="masked").select("masked", "text", "first")
    begun: dict[str, int] = {}
    for text, first in said.select("text", "first").iter_rows():
        begun[text] = min(first, begun.get(text, first))
    lost: list[int] = []
    for masked, text, first in said.iter_rows():
        with_number = _NOT_A_NUMBER.sub(r"\1<NUM>", text)
        if with_number != text and begun.get(with_number, first) < first:
            lost.append(masked)
    return lost
