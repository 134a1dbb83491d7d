"""The tables for all comparisons: which source printed which message, how often, first and last time.

Cost follows the number of *different* (source, message) pairs, not of lines; a file is read in slices so that memory
stays bounded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from diagnosis.logs import homes, messages
from diagnosis.logs.records import YEARLESS
from diagnosis.logs.sources import DOUBTFUL, schemed, without_job
from diagnosis.model import LOG_KINDS, Kind, Parsed

#: Rows of a column file aggregated at a time (about 50 bytes each).
SLICE_ROWS = 4_000_000
#: Number of files aggregated in one query.
BATCH_FILES = 64
#: Files of at most this many lines are read together, this many lines at a time.
SMALL_LINES = 1 << 16
BATCH_LINES = 1 << 20

_HALF_YEAR = 182 * 86_400_000_000_000

CELLS = {
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
SPANS = {"file": pl.UInt32, "lines": pl.UInt64, "first_at": pl.Int64, "last_at": pl.Int64}


@dataclass(frozen=True)
class LogTable:
    """All log artifacts of one attempt.

    ``files``     paths; a file's number is its place here.
    ``sources``   ``source`` (number over all files), ``file``, ``node``, ``rank``.
    ``messages``  one row a distinct masked message: ``masked``, ``text``, ``example``, ``level``, ``count``.
    ``is_cut``    whether the job has more of them than can be compared (:mod:`diagnosis.logs.messages`).
    ``cells``     one row a (source, message): see :data:`CELLS`; times in ns UTC, filled forward within a file if a
    line has none;
                  ``is_stamped`` where one of the lines states its own time; ``until_at`` by when the last line had
                  been written: the next time that its file states, null if none follows.
    ``spans``     one row a file: ``lines``, ``first_at``, ``last_at``.
    ``system_files``  files that a kernel wrote.
    ``year_at``   a time (ns) of the job that gives the year of stamps without one; None if no stamp has a year.
    """

    files: tuple[str, ...]
    columns: tuple[Path, ...]
    sources: pl.DataFrame
    messages: pl.DataFrame
    cells: pl.DataFrame
    spans: pl.DataFrame
    year_at: int | None = None
    system_files: frozenset[int] = frozenset()
    is_cut: bool = False

    @property
    def trainers(self) -> frozenset[str]:
        """Nodes that wrote something other than a kernel log."""
        own = self.sources.filter(~pl.col("file").is_in(sorted(self.system_files)))
        return frozenset(own["node"].drop_nulls().unique().to_list())

    def rows(
        self, masked: Sequence[int], *, files: Sequence[int] | None = None, limit: int | None = None
    ) -> pl.DataFrame:
        """The lines of these messages in file order: ``file``, ``line``, ``offset``, ``length``, ``record``, ``at``,
        ``source``, ``masked``.

        ``limit`` cuts the result, file after file, so that a storm of one message cannot fill memory.
        """
        wanted = pl.Series(sorted(set(masked)), dtype=pl.UInt64)
        mine = self.cells.filter(pl.col("masked").is_in(wanted.implode()))
        if files is not None:
            mine = mine.filter(pl.col("file").is_in(list(files)))
        held = mine.group_by("file").agg(pl.col("n").sum()).sort("file")
        if limit is not None:  # the cells show how many files are needed
            held = held.filter(pl.col("n").cum_sum() - pl.col("n") < limit)
        chosen = held["file"].to_list()
        found = []
        for places in _batches([self._lines.get(file, 0) for file in chosen]):
            rows = self._scan([chosen[place] for place in places])
            found.append(rows.filter(pl.col("masked").is_in(wanted.implode())).collect())
            if len(found) == BATCH_FILES:  # a filtered frame keeps its file's whole buffers alive; copies do not
                found = [pl.concat(found, rechunk=True)]
        if found:
            rows_found = pl.concat(found, rechunk=True)
            return rows_found if limit is None else rows_found.head(limit)
        return self._scan([0]).head(0).collect() if self.files else _empty_rows()

    def around(self, file: int, low: int, high: int) -> pl.DataFrame:
        """The rows of lines ``low`` to ``high`` (both included) of one file."""
        return self._scan([file]).filter(pl.col("line").is_between(low, high)).collect()

    def jumps(self, least: int) -> dict[int, int]:
        """How often the time of each file runs back by ``least`` ns or more; files without such a jump are left out."""
        lines = self._lines
        back = (pl.col("own").diff() <= -least).sum()
        found: dict[int, int] = {}
        for files in _batches([lines.get(file, 0) for file in range(len(self.files))]):
            if len(files) == 1:
                rows = _of_file(self.columns[files[0]], files[0], 0)
            else:
                rows = _together(self.columns, files, [lines.get(file, 0) for file in files]).lazy()
            own = rows.select("file", own=_at(self.year_at)).drop_nulls()
            counts = own.group_by("file").agg(n=back).filter(pl.col("n") > 0).collect()
            found.update(counts.iter_rows())
        return found

    def stamps(self, file: int) -> pl.DataFrame:
        """``masked`` and ``own`` of the lines of one file that state a time, in order."""
        return pl.scan_parquet(self.columns[file]).select("masked", own=_at(self.year_at)).drop_nulls("own").collect()

    @cached_property
    def _lines(self) -> dict[int, int]:
        """Lines of each file."""
        return dict(self.spans.select("file", "lines").iter_rows())

    @cached_property
    def _bases(self) -> dict[int, int]:
        """The least source of each file."""
        return dict(self.sources.group_by("file").agg(pl.col("source").min()).iter_rows())

    def _scan(self, files: Sequence[int]) -> pl.LazyFrame:
        """The rows of some files; several files are read at once."""
        bases = [self._bases.get(file, 0) for file in files]
        if len(files) == 1:
            rows = _of_file(self.columns[files[0]], files[0], bases[0])
            at = _at(self.year_at).forward_fill()
        else:
            counts = [self._lines.get(file, 0) for file in files]
            rows = _together(self.columns, files, counts, bases, ("offset", "length", "record")).lazy()
            at = _at(self.year_at).forward_fill().over("file")
        return rows.select("file", "line", "offset", "length", "record", at.alias("at"), "source", "masked")


def _at(year_at: int | None) -> pl.Expr:
    """A line's own time; stamps without a year are moved to the one that brings them nearest to ``year_at``."""
    time = pl.col("time")
    if year_at is None:
        return time
    stamp = pl.from_epoch(time, time_unit="ns")
    year = datetime.fromtimestamp(year_at / 1e9, UTC).year
    best = None
    for candidate in (year, year - 1, year + 1):
        moved = stamp.dt.replace(year=candidate).dt.epoch("ns")
        best = (
            moved
            if best is None
            else pl.when((moved - year_at).abs() < (best - year_at).abs()).then(moved).otherwise(best)
        )
    return pl.when((pl.col("flags") & YEARLESS) > 0).then(best).otherwise(time)


