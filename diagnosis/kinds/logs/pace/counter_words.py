"""The counter that a line names by a known word: "iteration 12/100", "global_step=7", "Epoch 3"."""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from diagnosis.kinds.logs.text.digit_forms import DigitForms
from diagnosis.knowledge import words
from diagnosis.knowledge.late_patterns import late

#: The text between a counter's name and its number.
_BEFORE_NUMBER: Final = r"(?:/max_steps)?[\"']?(?:\(train\))?\s*+[=:#|]?\s*+(?:\[\s*+|[\"'])?"
#: The number, perhaps with a comma between thousands.
_COUNT: Final = r"(\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
#: The number goes on, or is a share.
_NO_PART: Final = r"(?!\.?\d|\s?%)"
#: Its name in other languages than English.
_STEP: Final = words.pattern("phrases", "step").removeprefix("(?i)")
#: The times after a progress bar: elapsed and left, or the speed alone.
_BAR_TIME: Final = r"\[(?:[\d:]+\s*[<,]|\d[\d.]*\s?(?:s/it|it/s))"
#: Counters by trust: (kind, pattern with the number as its first group).
_COUNTERS: Final = (
    ("iteration", rf"(?i)\bglobal[_ ]?step{_BEFORE_NUMBER}{_COUNT}{_NO_PART}"),
    ("iteration", rf"(?i)\b(?:iter(?:ation)?s?|itr){_BEFORE_NUMBER}{_COUNT}{_NO_PART}"),
    (
        "iteration",
        r"(?i)(?:\bstep(?:_num)?|\bsteps|\bupdate|\bnum_updates|\btrain_step|\bbatch(?:_idx)?"
        rf"|{_STEP}){_BEFORE_NUMBER}{_COUNT}{_NO_PART}",
    ),
    ("bar", rf"(?:\||\s)(\d+)/\d+\s*{_BAR_TIME}"),
    ("epoch", rf"(?i)\bepoch(?:_num|_no|_count)?{_BEFORE_NUMBER}(\d+)(?!\.\d)"),
    # the share of training that is over, as a field of a record: its whole epochs count
    ("epoch", r"[\"']epoch[\"']: (\d+)\.\d"),
)
#: A line that may hold one: these patterns without what the linear-time dialect lacks.
CANDIDATE: Final = "(?i)" + "|".join(re.sub(r"\(\?i\)|\(\?![^)]*\)", "", pattern) for _, pattern in _COUNTERS)


@cache
def _counters() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """``_COUNTERS``, compiled at the first use: that takes as long as the rest of this module."""
    return tuple((kind, late(pattern)) for kind, pattern in _COUNTERS)


def counter(text: str) -> tuple[str, int, int] | None:
    """The counter in one line, by its most trusted word: kind, number, position in the line."""
    place = _places.of(text)
    if place is None:
        return None
    number = text[place.begin : place.end]
    return place.kind, int(number.replace(",", "")[:15]), place.start


class _Place(NamedTuple):
    """Where a counter of a kind stands in a line, from its word on, and its number."""

    kind: str
    start: int
    begin: int
    end: int


def _place_of(text: str) -> _Place | None:
    """The place of the counter with the most trusted word in a line."""
    for kind, pattern in _counters():
        if found := pattern.search(text):
            return _Place(kind, found.start(), *found.span(1))
    return None


_places: Final = DigitForms(_place_of)
