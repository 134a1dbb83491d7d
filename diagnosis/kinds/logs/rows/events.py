"""The tables for all comparisons: which source printed which message, how often, first and last time.

Cost follows the number of *different* (source, message) pairs, not of lines; a file is read in slices so that memory
stays bounded.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Final

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from diagnosis import thresholds
from diagnosis.kinds.logs.columns import tables
from diagnosis.kinds.logs.columns.sources import MAX_DOUBTFUL_CONFIDENCE, PathScheme, with_scheme, without_job_name
from diagnosis.kinds.logs.rows import line_counts, messages, occurrences, slabs, stamp_years, stored_rows, writer_nodes
from diagnosis.kinds.logs.rows.stored_rows import Rows
from diagnosis.kinds.logs.text.patterns import Haystack
from diagnosis.model import LOG_KINDS, Kind, Parsed, Source
from diagnosis.values.extremes import greatest, least

_ROW = {
    "file": pl.UInt32,
    "line": pl.UInt32,
    "offset": pl.UInt64,
    "length": pl.UInt32,
    "record": pl.UInt32,
    "at": pl.Int64,
    "source": pl.UInt32,
    "masked": pl.UInt64,
}
#: Messages (``masked``), those that are read together in one group.
type Groups = Sequence[Sequence[int]]
_NO_ROWS: Final = pl.DataFrame(schema=_ROW)
#: Lines of a job whose rows are kept, because all steps ask for some of them (about 50 bytes each).
MAX_KEPT_LINES: Final = 1 << 16
#: How many more lines are read than are typically needed: a second read costs more.
_READ_AHEAD: Final = thresholds.limits("events").read_ahead
#: Places of a long file in which lines are looked for.
MAX_PLACES_READ: Final = 400


class LogTable(msgspec.Struct, frozen=True, dict=True):
    """All log artifacts of one attempt.

    ``files``     paths; a file's number is its place here.
    ``sources``   ``source`` (number over all files), ``file``, ``node``, ``rank``.
    ``messages``  one row a distinct masked message: ``masked``, ``text``, ``example``, ``level``, ``count``.
    ``is_cut``    whether the job has more of them than can be compared (:mod:`messages`).
    ``lines``     where the lines of each file are.
    ``occurrences``  one row a (source, message): see :data:`occurrences.OCCURRENCES`; times in ns UTC,
                  filled forward within a file where a line has none;
                  ``is_stamped`` where one of the lines states its own time; ``until_at`` by when the last line had
                  been written: the next time that its file states, null if none follows.
    ``spans``     one row a file: ``lines``, ``first_at``, ``last_at``, ``jumps``: how often its time runs back widely.
    ``system_files``  files that a kernel wrote.
    ``undated``  files whose stamps name no date.
    ``begun``     the line at which what counts of a file begins, of files with earlier launches.
    ``year_at``   a time (ns) of the job that gives the year of stamps without one; None if no stamp has a year.
    """

    files: tuple[str, ...]
    lines: tuple[Rows, ...]
    sources: pl.DataFrame
    messages: pl.DataFrame
    occurrences: pl.DataFrame
    spans: pl.DataFrame
    year_at: int | None = None
    system_files: frozenset[int] = frozenset()
    undated: frozenset[int] = frozenset()
    is_cut: bool = False
    begun: Mapping[int, int] = msgspec.field(default_factory=dict)

    def since(self, begun: Mapping[int, int]) -> LogTable:
        """The table without the lines of some files before the ones stated. O(lines of these files)."""
        is_other = ~pl.col("file").is_in(list(begun))
        found, spans = [self.occurrences.filter(is_other)], [self.spans.filter(is_other)]
        for file, line in begun.items():
            part = self.lines[file].part(line - 1, self.lines[file].size)
            mine, span = occurrences.occurrences_of_files(
                [part], [self._bases[file]], self.year_at, self.messages["masked"]
            )
            number = pl.lit(file, pl.UInt32).alias("file")
            found.append(mine.with_columns(number, pl.col("first_line", "last_line") + pl.lit(line - 1, pl.UInt32)))
            spans.append(span.with_columns(number))
        kept = pl.concat(found).sort("file", "source", "masked")
        count = kept.group_by("masked").agg(pl.col("n").sum().cast(pl.UInt64).alias("count"))
        said = self.messages.drop("count").join(count, on="masked", maintain_order="left").select(self.messages.columns)
        return replace(self, occurrences=kept, spans=pl.concat(spans).sort("file"), messages=said, begun=begun)

    def only(self, masked: Sequence[int]) -> LogTable:
        """The table of these messages alone, as small as another process needs it; of a small job,
        whose rows are kept, itself. O(messages + occurrences).
        """
        if self._kept is not None:
            return self
        wanted = pl.Series(sorted(set(masked)), dtype=pl.UInt64)
        is_of_these = pl.col("masked").is_in(wanted.implode())
        chosen, found = self.messages.filter(is_of_these), self.occurrences.filter(is_of_these)
        return replace(self, messages=chosen, occurrences=found)

    @property
    def trainers(self) -> frozenset[str]:
        """Nodes that wrote something other than a kernel log."""
        own = self.sources.filter(~pl.col("file").is_in(sorted(self.system_files)))
        return frozenset(own["node"].drop_nulls().unique().to_list())

    def placed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Lines with the ``node`` and ``rank`` of their writer."""
        who = self.sources.select("source", "node", "rank")
        return rows.join(who, on="source", how="left", maintain_order="left")

    def rows(
        self, masked: Sequence[int], *, files: Sequence[int] | None = None, limit: int | None = None
    ) -> pl.DataFrame:
        """The lines of these messages in file order: ``file``, ``line``, ``offset``, ``length``, ``record``, ``at``,
        ``source``, ``masked``.

        ``limit`` cuts the result, file after file, so that a storm of one message cannot fill memory.
        """
        if not masked:
            return _NO_ROWS
        found, height = [_NO_ROWS], 0
        for rows in self.slabs(masked, files=files, limit=limit):
            found.append(rows)
            height += rows.height
            if limit is not None and height >= limit:
                break
        rows_found = pl.concat(found, rechunk=True)
        return rows_found if limit is None else rows_found.head(limit)

    def slabs(
        self,
        masked: Sequence[int],
        *,
        files: Sequence[int] | None = None,
        limit: int | None = None,
    ) -> Iterator[pl.DataFrame]:
        """The rows of :meth:`rows`, some at a time, of at most :data:`occurrences.MAX_LINES` lines
        that are read. ``limit``: files beyond so many rows are left out.
        """
        wanted = pl.Series(sorted(set(masked)), dtype=pl.UInt64)
        if self._kept is not None:
            yield self._counting(
                self._kept if files is None else self._kept.filter(pl.col("file").is_in(files)), wanted
            )
            return
        wanted_occurrences = self.occurrences.filter(pl.col("masked").is_in(wanted.implode()))
        if files is not None:
            wanted_occurrences = wanted_occurrences.filter(pl.col("file").is_in(list(files)))
        by_file = wanted_occurrences.group_by("file").agg(
            pl.col("n").sum(), pl.col("first_line").min(), pl.col("last_line").max()
        )
        by_file = by_file.sort("file")
        if limit is not None:  # the occurrences show how many files are needed
            by_file = by_file.filter(pl.col("n").cum_sum() - pl.col("n") < limit)
        chosen = list(by_file.select("file", "first_line", "last_line").iter_rows())
        for group in occurrences.file_groups([self.lines[file].size for file, _, _ in chosen]):
            if len(group) == 1:
                file, low, high = chosen[group[0]]
                yield from self._slabs(file, low, high, wanted)
                continue
            yield self._counting(self._rows([chosen[n][0] for n in group]), wanted)

    def _counting(self, rows: pl.DataFrame, wanted: pl.Series) -> pl.DataFrame:
        """Those of these messages that count."""
        is_counting = pl.col("masked").is_in(wanted.implode())
        if self.begun:
            begun = pl.col("file").replace_strict(dict(self.begun), default=0, return_dtype=pl.UInt32)
            is_counting &= pl.col("line") >= begun
        return rows.filter(is_counting)

    def sampled(self, masked: Sequence[int], file: int, most: int) -> pl.DataFrame:
        """At most ``most`` of the lines of these messages in one file, as :meth:`rows` has them.

        If there are more: the last ones, half of them, and a few in each of :data:`MAX_PLACES_READ` places of the
        file, evenly spread. Of a log in which these places are near each other all lines are read, once, and little
        more than their messages is looked at; of a longer one the lines of the places alone.
        """
        wanted = pl.Series(sorted(set(masked)), dtype=pl.UInt64)
        mine = self.occurrences.filter(pl.col("masked").is_in(wanted.implode()) & (pl.col("file") == file))
        count = int(mine["n"].sum())
        if count <= most:
            return self.rows(masked, files=[file])
        low, high = least(mine["first_line"]) or 0, greatest(mine["last_line"]) or 0
        apart = (high + 1 - low) / count
        last = self._last(file, low, high, wanted, most // 2, apart)
        each = max(1, (most - most // 2) // MAX_PLACES_READ)
        edges = np.linspace(low, int(last["line"][0]), MAX_PLACES_READ + 1).astype(np.int64)
        wide = math.ceil(2 * each * apart)
        spacing = max(1, int(edges[-1] - edges[0]) // MAX_PLACES_READ)
        is_near = spacing <= tables.ROWS_PER_GROUP
        together = max(1, occurrences.MAX_LINES // spacing) if is_near else 1
        found = [_NO_ROWS]
        for place in range(0, MAX_PLACES_READ, together):
            own = edges[place : place + together + 1]
            end = own[-1] if is_near else min(own[-1], own[0] + wide)
            found.append(_firsts(self.around(file, int(own[0]), int(end) - 1, wanted), own, wide, each))
        return pl.concat([*found, last], rechunk=True)

    def _last(self, file: int, low: int, high: int, wanted: pl.Series, count: int, apart: float) -> pl.DataFrame:
        """The last ``count`` lines of these messages in a file, which are typically so many lines ``apart``; or all."""
        found, begin = [_NO_ROWS], high + 1
        while begin > low and (missing := count - sum(rows.height for rows in found)) > 0:
            end, begin = begin - 1, max(low, begin - math.ceil(max(slabs.LINES_BEFORE, _READ_AHEAD * missing * apart)))
            found.insert(0, self.around(file, begin, end, wanted))
        return pl.concat(found).tail(count)

    def around(self, file: int, low: int, high: int, wanted: pl.Series | None = None) -> pl.DataFrame:
        """The rows of lines ``low`` to ``high`` (both included) of one file; those of the messages ``wanted`` alone."""
        if self._kept is None:
            return pl.concat([_NO_ROWS, *self._slabs(file, low, high, wanted)])
        first, size = sum(rows.size for rows in self.lines[:file]), self.lines[file].size
        own = self._kept.slice(first, size)
        begin, end = np.searchsorted(own["line"].to_numpy(), [low, high + 1]).tolist()
        near = own.slice(begin, end - begin)
        return near if wanted is None else near.filter(pl.col("masked").is_in(wanted.implode()))

    def stamps(self, file: int) -> pl.DataFrame:
        """``masked`` and ``own`` of the lines of one file that state a time, in order."""
        rows = stored_rows.scan(self.lines[file]).select("masked", own=line_counts.own_time(self.year_at))
        return rows.drop_nulls("own").collect()

    @cached_property
    def _examples(self) -> Haystack:
        return Haystack.of(self.messages["example"])

    def says(self, pattern: str) -> pl.Expr:
        """Messages whose example a pattern matches."""
        return self._examples.contains(pl.col("example"), pattern)

    @cached_property
    def _kept(self) -> pl.DataFrame | None:
        """All rows of a small job; None of another one."""
        is_small = sum(lines.size for lines in self.lines) <= MAX_KEPT_LINES
        return self._rows(range(len(self.files))) if is_small else None

    @cached_property
    def _bases(self) -> dict[int, int]:
        """The least source of each file."""
        return dict(self.sources.group_by("file").agg(pl.col("source").min()).iter_rows())

    @cached_property
    def _untimed(self) -> frozenset[int]:
        """Files of which no line states a time."""
        return frozenset(self.spans.filter(pl.col("first_at").is_null())["file"].to_list())

    def _slabs(
        self,
        file: int,
        low: int,
        high: int,
        wanted: pl.Series | None = None,
    ) -> Iterator[pl.DataFrame]:
        """The rows of lines of one file, which may be large, as :func:`slabs.read_slabs` gives them."""
        for rows in slabs.read_slabs(
            self.lines[file], low, high, self.year_at, wanted, is_timed=file not in self._untimed
        ):
            base = pl.lit(self._bases.get(file, 0), pl.UInt32)
            yield rows.with_columns(file=pl.lit(file, pl.UInt32), source=pl.col("source") + base).select(*_ROW)

    def _rows(self, files: Sequence[int]) -> pl.DataFrame:
        """All rows of some files."""
        lines = [self.lines[file] for file in files]
        place = np.repeat(np.arange(len(files)), [one.size for one in lines])
        file, base = (
            pl.Series(numbers, dtype=pl.UInt32).gather(place)
            for numbers in (list(files), [self._bases.get(f, 0) for f in files])
        )
        at = line_counts.own_time(self.year_at).forward_fill().over("file")
        rows = stored_rows.read(lines, tuple(tables.COLUMNS))
        return rows.with_columns(file=file, source=pl.col("source") + base).with_columns(at=at).select(*_ROW)


def _firsts(rows: pl.DataFrame, edges: line_counts.Places, wide: int, each: int) -> pl.DataFrame:
    """Of rows in order of their lines the first ``each`` behind each of these lines, at most ``wide`` lines away."""
    line = rows["line"].to_numpy()
    place = np.searchsorted(edges, line, side="right") - 1
    is_near = line < edges[place] + wide
    near = rows.filter(pl.Series(is_near))
    return near.filter(pl.int_range(pl.len()).over(pl.Series("place", place[is_near])) < each)


def log_artifacts(parsed: Sequence[Parsed]) -> list[Parsed]:
    """The artifacts with log lines, by path, so that the order of upload changes nothing."""
    return sorted(
        (p for p in parsed if p.kind in LOG_KINDS and p.columns is not None and p.uniques is not None),
        key=lambda p: p.path,
    )


def build(
    parsed: Sequence[Parsed],
    nodes: Iterable[str] = (),
    node_of: Mapping[int, str] | None = None,
    as_of: int | None = None,
) -> LogTable:
    """Joins the column files of a job. ``nodes``: names in an inventory; ``node_of``: rank to node, from a
    description; ``as_of``: when the evidence was taken (ns), which dates a job whose stamps have no year.
    O(messages + occurrences), and O(lines) of files that were not counted when they were read.
    """
    nodes = tuple(nodes)
    logs = log_artifacts(parsed)
    paths = [p.path for p in logs]
    merged, is_cut = messages.merge_messages([stored_rows.messages_of(p) for p in logs])
    scheme = PathScheme(paths)
    writers = without_job_name(
        [with_scheme(p.sources, scheme) for p in logs], lambda p: merged["example"].str.contains(p).any()
    )
    logs = [_with_sources(p, own_sources) for p, own_sources in zip(logs, writers, strict=True)]
    source_table = _source_table(logs)
    bases = source_table.group_by("file", maintain_order=True).agg(pl.col("source").min())["source"].to_list()
    source_table = writer_nodes.settle_nodes(
        _without_doubtful_nodes(source_table, logs, nodes), paths, nodes, node_of or {}
    )
    year_at = stamp_years.year_at(logs, as_of)
    lines = tuple(stored_rows.lines_of(p) for p in logs)
    found, spans = occurrences.occurrences_of_files(lines, bases, year_at, merged["masked"] if is_cut else None, logs)
    return LogTable(
        files=tuple(p.path for p in logs),
        lines=lines,
        sources=source_table,
        messages=merged,
        is_cut=is_cut,
        occurrences=found,
        spans=spans,
        year_at=year_at,
        system_files=frozenset(n for n, p in enumerate(logs) if p.kind == Kind.KERNEL),
        undated=frozenset(n for n, p in enumerate(logs) if p.facts.get("is_undated")),
    )


def _source_table(logs: Sequence[Parsed]) -> pl.DataFrame:
    """A row a writer, in the order of files; a file without any has a row without names."""
    rows: list[tuple[int, str | None, int | None]] = []
    for number, p in enumerate(logs):
        rows += [(number, s.node, s.rank) for s in p.sources] or [(number, None, None)]
    schema = {"file": pl.UInt32, "node": pl.String, "rank": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row").with_row_index("source")


def _with_sources(p: Parsed, sources: tuple[Source, ...]) -> Parsed:
    return p if sources == p.sources else replace(p, sources=sources)


def _without_doubtful_nodes(sources: pl.DataFrame, logs: Sequence[Parsed], nodes: Iterable[str]) -> pl.DataFrame:
    """``sources`` without doubtful nodes.

    A name read from a line ("Xid 61: …" looks like a host and its message) yields to the node that the file's path
    names, unless it occurs in other files or in an inventory. A path's doubtful name counts only if there are others:
    alone it is the directory of the whole job, and so is the beginning of others ("run7" beside "run7-worker-3").
    """
    told: list[tuple[int, str, float]] = []
    for number, p in enumerate(logs):
        stated = [s for s in p.sources if s.node and s.how in ("path", "inventory")]
        told += [(number, str(s.node), s.confidence) for s in stated]
    own = {number: node for number, node, confidence in told if confidence > MAX_DOUBTFUL_CONFIDENCE}
    sure = [node for _, node, confidence in told if confidence > MAX_DOUBTFUL_CONFIDENCE]
    weak = {node for _, node, confidence in told if confidence <= MAX_DOUBTFUL_CONFIDENCE}
    known = {*nodes, *sure}
    if len(weak) >= 2:
        known |= weak - _beginnings(weak, sources["node"])
    doubtful = sorted(weak - known)
    named = pl.col("file").replace_strict(own, default=None, return_dtype=pl.String)
    is_strange = named.is_not_null() & pl.col("node").is_not_null() & ~pl.col("node").is_in(sorted(known))
    return sources.with_columns(
        node=pl.when(is_strange).then(named).when(pl.col("node").is_in(doubtful)).then(None).otherwise(pl.col("node"))
    )


def _beginnings(names: Set[str], nodes: pl.Series) -> set[str]:
    """Of ``names`` those with which several of ``nodes`` begin."""
    begun = Counter[str]()
    for node in nodes.drop_nulls().unique().to_list():
        begun.update(node[: mark.start()] for mark in re.finditer(r"[-_.]", node))
    return {name for name in names if begun[name] > writer_nodes.THRESHOLDS.shared}


def event_id(template: str, signature: str) -> str:
    """A stable short id of (template, signature): the same in every job and for every order of reading."""
    return hashlib.blake2b(f"{signature}\n{template}".encode(), digest_size=8).hexdigest()
