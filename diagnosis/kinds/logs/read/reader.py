"""Logs, read once: bytes → lines → header and masked message → ``columns.parquet`` and ``uniques.parquet``.

Facts that need no predecessors are prepared first (``prepared``): blocks in parallel, mostly without the interpreter's
lock. Facts that need earlier lines are added in order. A reader gets the blocks of one log, or one block with several
small logs. Cost: O(bytes) plus O(distinct keys).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.kinds.logs.columns import records
from diagnosis.kinds.logs.columns.sources import Sources
from diagnosis.kinds.logs.columns.tables import (
    COLUMNS,
    EXAMPLE_CHARS,
    UNIQUES,
    redate,
    write_columns,
    write_part,
    write_tables,
)
from diagnosis.kinds.logs.read import known, lines
from diagnosis.kinds.logs.read.described import Described
from diagnosis.kinds.logs.read.prepared import Prepared, prepare
from diagnosis.kinds.logs.text import hashing, mask, stamps
from diagnosis.model import Level

_WORKERS = 2
#: Maximum number of rows in memory before they are written to a temporary file.
_PART_ROWS = 1 << 19
#: Distinct messages of one artifact without a level or code; further ones are counted by their first words, up to the
#: same number, and all others as one. Messages with a code, warnings and errors have the same limits of their own.
MAX_MESSAGES = 40_000
_ORDINARY, _TELLING, _OPENINGS = range(3)
type Places = npt.NDArray[np.int64]


class LogReader:
    """Takes the blocks of one log, or one block with several; writes column files. Use: ``read`` all blocks or ``take``
    the one, then ``finish``.
    """

    def __init__(self, logs: Sequence[Sources], work: Path, *, time_zone: str = "UTC") -> None:
        self.work = work
        self.time_zone = time_zone
        self._described = Described(logs)
        self.logs = self._described.logs
        self._records = records.Records()
        self._messages = hashing.Numbering()  # of (log, masked): place in the following
        self._said: list[pl.DataFrame] = []
        self._count = np.zeros(0, np.int64)
        self._worst = np.zeros(0, np.uint8)
        self._held = [0, 0, 0]  # messages of each kind, of a single log
        self._pending: list[pl.DataFrame] = []
        self._pending_rows = 0
        self._parts: list[Path] = []

    def read(self, blocks: Iterable[lines.Block]) -> None:
        """Reads a log, two blocks prepared at a time; one block alone starts no threads."""
        source = iter(blocks)
        first, second = next(source, None), next(source, None)
        if first is None:
            return
        if second is None:
            self.take(self._prepare(first))
            return
        with ThreadPoolExecutor(_WORKERS) as pool:
            waiting: deque[Future[Prepared]] = deque()
            for block in chain((first, second), source):
                waiting.append(pool.submit(self._prepare, block))
                if len(waiting) > _WORKERS:
                    self.take(waiting.popleft().result())
            while waiting:
                self.take(waiting.popleft().result())

    def _prepare(self, block: lines.Block) -> Prepared:
        return prepare(block, self.time_zone)

    def take(self, prepared: Prepared) -> None:
        """Adds a block's lines to the earlier ones: sources in order of appearance, records, counts."""
        rows, facts, time, sizes = prepared.rows, prepared.facts, prepared.time, np.diff(prepared.cuts)
        before = np.array([log.lines for log in self.logs])
        line = (np.arange(1, len(time) + 1) + np.repeat(before - prepared.cuts[:-1], sizes)).astype(np.uint32)
        source, writer = self._described.add(prepared)
        record = self._records.assign(line, writer, facts.flags)
        self._tally(prepared, line)
        for log, size in zip(self.logs, sizes.tolist(), strict=True):
            log.lines += size
        dated = pl.Series("time", time)
        # One series after another: a dictionary with a schema costs more than reading a small log.
        frame = pl.DataFrame(
            [
                pl.Series("line", line),
                pl.Series("offset", rows.offset.view(np.uint64)),
                pl.Series("length", rows.length.astype(np.uint32)),
                pl.Series("record", record),
                dated.set(dated == stamps.NO_TIME, None) if (time == stamps.NO_TIME).any() else dated,
                pl.Series("source", source),
                pl.Series("level", facts.level),
                pl.Series("flags", facts.flags),
                pl.Series("masked", facts.masked),
            ]
        )
        self._pending.append(frame)
        self._pending_rows += frame.height
        if self._pending_rows >= _PART_ROWS and len(self.logs) == 1:
            self._put_aside()

    def _tally(self, prepared: Prepared, line: npt.NDArray[np.uint32]) -> None:
        """Adds a block's messages to the artifacts'."""
        masked, log = prepared.facts.masked[prepared.first], prepared.log[prepared.first]
        is_many = len(self.logs) == 1 and len(self._messages) + len(masked) > MAX_MESSAGES
        folded = self._fold(prepared, masked) if is_many else {}
        if folded:
            prepared.facts.masked[:] = masked[prepared.message]
        place, added = self._messages.add(hashing.hash_pair(masked, log))
        first = prepared.first[added]
        if not is_many:
            telling = int(_is_informative(prepared, first).sum())
            self._held[_ORDINARY] += len(first) - telling
            self._held[_TELLING] += telling
        texts = [
            folded[number] if number in folded else prepared.texts[one]
            for number, one in zip(added.tolist(), masked[added].tolist(), strict=True)
        ]
        self._said.append(
            pl.DataFrame(
                [
                    pl.Series("masked", masked[added]),
                    pl.Series("text", texts, pl.String),
                    pl.Series("first_line", line[first]),
                    pl.Series("first_offset", prepared.rows.offset[first].view(np.uint64)),
                    prepared.rows.text(first, 4 * EXAMPLE_CHARS).str.head(EXAMPLE_CHARS).alias("example"),
                ]
            )
        )
        for number, count in enumerate(np.bincount(log[added], minlength=1).tolist()):
            self.logs[number].messages += count
        if (more := len(self._messages) - len(self._count)) > 0:
            self._count = np.append(self._count, np.zeros(max(more, len(self._count)), np.int64))
            self._worst = np.append(self._worst, np.zeros(max(more, len(self._worst)), np.uint8))
        np.add.at(self._count, place, prepared.count)
        np.maximum.at(self._worst, place, prepared.worst)

    def _fold(self, prepared: Prepared, masked: npt.NDArray[np.uint64]) -> dict[int, str]:
        """Counts fresh messages by kind. Messages beyond the limit of their kind get the id of their first words, which
        is set in ``masked`` and whose text is returned.
        """
        known_ids = {one for table in self._said for one in table["masked"].to_list()}
        fresh = [number for number, one in enumerate(masked.tolist()) if one not in known_ids]
        is_telling = _is_informative(prepared, prepared.first[fresh])
        beyond: list[int] = []
        for kind in (_ORDINARY, _TELLING):
            rows_of_kind = np.flatnonzero(is_telling == (kind == _TELLING))
            room = MAX_MESSAGES - self._held[kind]
            self._held[kind] += min(room, len(rows_of_kind))
            beyond += rows_of_kind[room:].tolist()
        folded: dict[int, str] = {}
        for number in (fresh[index] for index in sorted(beyond)):
            text = prepared.texts[int(masked[number])]
            folded[number] = text = mask.opening(text) if self._held[_OPENINGS] < MAX_MESSAGES else mask.OTHER_MESSAGES
            masked[number] = one = mask.identity(text)
            self.logs[0].folded_lines += int(prepared.count[number])
            if one not in known_ids:
                known_ids.add(one)
                self._held[_OPENINGS] += 1
        return folded

    def _put_aside(self) -> None:
        part = self.work / f"part-{len(self._parts):06d}.arrow"
        write_part(pl.concat(self._pending), part)
        self._parts.append(part)
        self._pending, self._pending_rows = [], 0

    def finish(self) -> tuple[Path, Path]:
        """Writes the two tables, with the rows of one log after another; returns their paths."""
        if not self._parts:
            tables = {"columns": self.columns(), "uniques": self.uniques()}
            columns, uniques = write_tables(tables, self.work)
            return columns, uniques
        if self._pending:
            self._put_aside()
        columns, uniques = self.work / "columns.parquet", self.work / "uniques.parquet"
        write_columns(self._parts, columns, *self.logs[0].moves)
        self.uniques().write_parquet(uniques)
        return columns, uniques

    def ends(self) -> records.Ends:
        """How the records of a single log join those of the ranges before and after it."""
        return self._records.ends(self._described.sources, len(self.logs[0].sources.all))

    def columns(self) -> pl.DataFrame:
        """The lines of all logs, with the times that need the whole log."""
        rows = pl.concat(self._pending) if self._pending else pl.DataFrame(schema=COLUMNS)
        found, row = [], 0
        for (moves, _), logs in groupby(self.logs, key=lambda log: (log.moves, log.of_day and id(log))):
            size = sum(log.lines for log in logs)
            found.append(redate(rows.slice(row, size), *moves))
            row += size
        return pl.concat(found)

    def uniques(self) -> pl.DataFrame:
        """The table of distinct messages."""
        count = len(self._messages)
        messages = pl.concat(self._said) if self._said else pl.DataFrame(schema=UNIQUES).drop("count", "level")
        counted = messages.with_columns(count=pl.Series(self._count[:count]), level=pl.Series(self._worst[:count]))
        return counted.select(pl.col(name).cast(kind) for name, kind in UNIQUES.items())


def _is_informative(prepared: Prepared, rows: Places) -> npt.NDArray[np.bool_]:
    is_coded: npt.NDArray[np.bool_] = prepared.facts.coded[rows] != known.NO_CODE
    return is_coded | (prepared.facts.level[rows] >= Level.WARNING)
