"""Which source printed which message, how often, first and last time: a row for each (source,
message), and for each file.

Lines are counted in runs of any length, anywhere: :func:`count_lines` makes :class:`Counts` of a
run, :func:`join_counts` those of consecutive runs. Joining is associative, so any number of
processes may count, and join in a tree. :func:`occurrences_of_files` makes the tables of a job of
them. One pass of compiled code over the lines; the rest follows the number of *different* pairs. A
file is read in slices, so that memory stays bounded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from diagnosis.kinds.logs.columns.tables import YEARLESS
from diagnosis.kinds.logs.rows import stored_rows
from diagnosis.kinds.logs.rows.line_counts import COUNTED, JUMP, NEVER, Edges, Tally
from diagnosis.kinds.logs.rows.stored_rows import Rows
from diagnosis.kinds.logs.text.stamps import NO_TIME
from diagnosis.model import Parsed

#: Lines read at a time (about 50 bytes each).
MAX_LINES: Final = 1 << 19
#: Files read at a time.
_MAX_FILES: Final = 512
OCCURRENCES: Final = {
    "file": pl.UInt32,
    "source": pl.UInt32,
    "masked": pl.UInt64,
    "n": pl.UInt32,
    "first_line": pl.UInt32,
    "last_line": pl.UInt32,
    "first_at": pl.Int64,
    "last_at": pl.Int64,
    "until_at": pl.Int64,
    "is_stamped": pl.Boolean,
}
SPANS: Final = {
    "file": pl.UInt32,
    "lines": pl.UInt64,
    "first_at": pl.Int64,
    "last_at": pl.Int64,
    "jumps": pl.UInt32,
}


class Counts(NamedTuple):
    """The occurrences of a run of lines of one file, and its edges.

    A row of ``occurrences`` (:data:`COUNTED`) is a writer with a message: ``n`` lines, their
    ``first_line`` and ``last_line`` (1 is the run's first); ``stated_at``: the first time that one
    of them states; ``known_at``, ``last_at``: the first and last time that are known of one, its
    own or the last before it in the run; ``until_at``: by when those were written that another time
    follows in the run; ``is_early``: one is before the run's first time; ``is_waiting``: one is
    after its last.
    """

    occurrences: pl.DataFrame
    edges: Edges


def join_counts(runs: Sequence[Counts]) -> Counts:
    """The counts of consecutive runs of one file as those of one run. Associative. O(occurrences)."""
    parts, lines, jumps = [pl.DataFrame(schema=COUNTED)], 0, 0
    first: int | None = None
    last: int | None = None
    coming: list[int | None] = [None, *(run.edges.first for run in reversed(runs))]  # the first time after each run
    for place in range(1, len(coming)):
        coming[place] = coming[place - 1] if coming[place] is None else coming[place]
    for run, after in zip(runs, reversed(coming[:-1]), strict=True):
        early, waiting = pl.col("is_early"), pl.col("is_waiting")
        before, until = pl.lit(last, pl.Int64), pl.lit(after, pl.Int64)
        parts.append(
            run.occurrences.with_columns(
                pl.col("first_line", "last_line") + pl.lit(lines, pl.UInt32),
                known_at=pl.when(early).then(pl.min_horizontal("known_at", before)).otherwise("known_at"),
                last_at=pl.when(early).then(pl.max_horizontal("last_at", before)).otherwise("last_at"),
                until_at=pl.when(waiting).then(pl.max_horizontal("until_at", until)).otherwise("until_at"),
                is_early=early & pl.lit(last is None),
                is_waiting=waiting & pl.lit(after is None),
            )
        )
        edges = run.edges
        jumps += edges.jumps + (last is not None and edges.first is not None and edges.first - last <= -JUMP)
        lines += edges.lines
        first = edges.first if first is None else first
        last = last if edges.last is None else edges.last
    occurrences = (
        pl.concat(parts)
        .group_by("source", "masked")
        .agg(
            pl.col("n").sum(),
            pl.col("first_line").min(),
            pl.col("last_line").max(),
            pl.col("stated_at", "known_at").min(),
            pl.col("last_at", "until_at").max(),
            pl.col("is_early", "is_waiting").any(),
        )
    )
    occurrences = occurrences.select(pl.col(name).cast(kind) for name, kind in COUNTED.items())
    return Counts(occurrences.sort("source", "masked"), Edges(lines, first, last, jumps))


def count_lines(lines: Rows) -> Counts:
    """The counts of one file's lines, all of whose times are final."""
    occurrences, (edges,) = _of_group([lines], [0], None)
    return Counts(occurrences.select(COUNTED.keys()).sort("source", "masked"), edges)


def with_sources(counts: Counts, source: Sequence[int]) -> Counts:
    """The counts with other numbers of the writers: ``source[n]`` instead of n."""
    number = pl.col("source").replace_strict(list(range(len(source))), source, return_dtype=pl.UInt32)
    return counts._replace(occurrences=counts.occurrences.with_columns(number))


def counts_of(p: Parsed) -> Counts:
    """The counts of a log: stored ones, or made now."""
    if p.occurrences is None:
        return count_lines(stored_rows.lines_of(p))
    return Counts(pl.read_parquet(p.occurrences), Edges(*p.facts["edges"]))


def store_counts(p: Parsed, counts: Counts, target: Path) -> Parsed:
    """``p`` with its counts in the file ``target``."""
    counts.occurrences.write_parquet(target, compression="lz4", statistics=False)
    return replace(p, occurrences=target, facts={**p.facts, "edges": list(counts.edges)})


def occurrences_of_files(
    logs: Sequence[Rows],
    bases: Sequence[int],
    year_at: int | None,
    kept: pl.Series | None,
    parsed: Sequence[Parsed] = (),
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """``occurrences`` (of the messages ``kept`` only, where not all are) and ``spans`` (of all lines) of
    these files, see
    :class:`events.LogTable`; ``bases`` are the numbers of each file's first writer; ``parsed``: the
    files as they were parsed. Those that were counted are not read, unless their times move to
    another year.
    """
    found, spans = [pl.DataFrame(schema=OCCURRENCES)], dict[int, tuple[object, ...]]()

    def add(occurrences: pl.DataFrame, edges: Mapping[int, Edges], files: Mapping[int, int]) -> None:
        # ``files``: the file of each number in the table
        base = {number: bases[file] for number, file in files.items()}
        here = occurrences.filter(pl.col("file").is_in(list(files))).with_columns(
            file=pl.col("file").replace_strict(files, return_dtype=pl.UInt32),
            source=pl.col("source") + pl.col("file").replace_strict(base, return_dtype=pl.UInt32),
        )
        found.append(_as_occurrences(here, kept))
        spans.update(_spans(here, edges))

    done = _counted_files(parsed, year_at)
    counted = set(chain.from_iterable(files.values() for files in done.values()))
    unread = [file for file in range(len(logs)) if file not in counted]
    for places in file_groups([logs[file].size for file in unread]):
        group = [unread[place] for place in places]
        occurrences, edges = _of_group([logs[file] for file in group], [bases[file] for file in group], year_at)
        add(occurrences, dict(zip(group, edges, strict=True)), dict(enumerate(group)))
    for table, files in done.items():
        stored = pl.read_parquet(table)
        occurrences = stored if "file" in stored.columns else stored.with_columns(file=pl.lit(0, pl.UInt32))
        add(occurrences, {file: Edges(*parsed[file].facts["edges"]) for file in files.values()}, files)
    rows = [spans[file] for file in sorted(spans)]
    return pl.concat(found).sort("file", "source", "masked"), pl.DataFrame(rows, schema=SPANS, orient="row")


def _counted_files(parsed: Sequence[Parsed], year_at: int | None) -> dict[Path, dict[int, int]]:
    """Of each stored table, the file of each of its numbers."""
    done: dict[Path, dict[int, int]] = defaultdict(dict)
    for file, p in enumerate(parsed):
        is_final = year_at is None or not p.facts["has_yearless"]
        if p.occurrences is not None and is_final:
            done[p.occurrences][p.part.number if p.part else 0] = file
    return done


def _as_occurrences(occurrences: pl.DataFrame, kept: pl.Series | None) -> pl.DataFrame:
    """Whole files' rows of ``COUNTED`` as rows of ``OCCURRENCES``."""
    if kept is not None:
        occurrences = occurrences.filter(pl.col("masked").is_in(kept.implode()))
    return occurrences.with_columns(
        first_at=pl.coalesce("stated_at", "known_at"),
        until_at=pl.when(~pl.col("is_waiting")).then("until_at"),
        is_stamped=pl.col("stated_at").is_not_null(),
    ).select(pl.col(name).cast(kind) for name, kind in OCCURRENCES.items())


def _spans(occurrences: pl.DataFrame, edges: Mapping[int, Edges]) -> dict[int, tuple[object, ...]]:
    """A row of ``SPANS`` for each file with lines."""
    times = occurrences.group_by("file").agg(
        low=pl.coalesce("stated_at", "known_at").min(), high=pl.col("last_at").max()
    )
    return {file: (file, edges[file].lines, low, high, edges[file].jumps) for file, low, high in times.iter_rows()}


def file_groups(lines: Sequence[int]) -> Iterator[list[int]]:
    """Files to be read at a time, in order: at most :data:`MAX_LINES` lines, or one file."""
    group: list[int] = []
    line_count = 0
    for file, count in enumerate(lines):
        if group and (len(group) == _MAX_FILES or line_count + count > MAX_LINES):
            yield group
            group, line_count = [], 0
        group.append(file)
        line_count += count
    if group:
        yield group


def of_rows(
    rows: pl.DataFrame, sizes: Sequence[int], bases: Sequence[int], year_at: int | None = None
) -> tuple[pl.DataFrame, list[Edges]]:
    """The occurrences of several files, whose lines are ``rows``, as rows of ``COUNTED`` with the number
    of their ``file``, and each file's edges.
    """
    tally = Tally(len(sizes))
    numbers = (np.arange(len(sizes)), np.cumsum([0, *sizes])[:-1], np.array(bases, np.uint32))
    file, first, base = (np.repeat(of_each, sizes) for of_each in numbers)
    tally.add(rows, file, np.arange(1, rows.height + 1) - first, base, year_at)
    return tally.found(sizes)


def years(rows: pl.DataFrame, sizes: Sequence[int]) -> list[list[int | None]]:
    """Of each of several files, none of them empty, whose lines are ``rows``: the last stamp with a
    year, the first and the last one without.
    """
    time, starts = rows["time"].fill_null(NO_TIME).to_numpy(), np.cumsum([0, *sizes])[:-1]
    is_bare = (rows["flags"].to_numpy() & YEARLESS) > 0
    bare, early = (np.where(is_bare, time, none) for none in (NO_TIME, NEVER))
    full = np.maximum.reduceat(np.where(is_bare, NO_TIME, time), starts)
    found = (full, np.minimum.reduceat(early, starts), np.maximum.reduceat(bare, starts))
    return [[None if at in (NO_TIME, NEVER) else at for at in one] for one in np.stack(found, axis=1).tolist()]


def _of_group(logs: Sequence[Rows], bases: Sequence[int], year_at: int | None) -> tuple[pl.DataFrame, list[Edges]]:
    """:func:`of_rows` of stored files."""
    names = ["source", "masked", "time", *([] if year_at is None else ["flags"])]
    sizes = [log.size for log in logs]
    if sum(sizes) <= MAX_LINES:
        return of_rows(stored_rows.read(logs, names), sizes, bases, year_at)
    tally = Tally(len(logs))
    for low in range(0, sizes[0], MAX_LINES):
        rows = stored_rows.scan(logs[0].part(low, MAX_LINES)).select(names).collect()
        nothing = np.zeros(rows.height, np.int64)
        tally.add(rows, nothing, np.arange(low + 1, low + rows.height + 1), nothing.astype(np.uint32), year_at)
    return tally.found(sizes)
