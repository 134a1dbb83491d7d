"""The duration of a step that a line of progress states, in any words.

Lines of one message have the same words around other numbers. So only the first line is searched
for a duration; in the others the number is read after the same words, at a fiftieth of the cost.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from diagnosis import thresholds

LIMITS: Final = thresholds.limits("durations")

#: A duration of one step: what is timed, the unit, the number.
_SECONDS: Final = re.compile(
    r"(?i)(?:elapsed time per iteration|(?:(?<![\w/])[\w/]*(?:step|iter(?:ation)?|batch)"
    r"[ _]?(?:time|timing|seconds|duration)"
    r"|(?:time|seconds|duration)(?:[ _](?:per|a|of)[ _]|/)(?:iteration|step|iter|batch|it)|interval_runtime"
    r"|(?<!\d )\bseconds"
    r"|\bstep))[\"']?\s*+(?:in )?(?:\(?(ms|s)\)?)?\s*+[=:]?\s*+(\d+(?:\.\d+)?)\s*(ms|s\b|sec\w*)?"
)
_PER_ITERATION: Final = re.compile(r"(?i)(?<!\d)(\d++(?:\.\d++)?) ?s(?:ec\w*+)?/(?:it|iter|step|batch)\b")
_RATE: Final = re.compile(
    r"(?i)(?:\b(\d+(?:\.\d+)?) ?(?:it|iter|step|batch|batches)/s\b"
    r"|(?:batches|steps|iterations)_per_sec\w*[\"']?\s*[=:]\s*(\d+(?:\.\d+)?))"
)
#: A duration in any words, next to a counter; remaining time, or time spent on something else, does
#: not count.
_TOOK: Final = re.compile(
    r"(?i)(?<![\w/])(?:took|takes|in|dt|time|secs?|duration|latency|wall|cost)[\"']?\s*+[=:(]?\s*+"
    r"(\d+(?:\.\d+)?) ?(ms|msec\w*|s\b|sec\w*)?"
)
_NOT_TOOK: Final = re.compile(
    r"(?i)(eta|remain\w*|left|total|overall|since|wait\w*|data|load\w*|epoch)\W{0,3}\w{0,8}\W{0,3}$"
)
#: Characters before a number in which its other meaning is looked for.
_MEANING_CHARS: Final = 64
#: Number of words before a number that find it in other lines of its message; their maximum length.
_WORDS_BEFORE: Final = re.compile(r"[^\d\n]{4,40}$")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


class StatedDuration(NamedTuple):
    """A stated duration: its position, and the seconds of one unit, or of a step of a rate."""

    start: int
    end: int
    unit: float
    is_rate: bool = False

    def value(self, number: str) -> float:
        """Seconds."""
        return 1 / float(number) if self.is_rate else float(number) * self.unit


def stated_duration(text: str) -> StatedDuration | None:
    """The duration of a step that a progress line states."""
    return _named(text) or _per_iteration(text) or _rate(text) or _took(text)


def _named(text: str) -> StatedDuration | None:
    """A number beside a word for time or a unit."""
    for found in _SECONDS.finditer(text):
        unit = (found.group(1) or found.group(3) or "").lower()
        # "step 12" counts and "step 1.2 s" times: without a unit only a word for time will do
        if unit or any(word in found[0].lower() for word in ("tim", "sec", "dur")):
            return StatedDuration(*found.span(2), 1e-3 if unit == "ms" else 1.0)
    return None


def _per_iteration(text: str) -> StatedDuration | None:
    each = _PER_ITERATION.search(text)
    return StatedDuration(*each.span(1), 1.0) if each else None


def _rate(text: str) -> StatedDuration | None:
    """Steps in a second."""
    rate = _RATE.search(text)
    if rate is None or float(rate.group(1) or rate.group(2)) <= 0:
        return None
    return StatedDuration(*rate.span(1 if rate.group(1) else 2), 1.0, is_rate=True)


def _took(text: str) -> StatedDuration | None:
    """What something else than a step took is no duration of one."""
    for found in _TOOK.finditer(text):
        unit = (found.group(2) or "").lower()
        is_timed = unit or found[0].lower().startswith(("dt", "sec", "duration", "took"))
        if is_timed and not _NOT_TOOK.search(text, max(found.start() - _MEANING_CHARS, 0), found.start()):
            return StatedDuration(*found.span(1), 1e-3 if unit.startswith("m") else 1.0)
    return None


class Durations:
    """Durations of many lines of a few messages."""

    def __init__(self) -> None:
        # of a message: words before, characters after, their meaning
        self._known: dict[int, tuple[str, str, StatedDuration]] = {}

    def seconds(self, message: int, text: str) -> float | None:
        """The seconds of a step that a line of ``message`` states; see :func:`stated_duration`."""
        if known := self._known.get(message):
            before, behind, how = known
            at = text.find(before) + len(before)
            if at >= len(before) and (number := _NUMBER.match(text, at)) and text.startswith(behind, number.end()):
                value = number.group()
                if text.find(before, at) < 0 and (not how.is_rate or float(value) > 0):
                    return how.value(value)
        found = stated_duration(text)
        if found is None:
            return None
        words = _WORDS_BEFORE.search(text[: found.start])
        if words and text.count(words.group()) == 1:
            behind = text[found.end : found.end + LIMITS.chars_after]
            if not any(char.isdecimal() for char in behind):
                self._known[message] = words.group(), behind, found
        return found.value(text[found.start : found.end])
