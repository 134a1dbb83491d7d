"""One log, read once: bytes → lines → header and masked message → ``columns.parquet`` and ``uniques.parquet``.

Facts that need no predecessors are prepared first (``prepared``): blocks in parallel, mostly without the interpreter's
lock, and many small files as one block. Facts that need earlier lines are added in order. Cost: O(bytes) plus
O(distinct keys).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.logs import boots, headers, known, lines, mask, records, scan
from diagnosis.logs.prepared import Prepared, prepare
from diagnosis.logs.sources import Sources
from diagnosis.logs.tables import EXAMPLE_CHARS, UNIQUES, columns_of, since_boot, write_columns, write_part, write_small
from diagnosis.model import Level

_WORKERS = 2
#: Logs of at most this many lines are encoded in memory.
_SMALL_ROWS = 1 << 13
#: Maximum number of rows in memory before they are written to a temporary file.
_PART_ROWS = 1 << 19
#: Distinct messages of one artifact without a level or code; further ones are counted by their first words, up to the
#: same number, and all others as one. Messages with a code, warnings and errors have the same limits of their own.
MOST_MESSAGES = 100_000
_ORDINARY, _TELLING, _OPENINGS = range(3)
_NOBODY = dict.fromkeys(headers.PARTS, "")
type Places = npt.NDArray[np.int64]


class LogReader:
    """Takes blocks, writes column files below ``work``. Use: ``read`` all blocks, then ``finish``."""

    def __init__(
        self, path: str, work: Path, *, time_zone: str = "UTC", node: str | None = None, year: int | None = None
    ) -> None:
        self.work = work
        self.time_zone = time_zone
        self.sources = Sources(path, node)
        self.lines = 0
        self.year: int | None = None  # of the first stamp with a year
        self.year_hint = year
        self.has_yearless = False
        self.since_boot = 0  # lines dated from boot
        self._boots: list[int] = []
        self._records = records.Records()
        self._by_source = np.zeros(0, np.int64)
        self._place: dict[int, int] = {}  # masked id -> place in the following
        self._uniques: dict[str, list[Any]] = {
            "text": [],
            "first_line": [],
            "first_offset": [],
            "example": [],
        }
        self._count = np.zeros(0, np.int64)
        self._worst = np.zeros(0, np.uint8)
        self._held = [0, 0, 0]  # messages of each kind
        self.folded_lines = 0  # whose message is counted by its first words only
        self._pending: list[pl.DataFrame] = []
        self._pending_rows = 0
        self._parts: list[Path] = []

    def read(self, blocks: Iterable[lines.Block]) -> None:
        """Reads all blocks: two are prepared at a time, and added in order. A file of one block starts no
        threads.
        """
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
        rows, facts, time = prepared.rows, prepared.facts, prepared.time
        size = len(time)
        index = np.array([0, *(self.sources.index(**(_NOBODY | said)) for said in prepared.said)], np.uint16)
        source = index[prepared.writer]
        counts = np.bincount(source, minlength=len(self.sources.all))
        counts[: len(self._by_source)] += self._by_source
        self._by_source = counts
        line = np.arange(self.lines + 1, self.lines + size + 1, dtype=np.uint32)
        record = self._records.assign(line, source, facts.flags)
        is_yearless = (facts.flags & records.YEARLESS) != 0
        self.has_yearless = self.has_yearless or bool(is_yearless.any())
        is_since = (facts.flags & records.SINCE_BOOT) != 0
        self.since_boot += int(is_since.sum())
        self._boots += prepared.boots
        if self.year is None and len(dated := np.flatnonzero(~is_yearless & ~is_since & (time != scan.NO_TIME))[:1]):
            self.year = int(time[dated].astype("datetime64[ns]").astype("datetime64[Y]").astype(int)[0]) + 1970
        self._tally(prepared)
        stamps = pl.Series("time", time)
        # One series after another: a dictionary with a schema costs more than reading a small log.
        frame = pl.DataFrame(
            [
                pl.Series("line", line),
                pl.Series("offset", rows.offset.view(np.uint64)),
                pl.Series("length", rows.length.astype(np.uint32)),
                pl.Series("record", record),
                stamps.set(stamps == scan.NO_TIME, None) if (time == scan.NO_TIME).any() else stamps,
                pl.Series("source", source),
                pl.Series("level", facts.level),
                pl.Series("flags", facts.flags),
                pl.Series("masked", facts.masked),
            ]
        )
        self.lines += size
        self._pending.append(frame)
        self._pending_rows += size
        if self._pending_rows >= _PART_ROWS:
            self._put_aside()

    def _tally(self, prepared: Prepared) -> None:
        """Adds a block's messages to the artifact's."""
        masked = prepared.facts.masked[prepared.first]
        fresh = [number for number, one in enumerate(masked.tolist()) if one not in self._place]
        folded = self._fold(prepared, masked, fresh)
        if folded:
            prepared.facts.masked[:] = masked[prepared.message]
        added = []
        for number in fresh:
            if (one := int(masked[number])) not in self._place:
                self._place[one] = len(self._place)
                added.append(number)
        first = prepared.first[added]
        said = (
            [folded[number] if number in folded else prepared.texts[int(masked[number])] for number in added],
            (self.lines + 1 + first).tolist(),
            prepared.rows.offset[first].tolist(),
            prepared.rows.text(first, 4 * EXAMPLE_CHARS).str.head(EXAMPLE_CHARS).to_list(),
        )
        for column, values in zip(self._uniques.values(), said, strict=True):
            column.extend(values)
        if (more := len(self._place) - len(self._count)) > 0:
            self._count = np.append(self._count, np.zeros(max(more, len(self._count)), np.int64))
            self._worst = np.append(self._worst, np.zeros(max(more, len(self._worst)), np.uint8))
        places = np.array([self._place[one] for one in masked.tolist()], np.int64)
        np.add.at(self._count, places, prepared.count)
        np.maximum.at(self._worst, places, prepared.worst)

    def _fold(self, prepared: Prepared, masked: npt.NDArray[np.uint64], fresh: list[int]) -> dict[int, str]:
        """Counts fresh messages by kind. Messages beyond the limit of their kind get the id of their first words, which
        is set in ``masked`` and whose text is returned.
        """
        rows = prepared.first[fresh]
        is_telling = (prepared.facts.level[rows] >= Level.WARNING) | (prepared.facts.coded[rows] != known.PLAIN)
        beyond: list[int] = []
        for kind in (_ORDINARY, _TELLING):
            mine = np.flatnonzero(is_telling == (kind == _TELLING))
            room = MOST_MESSAGES - self._held[kind]
            self._held[kind] += min(room, len(mine))
            beyond += mine[room:].tolist()
        folded: dict[int, str] = {}
        openings: set[int] = set()
        for number in (fresh[index] for index in sorted(beyond)):
            text = prepared.texts[int(masked[number])]
            folded[number] = text = mask.opening(text) if self._held[_OPENINGS] < MOST_MESSAGES else mask.ANY
            masked[number] = one = mask.identity(text)
            self.folded_lines += int(prepared.count[number])
            if one not in self._place and one not in openings:
                openings.add(one)
                self._held[_OPENINGS] += 1
        return folded

    def _put_aside(self) -> None:
        part = self.work / f"part-{len(self._parts):06d}.arrow"
        write_part(pl.concat(self._pending), part)
        self._parts.append(part)
        self._pending, self._pending_rows = [], 0

    def finish(self) -> tuple[Path, Path]:
        """Writes the two tables; returns their paths."""
        columns, uniques = self.work / "columns.parquet", self.work / "uniques.parquet"
        if self._parts and self._pending:
            self._put_aside()
        moved = since_boot(self.boot) if self.since_boot else ()
        if self._parts or self.lines > _SMALL_ROWS:
            write_columns(self._parts or self._pending, columns, self.used_year, moved)
            self._said().write_parquet(uniques)
        else:
            write_small(columns_of(self._pending, self.used_year, moved), self._said(), (columns, uniques))
        return columns, uniques

    def _said(self) -> pl.DataFrame:
        """The table of distinct messages."""
        held = len(self._place)
        column = {
            "masked": np.fromiter(self._place, np.uint64, held),
            "count": self._count[:held].view(np.uint64),
            "level": self._worst[:held],
            "first_line": np.array(self._uniques["first_line"], np.uint32),
            "first_offset": np.array(self._uniques["first_offset"], np.uint64),
        }
        values: dict[str, Any] = {**self._uniques, **column}
        return pl.DataFrame([pl.Series(name, values[name], kind) for name, kind in UNIQUES.items()])

    @property
    def boot(self) -> int | None:
        """The boot time (ns UTC) of the kernel whose lines count from boot."""
        return boots.settle(self._boots)

    @property
    def source_lines(self) -> list[int]:
        """Lines of each of ``sources.all``."""
        return [int(count) for count in self._by_source] or [0] * len(self.sources.all)

    @property
    def used_year(self) -> int | None:
        """The year that was given to stamps without one, or None if there were none or no year is known."""
        return (self.year or self.year_hint) if self.has_yearless else None