def _empty_rows() -> pl.DataFrame:
    names = {"file": pl.UInt32, "line": pl.UInt32, "offset": pl.UInt64, "length": pl.UInt32, "record": pl.UInt32}
    return pl.DataFrame(schema={**names, "at": pl.Int64, "source": pl.UInt32, "masked": pl.UInt64})


def log_artifacts(parsed: Sequence[Parsed]) -> list[Parsed]:
    """The artifacts with log lines, by path, so that the order of upload changes nothing."""
    return sorted(
        (p for p in parsed if p.kind in LOG_KINDS and p.columns is not None and p.uniques is not None),
        key=lambda p: p.path,
    )


def build(parsed: Sequence[Parsed], nodes: Iterable[str] = (), node_of: Mapping[int, str] | None = None) -> LogTable:
    """Joins the column files of a job. ``nodes``: names in an inventory; ``node_of``: rank to node, from a
    description.
    """
    nodes = tuple(nodes)
    logs = log_artifacts(parsed)
    paths = [p.path for p in logs]
    writers = without_job([schemed(p.sources, paths) for p in logs])
    logs = [replace(p, sources=mine) for p, mine in zip(logs, writers, strict=True)]
    sources, base = [], 0
    bases: list[int] = []
    for number, p in enumerate(logs):
        bases.append(base)
        known = p.sources or ()
        rows = known if known else (None,)
        for s in rows:
            sources.append((base, number, s.node if s else None, s.rank if s else None))
            base += 1
    source_table = pl.DataFrame(
        sources, schema={"source": pl.UInt32, "file": pl.UInt32, "node": pl.String, "rank": pl.Int64}, orient="row"
    )
    source_table = homes.settle(_credible(source_table, logs, nodes), paths, nodes, node_of or {})
    year_at = _year_at(logs)
    said, is_cut = messages.merge([p.uniques for p in logs if p.uniques is not None])
    cells, spans = _aggregate(logs, bases, year_at, said["masked"] if is_cut else None)
    return LogTable(
        files=tuple(p.path for p in logs),
        columns=tuple(p.columns for p in logs if p.columns is not None),
        sources=source_table,
        messages=said,
        is_cut=is_cut,
        cells=cells,
        spans=spans,
        year_at=year_at,
        system_files=frozenset(n for n, p in enumerate(logs) if p.kind == Kind.KERNEL),
    )


