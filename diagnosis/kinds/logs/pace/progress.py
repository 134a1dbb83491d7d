"""Progress: the counter that grows while a job trains, under any name.

A line is progress when it names a counter ("iteration 12/100", "step: 40", "global_step=7", "Epoch
3") and, within one file, the numbers of its template grow and never fall. Known words only choose
candidates; the growth decides (a general detector, L4 section 3.4 gives rules for known frameworks
only).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.meaning import words
from diagnosis.kinds.logs.pace import counters, durations
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.kinds.logs.read.patterns import Haystack
from diagnosis.kinds.logs.rows.events import LogTable
from diagnosis.model import Level, ReadRange

LIMITS: Final = thresholds.limits("progress")

THRESHOLDS: Final = thresholds.of("progress")

#: The text between a counter's name and its number.
_BEFORE_NUMBER: Final = r"(?:/max_steps)?[\"']?(?:\(train\))?\s*+[=:#]?\s*+(?:\[\s*+|[\"'])?"
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
)
#: A line that may hold one: these patterns without what the linear-time dialect lacks.
_CANDIDATE: Final = "(?i)" + "|".join(re.sub(r"\(\?i\)|\(\?![^)]*\)", "", pattern) for _, pattern in _COUNTERS)
#: Words before a number that make it no progress; other values of the line come after it.
_NOT_A_BEAT: Final = (
    r"(?i)checkpoint|\bsav(e|ed|ing)\b|resum|restor|load(ed|ing)|must only|dropping|skipp|overflow|retry|attempt"
    r"|warn|error|exception|fail|eval|valid|timeout|watchdog|cache flush|prefetch|arguments|\.\.\.\.\.|will |every "
    r"\d|max_|num_train|total (train|optim)|warmup|interval"
)
_MEASURES: Final = (
    r"(?i)\b(loss|tflops|tps|throughput|samples/s|tokens/s|it/s|s/it|lr|learning[_ ]rate|grad[_ ]?norm|elapsed|ms)\b"
)
#: The minutes and seconds that are left.
_LEFT: Final = words.regex("phrases", "left")
#: A counter with its planned end.
_COUNTER_OF_TOTAL: Final = re.compile(r"(?<![\d./])(\d+)(?:\s*(/|\bof\b)\s*|\|)(\d+)(?![\d./]| \d\d:)")
#: A counter, or the planned number of its unit, in a configuration: "max_steps: 2000", "Epoch:
#: [30]".
_UNIT_COUNT: Final = re.compile(
    r"(?i)(?<![a-z_])(?:(?:max|num|n|total|train|training|global)[_ -]?){0,3}(epoch|step|iter|update)[a-z]*"
    r"[\"'\]]*\s*[:=]?\s*[\[\"']*(\d{1,15})(?![.\d])"
)
#: The number of steps that a command line asks for.
_PLANNED_STEPS: Final = re.compile(
    r"(?i)(?<![a-z])(?:(?:max|num|n|total|train|training)[_-]){0,2}"
    r"(?:steps|iters|iterations|updates)[= ](\d{1,15})(?![.\d])"
)
#: The number of an iteration that a line names; a loaded checkpoint.
_NAMED: Final = words.regex("phrases", "iteration")
_LOADED: Final = r"(?i)(?:load|resum|restor)"
_NOT_LOADED: Final = r"(?i)fail|error|unable|could not|cannot|shard"


@dataclass(frozen=True)
class Progress:
    """The counter of a job.

    ``beats``: ``file``, ``line``, ``source``, ``masked``, ``at`` (ns as written, may be null),
    ``n`` (the counter), ``seconds`` (stated in the line, may be null). ``kind``: ``iteration``,
    ``epoch`` or ``none``; ``first``: the first iteration of this launch, if a line states where
    training begins or which checkpoint was loaded.
    """

    kind: str
    beats: pl.DataFrame
    first: int | None = None

    @cached_property
    def last(self) -> int | None:
        """The highest counter seen."""
        return None if self.beats.is_empty() else int(self.beats["n"].max())  # type: ignore[arg-type]

    @cached_property
    def interval(self) -> int:
        """Counters between two printed lines."""
        steps = self.beats.sort("file", "line").select(pl.col("n").diff().over("file")).to_series().drop_nulls()
        steps = steps.filter(steps > 0)
        return int(steps.median() or 1) if steps.len() else 1  # type: ignore[arg-type]


@cache
def _counters() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """``_COUNTERS``, compiled at the first use: that takes as long as the rest of this module."""
    return tuple((kind, re.compile(pattern)) for kind, pattern in _COUNTERS)


def counter(text: str) -> tuple[str, int, int] | None:
    """The counter in one line, by its most trusted word: kind, number, position in the line."""
    for kind, pattern in _counters():
        if found := pattern.search(text):
            return kind, int(found.group(1).replace(",", "")[:15]), found.start()
    return None


def names_counter(text: str) -> bool:
    """Whether a line of this wording may be progress: it names a counter, and no other counted
    action.
    """
    return bool(re.search(_CANDIDATE, text)) and _beat_kind(text) is not None


def _beat_kind(text: str) -> str | None:
    """The kind of the counter of a line that may be progress."""
    found = counter(text)
    before = text[: found[2]] if found else ""
    if found is None or before.rpartition(" ")[2].count("/") > 1:  # the counter is part of a path
        return None
    return None if re.search(_NOT_A_BEAT, re.sub(words.MODULE, "", before)) else found[0]


def find_progress(table: LogTable, read: ReadRange) -> Progress:
    """Find the job's counter: by its known word; else the number of a recurring line that grows
    evenly; else that of saved checkpoints. Reads at most ``LIMITS.lines`` lines of each of some
    files of some machines.
    """
    for way in (_counters_by_word, _counters_without_word, _counters_of_checkpoints):
        kind, beats = way(table, read)
        if not beats.is_empty():
            return Progress(kind, _agreeing_beats(beats), _first_iteration(table))
    return Progress("none", _NO_BEATS, _first_iteration(table))


def _counters_by_word(table: LogTable, read: ReadRange) -> tuple[str, pl.DataFrame]:
    """Counters with a known word, those of the most trusted word that grows."""
    candidates = table.messages.filter(table.says(_CANDIDATE)).select("masked", "example")
    kinds = {masked: kind for masked, example in candidates.iter_rows() if (kind := _beat_kind(example))}
    beats = _beats(table, sorted(kinds), read)
    good = _growing_messages(beats) or _measuring_messages(table, beats)
    for kind in ("iteration", "bar", "epoch"):
        trusted = beats.filter(pl.col("masked").is_in([m for m in good if kinds[m] == kind]))
        if kind == "epoch" and not (steps := _steps_of_epoch(table, trusted, read)).is_empty():
            return "iteration", steps
        if not trusted.is_empty():
            is_epoch = kind == "epoch" and trusted["n"].n_unique() < THRESHOLDS.short_epochs
            return "epoch" if is_epoch else "iteration", trusted
    return "none", _NO_BEATS


def _steps_of_epoch(table: LogTable, epochs: pl.DataFrame, read: ReadRange) -> pl.DataFrame:
    """The steps within the only epoch of a job."""
    if epochs["n"].n_unique() != 1:
        return _NO_BEATS
    beats = _beats(table, sorted(epochs["masked"].unique()), read, counters.step_of_epoch)
    return beats.filter(pl.col("masked").is_in(_growing_messages(beats)))


def _counters_without_word(table: LogTable, read: ReadRange) -> tuple[str, pl.DataFrame]:
    """Counters without a known word."""
    masked, counted = counters.find_counters(
        table, lambda rows: raw_lines.read_lines(rows, table.files, read), _NOT_A_BEAT
    )
    return "iteration", _beats(table, sorted(masked), read, counted)


def _counters_of_checkpoints(table: LogTable, read: ReadRange) -> tuple[str, pl.DataFrame]:
    """The counters at which checkpoints were saved."""
    is_saved = (table.says(words.pattern("phrases", name)) for name in ("saved_at", "not_saved"))
    masked = table.messages.filter(next(is_saved) & ~next(is_saved))["masked"]
    return "iteration", _beats(table, sorted(masked), read, counters.saved_counter)


_NO_BEATS: Final = pl.DataFrame(
    schema=dict.fromkeys(("file", "line", "source"), pl.UInt32)
    | {"at": pl.Int64, "masked": pl.UInt64, "n": pl.Int64, "seconds": pl.Float64}
)
#: No counter.
NONE: Final = Progress("none", _NO_BEATS)


def _beats(
    table: LogTable,
    masked: Sequence[int],
    read: ReadRange,
    counted: Callable[[str], tuple[str, int, int] | None] = counter,
) -> pl.DataFrame:
    if not masked:
        return _NO_BEATS
    rows = _beat_rows(table, pl.Series(masked, dtype=pl.UInt64))
    texts = raw_lines.read_lines(rows, table.files, read)
    found = [counted(text) for text in texts]
    took: list[float | None] = []
    untimed: Counter[int] = Counter()  # lines of a message before one states a duration; below zero after that
    timed = durations.Durations()
    for message, text in zip(rows["masked"], texts, strict=True):
        took.append(timed.seconds(message, text) if untimed[message] < LIMITS.untimed else None)
        untimed[message] += 1 if took[-1] is None else -rows.height
    return (
        rows.select("file", "line", "at", "source", "masked")
        .with_columns(
            n=pl.Series([f[1] if f else None for f in found], dtype=pl.Int64), seconds=pl.Series(took, dtype=pl.Float64)
        )
        .drop_nulls("n")
    )


def _beat_rows(table: LogTable, masked: pl.Series) -> pl.DataFrame:
    """The lines of these messages on the machines that print most of them, and the last line of
    each of them on the others. Machines, not files: the same lines in other files are the same
    progress.
    """
    beat_cells = table.cells.filter(pl.col("masked").is_in(masked.implode())).join(
        table.sources.select("source", home=pl.coalesce("node", pl.format("file {}", "file"))), on="source"
    )
    writers = beat_cells.group_by("home").agg(pl.col("n").sum()).sort("n", "home", descending=[True, False])["home"]
    busiest = beat_cells.filter(pl.col("home").is_in(writers.head(LIMITS.machines).implode()))
    files = busiest.group_by("file").agg(pl.col("n").sum()).sort("n", "file", descending=[True, False])["file"]
    chosen = files.head(LIMITS.machines * LIMITS.files).sort()
    held = dict(beat_cells.group_by("file").agg(pl.col("n").sum()).iter_rows())
    short = [file for file in chosen if held[file] <= LIMITS.lines]
    wanted = masked.to_list()
    found = [table.rows(wanted, files=short)]
    found += [table.sampled(wanted, file, LIMITS.lines) for file in chosen if file not in short]
    rows = pl.concat(found).sort("file", maintain_order=True)
    others = beat_cells.filter(~pl.col("file").is_in(chosen.implode())).drop_nulls("last_at")
    latest = (
        others.sort("last_at", "home", "file", "last_line", descending=[True, False, False, False])
        .unique("masked", keep="first", maintain_order=True)
        .select("file", "masked", line="last_line")
        .head(LIMITS.machines * LIMITS.files)
    )
    last = table.rows(latest["masked"].to_list(), files=latest["file"].to_list())
    return pl.concat([rows, last.join(latest, on=["file", "line", "masked"], how="semi", maintain_order="left")])


def _growing_messages(beats: pl.DataFrame) -> list[int]:
    """Messages whose counter never falls within a source (restarts aside) and takes two values or
    more.
    """
    grown = (
        beats.sort("file", "line")
        .with_columns(step=pl.col("n").diff().over("source", "masked"))
        .group_by("masked")
        .agg(falls=(pl.col("step") < 0).sum(), rises=(pl.col("step") > 0).sum(), values=pl.col("n").n_unique())
        .filter(
            (pl.col("values") >= 2) & (pl.col("rises") >= 1) & (pl.col("falls") * THRESHOLDS.rises <= pl.col("rises"))
        )
    )
    return sorted(grown["masked"].to_list())


def _measuring_messages(table: LogTable, beats: pl.DataFrame) -> list[int]:
    """For jobs whose counter had no time to grow: messages with a counter and measurements of a
    step.
    """
    measured = table.messages.filter(
        pl.col("masked").is_in(beats["masked"].unique().implode()) & pl.col("text").str.contains(_MEASURES)
    )
    return sorted(measured["masked"].to_list())


def _agreeing_beats(beats: pl.DataFrame) -> pl.DataFrame:
    """Drop counters that count something else: those whose range neither overlaps that of the
    message with most lines nor continues it (a line is worded anew once a number in it gets
    longer).
    """
    size = beats.group_by("masked").agg(lines=pl.len(), low=pl.col("n").min(), high=pl.col("n").max())
    main = size.sort("lines", "high", "masked", descending=[True, True, False]).row(0, named=True)
    next_to = Progress("iteration", beats.filter(pl.col("masked") == main["masked"])).interval
    same = size.filter(
        (pl.col("high") >= main["low"] - next_to)
        & (pl.col("low") <= main["high"] + next_to)
        & (pl.col("high") <= main["high"] * THRESHOLDS.beyond + THRESHOLDS.slack)
    )
    return beats.filter(pl.col("masked").is_in(same["masked"].implode()))


def has_ended(progress: Progress, table: LogTable, read: ReadRange, planned: Sequence[int] = ()) -> bool:
    """Whether training came to its planned end in one of the files, by what a line of its last
    counter states, by the ``planned`` numbers of steps of its command line, or by a message of an
    end that is printed after it only.
    """
    if progress.last in planned or _is_closed(progress, table):
        return True
    writers = progress.beats.sort("file", "line").partition_by("file", "source", maintain_order=True)
    furthest = sorted(writers, key=lambda beats: beats["n"][-1])[-LIMITS.last_lines :]
    return any(_has_ended(beats, progress.interval, table, read) for beats in furthest)


def planned_steps(commands: Sequence[str]) -> tuple[int, ...]:
    """The numbers of steps that command lines ask for ("--steps 80", "max_steps=80")."""
    return tuple(map(int, _PLANNED_STEPS.findall("\n".join(commands))))


def _is_closed(progress: Progress, table: LogTable) -> bool:
    """Whether a writer closes after the last progress: with a calm message that nobody printed
    before, about an end or about the counter that is its own total ("40/40").
    """
    at_end = (progress.last, progress.last)
    last = progress.beats.group_by("file").agg(line=pl.col("line").max())
    last_at = progress.beats["at"].max()
    cells = table.cells.join(last, on="file", how="left")
    is_elsewhere = pl.col("line").is_null()
    is_later = (pl.col("first_at") >= pl.lit(last_at, pl.Int64)).fill_null(False)
    is_below = (pl.col("first_line") > pl.col("line")).fill_null(False)
    is_new = pl.when(is_elsewhere).then(is_later).otherwise(is_below)
    began = cells.group_by("masked").agg(is_new=is_new.all()).filter("is_new")
    new = table.messages.join(began, on="masked", how="semi").filter(pl.col("level") < Level.WARNING)
    hay, text = Haystack.of(new["text"]), new["text"]
    if not new.filter(table.says(words.pattern("outcome", "epilogue"))).is_empty():
        return True
    is_reached = new["example"].map_elements(lambda line: at_end in _totals(line), return_dtype=pl.Boolean)
    closed = text.filter(hay.contains(text, words.pattern("outcome", "closing")) | is_reached)
    is_denied = hay.contains(closed, words.pattern("outcome", "not_success"))
    is_denied |= hay.contains(closed, words.pattern("phrases", "failed_code"))
    return bool((~is_denied).any())


def _has_ended(beats: pl.DataFrame, interval: int, table: LogTable, read: ReadRange) -> bool:
    """The same for one writer. Each total that its last line states is reached ("321/321"), or
    nearly if other lines follow ("step 990 of 1000", every tenth is printed); a total that is
    reached again and again is not the job's. Where none counts the steps, the configuration may
    state it, or the time that is left is shorter than a usual interval.
    """
    file, line, n = beats["file"][-1], beats["line"][-1], beats["n"][-1]
    rounds = beats.unique("n", keep="first", maintain_order=True)["line"]
    said = table.cells.filter(pl.col("file") == file)
    before = beats.filter(pl.col("line") < rounds[-1])["line"].to_list()[-1:]
    texts = _texts(table, file, [line, *before], read)
    totals, is_followed = _totals(texts[0]), bool((said["last_line"] > line).any())
    if not any(a == n for a, _ in totals):
        totals = _planned_totals(
            texts[0], table.messages.join(said.filter(pl.col("first_line") < rounds[0]), on="masked")
        )
    if not any(a == n for a, _ in totals):
        gaps = beats["at"].diff().drop_nulls()
        usual_s = float(gaps.filter(gaps > 0).median() or 0) / 1e9  # type: ignore[arg-type]
        left = [int(t[1]) * 60 + int(t[2]) if (t := _LEFT.search(text)) else math.inf for text in (*texts, "")]
        return is_followed and left[0] <= usual_s and left[0] < left[1]
    below = (beats["n"] < n).arg_true()
    is_inner = below.len() > 0 and below[-1] > (beats["n"] >= n).arg_true()[0]
    slack = interval if is_followed else 0
    is_reached = all(total - count <= (slack if count == n else 0) for count, total in totals)
    return is_reached and not (is_inner and len(totals) <= 1)


def _texts(table: LogTable, file: int, lines: Sequence[int], read: ReadRange) -> list[str]:
    """Some lines of a file."""
    rows = [table.around(file, line, line).filter(pl.col("line") == line) for line in lines]
    return raw_lines.read_lines(pl.concat(rows), table.files, read) if rows else []


def _totals(text: str) -> list[tuple[int, int]]:
    """The counters of a line with their totals. "2|40|" next to "40/90" is no total: two counters."""
    pairs = [(int(a[:15]), bool(of), int(b[:15])) for a, of, b in _COUNTER_OF_TOTAL.findall(text)]
    counted = {a for a, is_total, _ in pairs if is_total}
    return [(a, b) for a, is_total, b in pairs if b > 1 and (is_total or b not in counted)]


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


def _first_iteration(table: LogTable) -> int | None:
    """The highest iteration that a line names as the first ("training starts at step n"), or as one
    whose checkpoint was saved; or the one after that of a loaded checkpoint.
    """
    begun = table.messages.filter(table.says(words.pattern("phrases", "began_at")))["example"]
    loaded = table.messages.filter(table.says(_LOADED) & ~table.says(_NOT_LOADED))["example"]
    numbers = [int(number) for line in begun for number in _NAMED.findall(line)]
    numbers += [int(found.group(1)) + 1 for line in loaded if (found := _NAMED.search(line))]
    return max(numbers, default=None)
