"""Whether training came to its planned end: by totals, remaining times and messages of an end."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.pace.progress import Progress
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.kinds.logs.rows.events import LogTable
from diagnosis.kinds.logs.text.patterns import Haystack
from diagnosis.knowledge import words
from diagnosis.model import Level, ReadRange
from diagnosis.values.extremes import middle

LIMITS: Final = thresholds.limits("planned_end")

#: The minutes and seconds that are left.
_LEFT: Final = words.regex("phrases", "left")
#: A counter with its planned end.
_COUNTER_OF_TOTAL: Final = re.compile(
    r"(?<![\d./])(\d{1,3}(?:,\d{3})+|\d+)(?:\.0+)?(?:it)?(?:\s*(/|\bof\b)\s*|\|)(\d{1,3}(?:,\d{3})+|\d+)"
    r"(?:\.0+)?(?:it)?(?![\d./kMG]| \d\d:)"
)
#: A counter, or the planned number of its unit, in a configuration: "max_steps: 2000", "Epoch:
#: [30]".
_UNIT_COUNT: Final = re.compile(
    r"(?i)(?<![a-z_])(?:(?:max|num|n|total|train|training|global)[_ -]?){0,3}(epoch|step|iter|update)[a-z]*"
    r"[\"'\]]*\s*[:=]?\s*[\[\"']*(\d{1,15})(?!\.?\d)"
)
#: The number of steps that a command line asks for.
_PLANNED_STEPS: Final = re.compile(
    r"(?i)(?<![a-z])(?:(?:max|num|n|total|train|training)[_-]){0,2}"
    r"(?:steps|iters|iterations|updates)[= ](\d{1,15})(?![.\d])"
)


def has_ended(progress: Progress, table: LogTable, read: ReadRange, planned: Sequence[int] = ()) -> bool:
    """Whether training came to its planned end in one of the files, by what a line of its last
    counter states, by the ``planned`` numbers of steps of its command line, or by a message of an
    end that is printed after it only. A program that closes far below the total of its steps was
    told to.
    O(messages + points), and the last lines of some writers are read.
    """
    new = _new_calm_messages(progress, table)
    if progress.last in planned or (new.height and _has_epilogue(new, table)):
        return True
    writers = progress.points.sort("file", "line").partition_by("file", "source", maintain_order=True)
    furthest = sorted(writers, key=lambda points: points["n"][-1])[-LIMITS.last_lines :]
    if any(_has_ended(points, progress.interval, table, read) for points in furthest):
        return True
    is_counted_out = any(_is_counted_out(points, table, read) for points in furthest)
    if not is_counted_out and not _is_closed(new, progress.last):
        return False
    return not any(_is_short(points, table, read) for points in furthest)


def planned_steps(commands: Sequence[str]) -> tuple[int, ...]:
    """The numbers of steps that command lines ask for ("--steps 80", "max_steps=80")."""
    return tuple(map(int, _PLANNED_STEPS.findall("\n".join(commands))))


def _new_calm_messages(progress: Progress, table: LogTable) -> pl.DataFrame:
    """The messages below a warning that nobody printed before the last progress."""
    last = progress.points.group_by("file").agg(line=pl.col("line").max())
    last_at = progress.points["at"].max()
    occurrences = table.occurrences.join(last, on="file", how="left")
    is_elsewhere = pl.col("line").is_null()
    is_later = (pl.col("first_at") >= pl.lit(last_at, pl.Int64)).fill_null(False)
    is_below = (pl.col("first_line") > pl.col("line")).fill_null(False)
    is_new = pl.when(is_elsewhere).then(is_later).otherwise(is_below)
    began = occurrences.group_by("masked").agg(is_new=is_new.all()).filter("is_new")
    calm = table.messages.filter(pl.col("level") < Level.WARNING)
    return calm.join(began, on="masked", how="semi")


def _has_epilogue(new: pl.DataFrame, table: LogTable) -> bool:
    """Whether one of the messages is of what comes after training, planned or stopped early."""
    return not new.filter(table.says(words.pattern("outcome", "epilogue"))).is_empty()


def _is_closed(new: pl.DataFrame, last: int | None) -> bool:
    """Whether a message is about an end, or about the counter as its own total ("40/40")."""
    if new.is_empty():
        return False
    hay, text = Haystack.of(new["text"]), new["text"]
    is_reached = new["example"].map_elements(partial(is_at_total, n=last), return_dtype=pl.Boolean)
    closed = text.filter(hay.contains(text, words.pattern("outcome", "closing")) | is_reached)
    is_denied = hay.contains(closed, words.pattern("outcome", "not_success"))
    is_denied |= hay.contains(closed, words.pattern("phrases", "failed_code"))
    return bool((~is_denied).any())


def _is_short(points: pl.DataFrame, table: LogTable, read: ReadRange) -> bool:
    """Whether a writer's last line states a total that its own counter has not reached."""
    n = points["n"][-1]
    (text,) = _texts(table, points["file"][-1], [points["line"][-1]], read)
    totals = [total for count, total in _totals(text) if count == n]
    return bool(totals) and min(totals) > n


def _is_counted_out(points: pl.DataFrame, table: LogTable, read: ReadRange) -> bool:
    """Whether a message that a writer prints once for each count of a total, after some steps,
    reaches that total below the last of them ("epoch 10/10").
    """
    file, line = points["file"][-1], points["line"][-1]
    is_around = pl.col("first_line").is_between(points["line"][0], line) & (pl.col("last_line") > line)
    around = table.occurrences.filter((pl.col("file") == file) & is_around)
    if around.is_empty():
        return False
    often = around.sort("n", "masked", descending=[True, False]).head(LIMITS.last_lines)
    texts = _texts(table, file, often["last_line"].to_list(), read)
    return any(map(is_at_total, texts, often["n"]))