def _credible(sources: pl.DataFrame, logs: Sequence[Parsed], nodes: Iterable[str]) -> pl.DataFrame:
    """``sources`` without doubtful nodes.

    A name read from a line ("Xid 61: …" looks like a host and its message) yields to the node that the file's path
    names, unless it occurs in other files or in an inventory. A path's doubtful name counts only if there are others:
    alone it is the directory of the whole job.
    """
    known = set(nodes)
    weak: set[str] = set()
    own: dict[int, str] = {}
    for number, p in enumerate(logs):
        for s in p.sources:
            if s.node and s.how in ("path", "inventory"):
                (weak if s.confidence <= DOUBTFUL else known).add(s.node)
                if s.confidence > DOUBTFUL:
                    own[number] = s.node
    if len(weak) >= 2:
        known |= weak
    doubtful = sorted(weak - known)
    named = pl.col("file").replace_strict(own, default=None, return_dtype=pl.String)
    is_strange = named.is_not_null() & pl.col("node").is_not_null() & ~pl.col("node").is_in(sorted(known))
    return sources.with_columns(
        node=pl.when(is_strange).then(named).when(pl.col("node").is_in(doubtful)).then(None).otherwise(pl.col("node"))
    )


def _year_at(logs: Sequence[Parsed]) -> int | None:
    """Some time of the job whose stamp has a year; None if no stamp needs it: all have one, none has, or those without
    one already lie in the half year around it, so that no other year is nearer.
    """
    if not any(p.facts.get("has_yearless", True) for p in logs):
        return None
    time, is_bare = pl.col("time"), (pl.col("flags") & YEARLESS) > 0
    queries = [
        pl.scan_parquet(str(p.columns)).select(
            full=time.filter(~is_bare).max(),
            bare=is_bare.any(),
            first=time.filter(is_bare).min(),
            last=time.filter(is_bare).max(),
        )
        for p in logs
    ]
    rows = pl.concat(
        pl.concat(pl.collect_all(queries[start : start + BATCH_FILES])) for start in range(0, len(queries), BATCH_FILES)
    )
    at = rows["full"].max()
    if not isinstance(at, int) or not rows["bare"].any():
        return None
    first, last = rows["first"].min(), rows["last"].max()
    is_near = isinstance(first, int) and isinstance(last, int) and at - first <= _HALF_YEAR and last - at <= _HALF_YEAR
    return None if is_near else at


