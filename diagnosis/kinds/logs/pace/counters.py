"""Counters without a known word: the number of a recurring line that grows by the same amount from
one to the next.

If a log uses known words, these choose candidates (:mod:`progress`). A house style or another
language may use none of them. Its lines of progress still have a typical form: they recur, an
integer in them grows evenly, and a measurement next to it, a number with a fraction, changes. A
clock grows evenly too, but with time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise, repeat
from typing import Final, NamedTuple

import msgspec
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.kinds.logs.rows.events import LogTable
from diagnosis.knowledge import words
from diagnosis.knowledge.late_patterns import late
from diagnosis.model import Level

LIMITS: Final = thresholds.limits("counters")

THRESHOLDS: Final = thresholds.of("counters")

#: A number, perhaps behind a few Latin letters ("b0012") or within words of another script: dates
#: and times of day are one, too, and so is one with a comma between thousands.
_NUMBER: Final = late(
    r"(?<![A-Za-z0-9])[A-Za-z]{0,5}+"
    r"(\d{2,4}-\d\d-\d{2,4}(?!\d)|\d++(?:[:.]\d++|,\d{3}(?!\d))*+(?:[eE][-+]?+\d++)?+)"
)
#: An integer, perhaps written with commas or as a fraction of zero ("1,024", "62.0").
_INTEGER: Final = late(r"(\d{1,3}(?:,\d{3})++|\d++)(?:\.0++)?+")
_FRACTION: Final = late(r"\d++[.,]\d++(?:[eE][-+]?+\d++)?+")
#: A progress bar as it is drawn, between its two ends.
DRAWN_BAR: Final = late(
    r"\|(?=[^|]{4})[█▉▊▋▌▍▎▏#]*[0-9]? *\|"
    r"|\[(?=[^\]]{4})[=#]*>?[ .\-]*\]"
)
#: A masked number, a part of one, or the share of a bar that is drawn in one piece with it.
_MASKED_BAR: Final = late(
    r"[|\[][█▉▊▋▌▍▎▏#=>.\- ]*+[|\]]|(?:<NUM>[.,:]?)+|[\s%]+",
)
#: The total of a bar, and how many numbers of series there are.
_TOTAL_OF_BAR: Final = late(r"[|\s]\d++/(\d++)")
_SERIES: Final = 1 << 63
#: All samples of an epoch, and the share: "Epoch: 2 [640/60000 (1%)]".
_SHARE: Final = late(r"/\d++ ?\(\s*+\d")
#: A step within an epoch and their number: "[300/2028]". Samples state their share, too: "[300/2028 (15%)]".
_STEP_OF_EPOCH: Final = late(r"[\[(]\s*+(\d{1,15})/\d{1,15}[\])]")
#: A checkpoint that was saved at a counter.
_SAVED: Final = words.regex("phrases", "saved_at")
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


def series_of(texts: Iterable[tuple[int, str]]) -> dict[int, int]:
    """For each message (its number and masked text) the least of those that differ from it only in
    the length of a number or in the state of a progress bar: they count together.
    """
    least: dict[str, int] = {}
    keys = {masked: _MASKED_BAR.sub(" ", text[: LIMITS.chars]) for masked, text in texts}
    for masked in sorted(keys):
        least.setdefault(keys[masked], masked)
    return {masked: least[key] for masked, key in keys.items()}


def series_of_bar(series: int, text: str) -> int:
    """The series of a bar of this one: bars of another total count something else."""
    total = _TOTAL_OF_BAR.search(text)
    return hash((series, int(total[1][: LIMITS.digits]))) % _SERIES if total else series


class _Column(msgspec.Struct, frozen=True):
    """The place of a counter among its line's numbers, and the text before it."""

    place: int
    before: str

    def find(self, line: str, numbers: Sequence[re.Match[str]]) -> re.Match[str] | None:
        """The number at this place of a line."""
        if len(numbers) <= self.place or _text_before(line, numbers, self.place) != self.before:
            return None
        return numbers[self.place]