def _has_ended(points: pl.DataFrame, interval: int, table: LogTable, read: ReadRange) -> bool:
    """The same for one writer. Each total that its last line states is reached ("321/321"), or
    nearly if other lines follow ("step 990 of 1000", every tenth is printed); a total that is
    reached again and again is not the job's. Where none counts the steps, the configuration may
    state it, or the time that is left is shorter than a usual interval.
    """
    file, lines, counts = points["file"][-1], points["line"].to_list(), points["n"].to_list()
    line, n = lines[-1], counts[-1]
    begun: dict[int, int] = {}  # the first line of each count
    for count, at in zip(counts, lines, strict=True):
        begun.setdefault(count, at)
    rounds = list(begun.values())
    said = table.occurrences.filter(pl.col("file") == file)
    before = [at for at in lines if at < rounds[-1]][-1:]
    texts = _texts(table, file, [line, *before], read)
    totals, is_followed = _totals(texts[0]), bool((said["last_line"] > line).any())
    if not _is_counted(totals, n):
        totals = _total_of_counter(points, table, read)
    if not _is_counted(totals, n):
        earlier = said.filter(pl.col("first_line") < rounds[0])
        totals = _planned_totals(texts[0], table.messages.join(earlier, on="masked"))
    if not _is_counted(totals, n):
        return is_followed and _is_nearly_over(texts, points["at"])
    reached = next(place for place, count in enumerate(counts) if count >= n)
    is_inner = any(count < n for count in counts[reached:])
    # a counter that begins at zero and is printed each time ends one below its total
    is_from_zero = interval == 1 and counts[0] == 0
    slack = interval if is_followed or is_from_zero else 0
    is_reached = all(total - count <= (slack if count == n else 0) for count, total in totals)
    return is_reached and not (is_inner and len(totals) <= 1)


def _total_of_counter(points: pl.DataFrame, table: LogTable, read: ReadRange) -> list[tuple[int, int]]:
    """The last count of a writer with the only total that the other lines of its counter state."""
    last = points.group_by("masked", maintain_order=True).last().tail(LIMITS.last_lines)
    texts = _texts(table, points["file"][-1], last["line"].to_list(), read)
    stated: set[int] = set()
    for own, text in zip(last["n"], texts, strict=True):
        stated.update(total for count, total in _totals(text) if count == own)
    n = points["n"][-1]
    return [(n, total) for total in stated if total >= n] if len(stated) == 1 else []


def _is_counted(totals: Sequence[tuple[int, int]], n: int) -> bool:
    """Whether any of these counts, each with its total, is ``n``."""
    return any(count == n for count, _ in totals)


def _is_nearly_over(texts: Sequence[str], at: pl.Series) -> bool:
    """Whether the last line states less time left than a usual interval, and than the line before."""
    gaps = at.diff().drop_nulls()
    usual_s = middle(gaps.filter(gaps > 0)) / 1e9
    left = [_left_s(text) for text in (*texts, "")]
    return left[0] <= usual_s and left[0] < left[1]


def _left_s(text: str) -> float:
    """The seconds that a line says are left; infinite if it says none."""
    found = _LEFT.search(text)
    return int(found[1]) * 60 + int(found[2]) if found else math.inf


def _texts(table: LogTable, file: int, lines: Sequence[int], read: ReadRange) -> list[str]:
    """Some lines of a file."""
    rows = [table.around(file, line, line) for line in lines]
    return raw_lines.read_lines(pl.concat(rows), table.files, read) if rows else []


def is_at_total(text: str, n: int | None) -> bool:
    """Whether a line states a count as its own total: ``iteration 900/900``. For a running job, too."""
    return (n, n) in _totals(text)


def is_below_total(progress: Progress, table: LogTable) -> bool:
    """Whether the lines of progress state a total that the last count is below. O(messages)."""
    counting = table.messages.filter(pl.col("masked").is_in(progress.points["masked"].implode()))
    totals = [total for text in counting["example"] for _, total in _totals(text)]
    return progress.last is not None and max(totals, default=0) > progress.last


def _totals(text: str) -> list[tuple[int, int]]:
    """The counters of a line with their totals. "2|40|" next to "40/90" is no total: two counters."""
    found = _COUNTER_OF_TOTAL.findall(text)
    pairs = [(_whole(a), bool(of), _whole(b)) for a, of, b in found]
    counted = {a for a, is_total, _ in pairs if is_total}
    return [(a, b) for a, is_total, b in pairs if b > 1 and (is_total or b not in counted)]


def _whole(number: str) -> int:
    """The value of a number, perhaps with commas between thousands."""
    return int(number.replace(",", "")[:15])


def _planned_totals(text: str, early: pl.DataFrame) -> list[tuple[int, int]]:
    """The counters of a line with the numbers of their unit that the messages before the first step
    state: of several the largest, next to a counter of another unit the next one. None if one
    counts beyond them.
    """
    planned: dict[bool, list[int]] = {True: [], False: []}
    for example in early["example"].filter(early["text"].str.contains("(?i)epoch|step|iter|update")):
        for unit, number in _UNIT_COUNT.findall(example):
            planned[unit.lower() == "epoch"].append(int(number))
    counted = {unit.lower() == "epoch": int(number) for unit, number in _UNIT_COUNT.findall(text)}
    pick = min if len(counted) > 1 else max
    found = [(n, pick((b for b in planned[is_epoch] if b >= n), default=0)) for is_epoch, n in counted.items()]
    return found if all(0 < a <= b for a, b in found) else []