def _aggregate(
    logs: Sequence[Parsed], bases: Sequence[int], year_at: int | None, kept: pl.Series | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """``cells`` (of the messages ``kept`` only, where not all are) and ``spans`` (of all lines)."""
    found: list[tuple[pl.DataFrame, pl.DataFrame]] = []
    queries: list[pl.LazyFrame] = []
    columns = [p.columns for p in logs if p.columns is not None]
    for files in _batches([p.lines for p in logs]):
        if logs[files[0]].lines > SLICE_ROWS:
            cells = _sliced(logs[files[0]], files[0], bases[files[0]], year_at)
            found.append(_spanned(cells, kept))
        elif len(files) > 1:
            rows = _together(columns, files, [logs[file].lines for file in files], [bases[file] for file in files])
            found.append(_spanned(_cell_query(rows.lazy(), year_at, "file").collect(), kept))
        else:
            queries.append(_cell_query(_of_file(columns[files[0]], files[0], bases[files[0]]), year_at))
        if len(queries) == BATCH_FILES:
            found.extend(_spanned(cells, kept) for cells in pl.collect_all(queries))
            queries = []
    found.extend(_spanned(cells, kept) for cells in pl.collect_all(queries))
    found.append((pl.DataFrame(schema=CELLS), pl.DataFrame(schema=SPANS)))
    cells, spans = (pl.concat(part) for part in zip(*found, strict=True))
    return cells.sort("file", "source", "masked"), spans.sort("file")


def _spanned(cells: pl.DataFrame, kept: pl.Series | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The cells of the messages ``kept``, and the spans of the files that all cells belong to."""
    spans = (
        cells.group_by("file")
        .agg(lines=pl.col("n").sum(), first_at=pl.col("first_at").min(), last_at=pl.col("last_at").max())
        .select(pl.col(name).cast(kind) for name, kind in SPANS.items())
    )
    return cells if kept is None else cells.filter(pl.col("masked").is_in(kept.implode())), spans


def _batches(lines: Sequence[int]) -> Iterator[list[int]]:
    """Files to be read at a time, in order: each large one alone, small ones together."""
    batch: list[int] = []
    held = 0
    for file, count in enumerate(lines):
        if batch and (count > SMALL_LINES or len(batch) == BATCH_FILES or held + count > BATCH_LINES):
            yield batch
            batch, held = [], 0
        if count > SMALL_LINES:
            yield [file]
        else:
            batch.append(file)
            held += count
    if batch:
        yield batch


def _together(
    columns: Sequence[Path],
    files: Sequence[int],
    lines: Sequence[int],
    bases: Sequence[int] = (),
    also: Sequence[str] = (),
) -> pl.DataFrame:
    """The rows of several small files, one after another, with their ``file``: far cheaper than a query for each."""
    names = ["line", "source", "masked", "time", "flags", *also]
    rows = pl.read_parquet([columns[file] for file in files], columns=names)
    rows = rows.with_columns(file=pl.Series(np.repeat(np.array(files, np.uint32), lines)))
    if bases:
        rows = rows.with_columns(source=pl.col("source") + pl.Series(np.repeat(np.array(bases, np.uint32), lines)))
    return rows


def _of_file(columns: Path, file: int, base: int) -> pl.LazyFrame:
    source = pl.col("source").cast(pl.UInt32) + pl.lit(base, dtype=pl.UInt32)
    return pl.scan_parquet(columns).with_columns(source=source, file=pl.lit(file, dtype=pl.UInt32))


def _cell_query(rows: pl.LazyFrame, year_at: int | None, *within: str) -> pl.LazyFrame:
    """Rows of ``CELLS``; times are filled forward and backward ``within`` these columns."""

    def fill(own: pl.Expr) -> pl.Expr:
        return own.over(*within) if within else own

    own = pl.col("own")
    return (
        rows.select("file", "line", "source", "masked", own=_at(year_at))
        .with_columns(at=fill(own.forward_fill()), until=fill(own.backward_fill()))
        .group_by("file", "source", "masked")
        .agg(
            n=pl.len().cast(pl.UInt32),
            first_line=pl.col("line").min().cast(pl.UInt32),
            last_line=pl.col("line").max().cast(pl.UInt32),
            first_at=pl.coalesce(pl.col("own").min(), pl.col("at").min()),
            last_at=pl.col("at").max(),
            until_at=pl.when(pl.col("until").is_null().any()).then(None).otherwise(pl.col("until").max()),
            is_stamped=pl.col("own").is_not_null().any(),
        )
        .select(pl.col(name).cast(kind) for name, kind in CELLS.items())
    )


def _sliced(p: Parsed, number: int, base: int, year_at: int | None) -> pl.DataFrame:
    assert p.columns is not None
    parts = [
        _cell_query(_of_file(p.columns, number, base).slice(low, SLICE_ROWS), year_at).collect()
        for low in range(0, p.lines, SLICE_ROWS)
    ]
    return (
        pl.concat(parts)
        .group_by("file", "source", "masked")
        .agg(
            pl.col("n").sum(),
            pl.col("first_line").min(),
            pl.col("last_line").max(),
            pl.col("first_at").min(),
            pl.col("last_at").max(),
            pl.when(pl.col("until_at").is_null().any()).then(None).otherwise(pl.col("until_at").max()),
            pl.col("is_stamped").any(),
        )
        .select(CELLS.keys())
    )


def event_id(template: str, signature: str) -> str:
    """A stable short id of (template, signature): the same in every job and for every order of reading."""
    return hashlib.blake2b(f"{signature}\n{template}".encode(), digest_size=8).hexdigest()
