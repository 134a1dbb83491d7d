"""Counters without a known word: the number of a recurring line that grows by the same amount from one to the next.

If a log uses known words, these choose candidates (:mod:`progress`). A house style or another language
may use none of them. Its lines of progress still have a typical form: they recur, an integer in them grows evenly, and
a measurement next to it, a number with a fraction, changes. A clock grows evenly too, but with time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.meaning import words
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.kinds.logs.rows.events import LogTable
from diagnosis.model import Level

LIMITS: Final = thresholds.limits("counters")

THRESHOLDS: Final = thresholds.of("counters")

_OTHER_MASK: Final = re.compile(r"<(?!NUM>)[A-Z]+>")
#: What may stand between the digits of one number.
_MARKS: Final = ".,"
#: A step within an epoch and their number: "[300/2028]". Samples state their share, too: "[300/2028 (15%)]".
_STEP_OF_EPOCH: Final = re.compile(r"[\[(](\d{1,15})/\d{1,15}[\])]")
#: A checkpoint that was saved at a counter.
_SAVED: Final = words.regex("phrases", "saved_at")
#: The place of the first number: no later digit of one is tried.
_FIRST: Final = r"(?<!\d)(?<!\d[.,])"
type Counted = Callable[[str], tuple[str, int, int] | None]
type Lines = Callable[[pl.DataFrame], Sequence[str]]


def saved_counter(text: str) -> tuple[str, int, int] | None:
    """The counter at which a line says that a checkpoint was saved: kind, number, position."""
    found = _SAVED.search(text)
    return ("iteration", int((found[1] or found[2])[:15]), found.start()) if found else None


def step_of_epoch(text: str) -> tuple[str, int, int] | None:
    """The step within its epoch that a line states: kind, number, position in the line."""
    found = _STEP_OF_EPOCH.search(text)
    return ("iteration", int(found[1]), found.start()) if found else None


def find_counters(table: LogTable, read: Lines, not_a_beat: str) -> tuple[tuple[int, ...], Counted]:
    """The messages with such a counter, and a function that reads it from one of their lines, like
    ``progress.counter``.

    ``read`` gives the text of rows; ``not_a_beat``: messages that match it count something else. Cost: at most
    ``LIMITS.messages`` × ``LIMITS.lines`` lines read.
    """
    text = pl.col("text")
    candidates = (
        table.messages.filter(
            (pl.col("count") >= THRESHOLDS.least)
            & (pl.col("level") < Level.ERROR)
            & (text.str.count_matches("<NUM>", literal=True) >= THRESHOLDS.measured)
            & ~text.str.contains(not_a_beat)
        )
        .sort("count", "masked", descending=[True, False])
        .head(LIMITS.messages)
    )
    found: dict[int, tuple[re.Pattern[str], int]] = {}
    for masked, wording in candidates.select("masked", "text").iter_rows():
        for pattern in _patterns(wording):
            place = _counting_group(pattern, *_sample(table, masked, read))
            if place is not None:
                found[masked] = (pattern, place)
                break

    def counted(line: str) -> tuple[str, int, int] | None:
        for pattern, place in found.values():
            if (match := pattern.search(line[: LIMITS.chars])) and match.group(place).isdecimal():
                return "iteration", int(match.group(place)[: LIMITS.digits]), match.start(place)
        return None

    return tuple(found), counted


def _patterns(wording: str) -> list[re.Pattern[str]]:
    """Patterns that find the numbers of a masked message in a raw line, one group each: one pattern for each stretch
    between other masks, of its first numbers.

    The wording is evidence, and a pattern made of it must cost no line more than its length: nothing that a number has
    taken is given back, and what stands between two numbers is part of none.
    """
    stretches = [stretch.split("<NUM>")[: LIMITS.numbers + 1] for stretch in _OTHER_MASK.split(wording)]
    return [_pattern(parts) for parts in stretches if len(parts) > THRESHOLDS.measured]


def _pattern(parts: Sequence[str]) -> re.Pattern[str]:
    """The pattern of some numbers with these texts before, between and after them."""
    marks = "".join(mark for mark in _MARKS if mark not in parts)
    more = rf"(?:[{marks}]\d++)*+" if marks else ""
    number = rf"([-+]?+\d++{more}(?:[eE][-+]?+\d++)?+)"
    known = [r"\s++".join(map(re.escape, re.split(r"\s+", part))) for part in parts]
    return re.compile(_FIRST * (not parts[0]) + number.join(known))


def _sample(table: LogTable, masked: int, read: Lines) -> tuple[list[str], list[int | None]]:
    """Some lines of the message by the writer that prints it most, and their times."""
    cells = table.cells.filter(pl.col("masked") == masked)
    most = cells.sort("n", "file", "source", descending=[True, False, False]).row(0, named=True)
    rows = table.rows([masked], files=[most["file"]], limit=LIMITS.rows).filter(pl.col("source") == most["source"])
    rows = rows.tail(LIMITS.lines)
    return [line[: LIMITS.chars] for line in read(rows)], rows["at"].to_list()


def _counting_group(pattern: re.Pattern[str], lines: Sequence[str], times: Sequence[int | None]) -> int | None:
    """The group of the pattern that counts in these lines (from 1), if there is one and another group measures."""
    found = [(match.groups(), at) for line, at in zip(lines, times, strict=True) if (match := pattern.search(line))]
    if len(found) < THRESHOLDS.least:
        return None
    numbers, times = zip(*found, strict=True)
    columns = list(zip(*numbers, strict=True))
    if not any(len(set(column)) > 1 and all(re.search(r"[.,]\d", value) for value in column) for column in columns):
        return None
    for place, column in enumerate(columns, 1):
        if all(value.isdecimal() for value in column) and _is_even([int(v[: LIMITS.digits]) for v in column], times):
            return place
    return None


def _is_even(values: Sequence[int], times: Sequence[int | None]) -> bool:
    """Whether the numbers grow by one amount, except at restarts, and not with the clock."""
    growths = [later - earlier for earlier, later in pairwise(values) if later > earlier]
    if len(growths) < max(THRESHOLDS.least - 1, THRESHOLDS.even * (len(values) - 1)):
        return False
    usual = sorted(growths)[len(growths) // 2]
    if sum(growth == usual for growth in growths) < THRESHOLDS.even * len(growths):
        return False
    gaps = [(b - a) / SECOND for a, b in pairwise(times) if a is not None and b is not None]
    passed = sorted(gaps)[len(gaps) // 2] if gaps else 0.0
    return (
        usual == 1
        or not passed
        or all(abs(usual / (passed * unit) - 1) > THRESHOLDS.like_time for unit in (1, 1e3, 1e6))
    )
