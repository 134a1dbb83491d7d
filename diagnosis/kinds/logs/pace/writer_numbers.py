"""The number that tells which process wrote a line, under any name.

Processes that share a file print the same line in each step, and one number in it says whose it is:
it takes each value from 0 on equally often, changes from line to line, and comes in another order
from step to step. A loop in one process (micro-steps, layers) counts in the same order each time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from diagnosis import thresholds
from diagnosis.kinds.logs.text.digit_forms import span_of

THRESHOLDS: Final = thresholds.of("writer_numbers")

LIMITS: Final = thresholds.limits("writer_numbers")

_RANK: Final = re.compile(r"(?i)(?<![\w-])(?:(?:global[_ ]?)?rank|worker|r)[\"']?[ :=]{0,2}(\d{1,6})(?![\w.])")
_NUMBER: Final = re.compile(r"\d++(?:[.:,/-]\d++)*+")
_MAX_DIGITS: Final = 6
_stated_rank: Final = span_of(_RANK)


def rank_of(line: str) -> int | None:
    """The rank that a line is about; None where it states none."""
    place = _stated_rank.of(line)
    return int(line[place[0] : place[1]]) if place is not None else None


def ranks_of(lines: Sequence[str], headed: Iterable[int | None]) -> list[int | None]:
    """The rank that wrote each of these lines of one wording, in the order of their file: as its
    header says (``headed``), as the line says, or the number that tells the writer. O(characters).
    """
    known = zip(lines, headed, strict=True)
    stated = [rank_of(line) if rank is None else rank for line, rank in known]
    if any(rank is not None for rank in stated):
        return stated
    return [*(writers_of(lines) or stated)]


def writers_of(lines: Sequence[str]) -> list[int] | None:
    """The process that wrote each of these lines; None if no number tells. O(characters)."""
    numbers = [[found[0] for found in _NUMBER.finditer(line, 0, LIMITS.chars)] for line in lines]
    width = min(map(len, numbers), default=0)
    for place in range(min(width, LIMITS.numbers)):
        column = [line[place] for line in numbers]
        if all(_is_small(word) for word in column):
            writers = [int(word) for word in column]
            if _tells_writers(writers):
                return writers
    return None


def _is_small(word: str) -> bool:
    return len(word) <= _MAX_DIGITS and word.isdecimal()


def _tells_writers(column: Sequence[int]) -> bool:
    """Whether these numbers are those of processes that print in turn, in no fixed order."""
    times = Counter(column)
    many = len(times)
    if many < THRESHOLDS.writers or set(times) != set(range(many)):
        return False
    usual = len(column) / many
    is_even = min(times.values()) >= THRESHOLDS.even * usual and usual >= THRESHOLDS.lines
    if not is_even:
        return False
    followers = Counter(pairwise(column))
    stays = sum(count for (one, other), count in followers.items() if one == other)
    in_order = sum(count for (one, other), count in followers.items() if other == (one + 1) % many)
    pairs = len(column) - 1
    return bool(stays <= THRESHOLDS.stays * pairs and in_order <= THRESHOLDS.in_order * pairs)