def find_counters(
    table: LogTable, read: Lines, not_progress: str, spoken: Sequence[int] = ()
) -> tuple[tuple[int, ...], Counted]:
    """The messages with such a counter, and a function that reads it from one of their lines, like
    ``counter_words.counter``.

    ``read`` gives the text of rows; ``not_progress``: what counts something else if it stands before
    the number; ``spoken``: messages that are left out. Cost: at most ``LIMITS.messages`` ×
    ``LIMITS.lines`` lines read.
    """
    columns: list[_Column] = []
    found: list[int] = []
    recurring = _recurring(table, spoken)
    for messages, sample in zip(recurring, _samples(table, recurring, read), strict=True):
        column = _counting_column(*sample, late(not_progress))
        if column is not None:
            found += messages
            columns.append(column)

    def counted(line: str) -> tuple[str, int, int] | None:
        numbers = _numbers(line)
        for column in columns:
            number = column.find(line, numbers)
            value = None if number is None else _integer(number[1])
            if number is not None and value is not None:
                return "iteration", value, number.start(1)
        return None

    return tuple(found), counted


def _recurring(table: LogTable, spoken: Sequence[int]) -> list[list[int]]:
    """The messages of the series that recur most."""
    is_calm = (pl.col("level") < Level.ERROR) & ~pl.col("masked").is_in(spoken)
    calm = table.messages.filter(is_calm).sort("count", "masked", descending=[True, False])
    rows = calm.head(LIMITS.candidates).select("masked", "text", "count").rows()
    series = series_of((masked, text) for masked, text, _ in rows)
    lines: dict[int, int] = {}
    for masked, _, count in rows:
        lines[series[masked]] = lines.get(series[masked], 0) + count
    often = [one for one, count in lines.items() if count >= THRESHOLDS.least]
    often.sort(key=lambda one: (-lines[one], one))
    members: dict[int, list[int]] = {one: [] for one in often[: LIMITS.messages]}
    for masked, one in series.items():
        members.get(one, []).append(masked)
    return list(members.values())


def _numbers(line: str) -> list[re.Match[str]]:
    """The first numbers of a line."""
    drawn = DRAWN_BAR.search(line, 0, LIMITS.chars)
    found = [*_NUMBER.finditer(line, 0, LIMITS.chars)][: LIMITS.numbers]
    return [one for one in found if drawn is None or not drawn.start() <= one.start() < drawn.end()]


def _text_before(line: str, numbers: Sequence[re.Match[str]], place: int) -> str:
    """The text between a number and the one before it."""
    begin = numbers[place - 1].end() if place else 0
    return " ".join(DRAWN_BAR.sub("|", line[begin : numbers[place].start(1)]).split())


def _integer(number: str) -> int | None:
    """The value of a number without a fraction."""
    found = _INTEGER.fullmatch(number)
    return int(found[1].replace(",", "")[: LIMITS.digits]) if found else None


_NUMBERED: Final = {"masked": pl.UInt64, "series": pl.UInt32}


class _Writer(NamedTuple):
    """Who prints the messages of a series most, and how many lines of them."""

    file: int
    source: int
    n: int


def _samples(
    table: LogTable, series: Sequence[Sequence[int]], read: Lines
) -> Iterator[tuple[list[str], list[int | None]]]:
    """Some lines of each of these series by the writer that prints it most, and their times."""
    for rows in _sampled_rows(table, series, [_busiest(table, messages) for messages in series]):
        yield [line[: LIMITS.chars] for line in read(rows)], rows["at"].to_list()


def _busiest(table: LogTable, messages: Sequence[int]) -> _Writer:
    """The writer that prints these messages most. O(occurrences)."""
    own = table.occurrences.filter(pl.col("masked").is_in(messages))
    writers = own.group_by("file", "source").agg(pl.col("n").sum())
    return _Writer(*writers.sort("n", "file", "source", descending=[True, False, False]).row(0))


def _sampled_rows(
    table: LogTable,
    series: Sequence[Sequence[int]],
    writers: Sequence[_Writer],
) -> list[pl.DataFrame]:
    """The last rows of each series by its writer among the first ``LIMITS.rows`` of it in the writer's
    file. O(lines of these files): each is read once for all series.
    """
    found = [table.rows([]) for _ in series]
    missing = [LIMITS.rows] * len(series)  # rows that may still be looked at
    for file in dict.fromkeys(writer.file for writer in writers):
        of_file = [number for number, writer in enumerate(writers) if writer.file == file]
        members = (zip(series[number], repeat(number), strict=False) for number in of_file)
        numbers = pl.DataFrame([*chain(*members)], _NUMBERED, orient="row")
        for slab in table.slabs(numbers["masked"].to_list(), files=[file]):
            rows = slab.join(numbers, on="masked", maintain_order="left")
            for number in of_file:
                own = rows.filter(pl.col("series") == number).drop("series").head(missing[number])
                missing[number] -= own.height
                found[number] = _last_rows(found[number], own, writers[number])
            if not any(missing[number] for number in of_file):
                break
    return found


