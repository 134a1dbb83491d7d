"""Progress: the counter that grows while a job trains, under any name.

A line is progress when it names a counter ("iteration 12/100", "step: 40", "global_step=7", "Epoch
3") and, within one file, the numbers of its template grow and never fall. Known words only choose
candidates; the growth decides (a general detector, L4 section 3.4 gives rules for known frameworks
only).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

import msgspec
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.pace import counters, durations
from diagnosis.kinds.logs.pace.counter_words import CANDIDATE, counter
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.kinds.logs.rows.events import LogTable
from diagnosis.knowledge import words
from diagnosis.model import ReadRange
from diagnosis.values.extremes import greatest, middle

LIMITS: Final = thresholds.limits("progress")

THRESHOLDS: Final = thresholds.of("progress")

#: Words before a number that make it no progress; other values of the line come after it.
_NOT_A_POINT: Final = (
    r"(?i)checkpoint|\bsav(e|ed|ing)\b|resum|restor|load(ed|ing)|must only|dropping|skipp|overflow|retry|attempt"
    r"|warn|error|exception|fail|eval|valid|timeout|watchdog|cache flush|prefetch|arguments|\.\.\.\.\.|will |every "
    r"\d|max_|num_train|total (train|optim)|warmup|interval"
)
_MEASURES: Final = (
    r"(?i)\b(loss|tflops|tps|throughput|samples/s|tokens/s|it/s|s/it|lr|learning[_ ]rate|grad[_ ]?norm|elapsed|ms)\b"
)
_NOT_PROGRESS: Final = re.compile(_NOT_A_POINT)
#: The number of an iteration that a line names; a loaded checkpoint.
_NAMED: Final = words.regex("phrases", "iteration")
_LOADED: Final = r"(?i)(?:load|resum|restor)"
_NOT_LOADED: Final = r"(?i)fail|error|unable|could not|cannot|shard"


class Progress(msgspec.Struct, frozen=True, dict=True):
    """The counter of a job.

    ``points``: ``file``, ``line``, ``source``, ``masked``, ``at`` (ns as written, may be null),
    ``n`` (the counter), ``seconds`` (stated in the line, may be null). ``kind``: ``iteration``,
    ``epoch`` or ``none``; ``first``: the first iteration of this launch, if a line states where
    training begins or which checkpoint was loaded.
    """

    kind: str
    points: pl.DataFrame
    first: int | None = None

    @cached_property
    def last(self) -> int | None:
        """The highest counter seen."""
        return greatest(self.points["n"])

    @cached_property
    def interval(self) -> int:
        """Counters between two printed lines."""
        steps = self.points.sort("file", "line").select(pl.col("n").diff().over("file")).to_series().drop_nulls()
        steps = steps.filter(steps > 0)
        return int(middle(steps)) or 1


def counter_kind(text: str) -> str | None:
    """The kind of the counter that a line of this wording names; None if it may be no progress: it
    names none, or another counted action.
    """
    return _point_kind(text) if re.search(CANDIDATE, text) else None


def may_count(text: str) -> tuple[tuple[int, ...], str] | None:
    """The numbers of a line that may count without a known word, and its first measurement."""
    return counters.counting_numbers(text, _NOT_PROGRESS)


def may_count_unnamed(text: str, kind: str | None) -> bool:
    """Whether a number of a line may count under an unknown name: the line names no counter, or an
    epoch (its ``kind``), which may last for hours.
    """
    return kind in (None, "epoch") and may_count(text) is not None


def _point_kind(text: str) -> str | None:
    """The kind of the counter of a line that may be progress."""
    found = counter(text)
    before = text[: found[2]] if found else ""
    if found is None or before.rpartition(" ")[2].count("/") > 1:  # the counter is part of a path
        return None
    return None if re.search(_NOT_A_POINT, re.sub(words.MODULE, "", before)) else found[0]


def find_progress(table: LogTable, read: ReadRange) -> Progress:
    """Find the job's counter. All compete: those with a known word, the numbers of other recurring
    lines that grow evenly, and, for jobs whose counter had no time to grow, those beside a
    measurement. The first of these counts, unless it covers much less of its files than a later
    one: then it is that of a part, such as an evaluation. Where there is none, saved checkpoints
    count. Reads at most ``LIMITS.lines`` lines of each of some files of some machines.
    O(messages + occurrences + lines read).
    """
    named = _named(table, read)
    kind, points = named.most_trusted(_growing_series(named.points))
    if _covered(points) < THRESHOLDS.covering * _lines_of(table, points):
        steps = _steps_of_epoch(table, named, read)
        if steps.is_empty():
            other = _counters_without_word(table, named, read)
            measuring = named.most_trusted(_measuring_series(table, named.points))
            kind, points = _widest([(kind, points), ("iteration", other), measuring])
        else:
            kind, points = _widest([(kind, points), ("iteration", steps)])
    if points.is_empty():
        kind, points = "iteration", _counters_of_checkpoints(table, read)
    if points.is_empty():
        return Progress("none", _NO_POINTS, _first_iteration(table))
    return Progress(kind, _agreeing_points(points), _first_iteration(table))


#: A kind of counter and its lines.
type _Counted = tuple[str, pl.DataFrame]


class _Named(msgspec.Struct, frozen=True):
    """Lines with a counter of a known word; ``kinds``: that of each message."""

    kinds: dict[int, str]
    points: pl.DataFrame

    def most_trusted(self, series: Sequence[int]) -> _Counted:
        """The counters of the most trusted kind among these series."""
        if self.points.is_empty():
            return "none", _NO_POINTS
        some = self.points.filter(pl.col("series").is_in(series))
        found = {self.kinds[masked] for masked in some["masked"].unique()}
        kind = next((one for one in ("iteration", "bar", "epoch") if one in found), "none")
        if len(found) > 1:
            some = some.filter(pl.col("masked").is_in([m for m, its in self.kinds.items() if its == kind]))
        is_epoch = kind == "epoch" and some["n"].n_unique() < THRESHOLDS.short_epochs
        return "epoch" if is_epoch else "iteration", some


def _named(table: LogTable, read: ReadRange) -> _Named:
    """All lines with a counter of a known word."""
    some = table.messages.filter(table.says(CANDIDATE))
    candidates = zip(some["masked"], some["example"], strict=True)
    kinds = {masked: kind for masked, example in candidates if (kind := _point_kind(example))}
    return _Named(kinds, _points(table, sorted(kinds), read))


def _widest(ways: Sequence[_Counted]) -> _Counted:
    """The first way of counting that covers as much as any other, nearly."""
    covered = [_covered(points) for _, points in ways]
    least = max(1, THRESHOLDS.covering * max(covered))
    return next((way for way, lines in zip(ways, covered, strict=True) if lines >= least), ("none", _NO_POINTS))


def _covered(points: pl.DataFrame) -> int:
    """The lines of files from the first point of each to its last one."""
    if points.is_empty():
        return 0
    spans = points.group_by("file").agg(lines=pl.col("line").max() - pl.col("line").min() + 1)
    return int(spans["lines"].sum())


def _lines_of(table: LogTable, points: pl.DataFrame) -> int:
    """The lines of the files with points; one if there are none."""
    files = set(points["file"].unique())
    sizes = zip(table.spans["file"], table.spans["lines"], strict=True)
    return sum(lines for file, lines in sizes if file in files) or 1


def _steps_of_epoch(table: LogTable, named: _Named, read: ReadRange) -> pl.DataFrame:
    """The steps within the only epoch of a job."""
    epochs = [masked for masked, kind in named.kinds.items() if kind == "epoch"]
    own = named.points.filter(pl.col("masked").is_in(epochs)) if epochs else _NO_POINTS
    if own["n"].n_unique() != 1:
        return _NO_POINTS
    points = _points(table, sorted(own["masked"].unique()), read, counters.step_of_epoch)
    return points.filter(pl.col("series").is_in(_growing_series(points)))


def _counters_without_word(table: LogTable, named: _Named, read: ReadRange) -> pl.DataFrame:
    """Counters without a known word, in lines that have none with one."""
    spoken = [masked for masked, kind in named.kinds.items() if kind == "iteration"]
    masked, counted = counters.find_counters(
        table, lambda rows: raw_lines.read_lines(rows, table.files, read), _NOT_A_POINT, spoken
    )
    return _points(table, sorted(masked), read, counted)


def _counters_of_checkpoints(table: LogTable, read: ReadRange) -> pl.DataFrame:
    """The counters at which checkpoints were saved."""
    is_saved = (table.says(words.pattern("phrases", name)) for name in ("saved_at", "not_saved"))
    masked = table.messages.filter(next(is_saved) & ~next(is_saved))["masked"]
    return _points(table, sorted(masked), read, counters.saved_counter)


_NO_POINTS: Final = pl.DataFrame(
    schema=dict.fromkeys(("file", "line", "source"), pl.UInt32)
    | {"at": pl.Int64, "masked": pl.UInt64, "series": pl.UInt64, "n": pl.Int64, "seconds": pl.Float64}
)
#: No counter.
NONE: Final = Progress("none", _NO_POINTS)


def _points(
    table: LogTable,
    masked: Sequence[int],
    read: ReadRange,
    counted: Callable[[str], tuple[str, int, int] | None] = counter,
) -> pl.DataFrame:
    if not masked:
        return _NO_POINTS
    rows = point_rows(table, pl.Series(masked, dtype=pl.UInt64))
    texts = raw_lines.read_lines(rows, table.files, read)
    found = [counted(text) for text in texts]
    said = table.messages.filter(pl.col("masked").is_in(masked))
    own_series = counters.series_of(zip(said["masked"], said["text"], strict=True))
    is_bar = [one is not None and one[0] == "bar" for one in found]
    series = [
        counters.series_of_bar(own_series[message], text) if drawn else own_series[message]
        for message, text, drawn in zip(rows["masked"], texts, is_bar, strict=True)
    ]
    numbers = [one[1] if one else None for one in found]
    return (
        rows.select("file", "line", "at", "masked")
        .with_columns(
            source=_writers(rows, series),
            series=pl.Series(series, dtype=pl.UInt64),
            n=pl.Series(numbers, dtype=pl.Int64),
            seconds=pl.Series(_seconds(rows["masked"], texts, numbers), dtype=pl.Float64),
        )
        .drop_nulls("n")
    )


def _writers(rows: pl.DataFrame, series: Sequence[int]) -> pl.Series:
    """The source of each line. Where each line of a series in a file has its own, they are one: the
    number that begins each line counts, and names no task.
    """
    places = list(zip(rows["file"], series, strict=True))
    lines = Counter(places)
    writers: dict[tuple[int, int], set[int]] = {}
    for place, source in zip(places, rows["source"], strict=True):
        writers.setdefault(place, set()).add(source)
    counting = {place for place, n in lines.items() if n == len(writers[place]) >= counters.THRESHOLDS.least}
    shared = {place: min(writers[place]) for place in counting}
    own = [shared.get(place, source) for place, source in zip(places, rows["source"], strict=True)]
    return pl.Series(own, dtype=pl.UInt32)


def _seconds(masked: pl.Series, texts: Sequence[str], numbers: Sequence[int | None]) -> list[float | None]:
    """The duration that lines state, of messages in which it is not the counter alone."""
    took: list[float | None] = []
    untimed: Counter[int] = Counter()  # lines of a message before one states a duration; below zero after that
    timed = durations.Durations()
    other: set[int] = set()
    for message, text, number in zip(masked, texts, numbers, strict=True):
        took.append(timed.seconds(message, text) if untimed[message] < LIMITS.untimed else None)
        untimed[message] += 1 if took[-1] is None else -len(texts)
        if took[-1] is not None and took[-1] != number:
            other.add(message)
    return [seconds if message in other else None for message, seconds in zip(masked, took, strict=True)]


def point_rows(table: LogTable, masked: pl.Series) -> pl.DataFrame:
    """The lines of these messages on the machines that print most of them, and the last line of
    each of them on the others. Machines, not files: the same lines in other files are the same
    progress.
    """
    counting = table.occurrences.filter(pl.col("masked").is_in(masked.implode())).join(
        table.sources.select("source", home=pl.coalesce("node", pl.format("file {}", "file"))), on="source"
    )
    lines = counting.group_by("home").agg(pl.col("n").sum())
    writers = lines.sort("n", "home", descending=[True, False])["home"]
    busiest = counting.filter(pl.col("home").is_in(writers.head(LIMITS.machines).implode()))
    files = busiest.group_by("file").agg(pl.col("n").sum()).sort("n", "file", descending=[True, False])["file"]
    chosen = files.head(LIMITS.machines * LIMITS.files).sort()
    held = dict(counting.group_by("file").agg(pl.col("n").sum()).iter_rows())
    short = [file for file in chosen if held[file] <= LIMITS.lines]
    wanted = masked.to_list()
    found = [table.rows(wanted, files=short)]
    found += [table.sampled(wanted, file, LIMITS.lines) for file in chosen if file not in short]
    rows = pl.concat(found).sort("file", maintain_order=True)
    others = counting.filter(~pl.col("file").is_in(chosen.implode())).drop_nulls("last_at")
    if others.is_empty():
        return rows
    latest = (
        others.sort("last_at", "home", "file", "last_line", descending=[True, False, False, False])
        .unique("masked", keep="first", maintain_order=True)
        .select("file", "masked", line="last_line")
        .head(LIMITS.machines * LIMITS.files)
    )
    last = table.rows(latest["masked"].to_list(), files=latest["file"].to_list())
    return pl.concat([rows, last.join(latest, on=["file", "line", "masked"], how="semi", maintain_order="left")])


def _growing_series(points: pl.DataFrame) -> list[int]:
    """Series whose counter never falls in a source, restarts aside, and takes two values."""
    grown = (
        points.sort("file", "line")
        .with_columns(step=pl.col("n").diff().over("source", "series"))
        .group_by("series")
        .agg(falls=(pl.col("step") < 0).sum(), rises=(pl.col("step") > 0).sum(), values=pl.col("n").n_unique())
        .filter(
            (pl.col("values") >= 2) & (pl.col("rises") >= 1) & (pl.col("falls") * THRESHOLDS.rises <= pl.col("rises"))
        )
    )
    return sorted(grown["series"].to_list())


def _measuring_series(table: LogTable, points: pl.DataFrame) -> list[int]:
    """Where no counter had time to grow: series with a counter and measurements of a step."""
    measured = table.messages.filter(
        pl.col("masked").is_in(points["masked"].unique().implode()) & pl.col("text").str.contains(_MEASURES)
    )
    return sorted(points.filter(pl.col("masked").is_in(measured["masked"].implode()))["series"].unique())


def _agreeing_points(points: pl.DataFrame) -> pl.DataFrame:
    """Drop counters that count something else: those whose range neither overlaps that of the
    series that covers most lines nor continues it, or which are behind it where it has come
    further. One that begins where it ended counts on in other words ("loss: nan") and may go any
    far.
    """
    if points["series"].n_unique() == 1:
        return points
    low_high = {"low": pl.col("n").min(), "high": pl.col("n").max()}
    span = pl.col("line").max() - pl.col("line").min()
    covered = points.group_by("series", "file").agg(lines=span)
    lines = covered.group_by("series").agg(pl.col("lines").sum())
    size = points.group_by("series").agg(**low_high).join(lines, on="series")
    main = size.sort("lines", "high", "series", descending=[True, True, False]).row(0, named=True)
    next_to = Progress("iteration", points.filter(pl.col("series") == main["series"])).interval
    continues = pl.col("low") > main["high"]
    is_near = pl.col("high") <= main["high"] * THRESHOLDS.beyond + THRESHOLDS.slack
    same = size.filter(
        (pl.col("high") >= main["low"] - next_to) & (pl.col("low") <= main["high"] + next_to) & (continues | is_near)
    )
    if same.height == 1:
        return points.filter(pl.col("series") == main["series"])
    own = {*same["series"]} - _behind(points, main["series"], next_to * THRESHOLDS.slack)
    return points.filter(pl.col("series").is_in(own))


def _behind(points: pl.DataFrame, main: int, slack: int) -> set[int]:
    """The series most of whose lines count less, by ``slack``, than the main one above."""
    reached: dict[int, int] = {}
    lines: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    for file, series, n in points.sort("file", "line").select("file", "series", "n").iter_rows():
        if series == main:
            reached[file] = n
        lines[series] += 1
        behind[series] += n + slack < reached.get(file, 0)
    return {series for series, n in behind.items() if 2 * n > lines[series]}


def _first_iteration(table: LogTable) -> int | None:
    """The highest iteration that a line names as the first ("training starts at step n"), or as one
    whose checkpoint was saved; or the one after that of a loaded checkpoint.
    """
    begun = table.messages.filter(table.says(words.pattern("phrases", "began_at")))["example"]
    loaded = table.messages.filter(table.says(_LOADED) & ~table.says(_NOT_LOADED))["example"]
    numbers = [int(number) for line in begun for number in _NAMED.findall(line)]
    numbers += [int(found.group(1)) + 1 for line in loaded if (found := _NAMED.search(line))]
    return max(numbers, default=None)