def _last_rows(found: pl.DataFrame, rows: pl.DataFrame, writer: _Writer) -> pl.DataFrame:
    """The last rows of a writer, copied, so that those of a slab are freed. A number that begins each
    line is taken for the label of its writer: such lines are those of one writer.
    """
    own = rows.filter(pl.col("source") == writer.source) if writer.n > 1 else rows
    return pl.concat([found, own.tail(LIMITS.lines)], rechunk=True).tail(LIMITS.lines)


def _counting_column(
    lines: Sequence[str],
    times: Sequence[int | None],
    not_progress: re.Pattern[str],
) -> _Column | None:
    """The number that counts in these lines, if there is one and another number measures."""
    found = [_numbers(line) for line in lines]
    size = min(map(len, found), default=0)
    if len(found) < THRESHOLDS.least or size < THRESHOLDS.measured:
        return None
    columns = [_texts(found, place) for place in range(size)]
    if not any(map(_is_measure, columns)):
        return None
    growths = [_even_growths(column, times) for column in columns]
    is_counter = [_may_count(lines[-1], number, not_progress) for number in found[-1][:size]]
    allowed = [many if is_so else 0 for many, is_so in zip(growths, is_counter, strict=True)]
    place = allowed.index(max(allowed))
    return _Column(place, _text_before(lines[-1], found[-1], place)) if allowed[place] else None


def _texts(found: Sequence[Sequence[re.Match[str]]], place: int) -> list[str]:
    """The numbers of all lines at one place."""
    return [numbers[place][1] for numbers in found]


def _is_measure(column: Sequence[str]) -> bool:
    """Whether these numbers have fractions, not all of them zero, and differ."""
    is_whole = all(_integer(number) is not None for number in column)
    return not is_whole and len(set(column)) > 1 and all(map(_FRACTION.fullmatch, column))


def _may_count(line: str, number: re.Match[str], not_progress: re.Pattern[str]) -> bool:
    """Whether the words of a line before a number, and its share, allow it to count steps."""
    before = re.sub(words.MODULE, "", line[: number.start(1)])
    is_sample = "epoch" in before.lower() and _SHARE.match(line, number.end())
    return not is_sample and not not_progress.search(before)


def _even_growths(column: Sequence[str], times: Sequence[int | None]) -> int:
    """How often the integers of a column grow, if they do so evenly: several lines may have one."""
    values = [_integer(text) for text in column]
    if None in values:
        return 0
    counted = [(value, at) for value, at in zip(values, times, strict=True) if value is not None]
    later = [two for one, two in pairwise(counted) if two[0] != one[0]]
    changed = counted[:1] + later
    grown, since = zip(*changed, strict=True)
    return len(changed) if _is_even(grown, since) else 0


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
    return not grows_with_time(usual, passed)


def grows_with_time(growth: int, passed_s: float) -> bool:
    """Whether a number grew as a clock does, in seconds or thousandths or millionths."""
    if growth == 1 or passed_s <= 0:
        return False
    shares = [growth / (passed_s * unit) for unit in (1, 1e3, 1e6)]
    return any(abs(share - 1) <= THRESHOLDS.like_time for share in shares)


def counting_numbers(line: str, not_progress: re.Pattern[str]) -> tuple[tuple[int, ...], str] | None:
    """The numbers of a line, 0 where one cannot count, and its first fraction; None if it has no
    whole number or no fraction. A measure may be whole by chance ("49.0"): fractions keep places.
    """
    counting: list[int] = []
    measures: list[str] = []
    for number in _numbers(line):
        value = _integer(number[1])
        if value is not None:
            counting.append(value * _may_count(line, number, not_progress))
        elif _FRACTION.fullmatch(number[1]):
            counting.append(0)
            measures.append(number[1])
    has_both = 0 < len(measures) < len(counting)
    return (tuple(counting), measures[0]) if has_both else None
