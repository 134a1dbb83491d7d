"""Who wrote the lines of a block, and from which year or boot their times count: what a log adds to its tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.kinds.logs.columns.sources import Sources
from diagnosis.kinds.logs.columns.tables import OF_DAY, SINCE_BOOT, YEARLESS, redate
from diagnosis.kinds.logs.read import boots, headers, lines
from diagnosis.kinds.logs.read.prepared import Prepared
from diagnosis.kinds.logs.text import hashing, stamps

_NO_WRITER = dict.fromkeys(headers.PARTS, "")


class Log(msgspec.Struct):
    """The facts of one log beside its tables. ``counts``: lines of each of ``sources.all``; ``year``: of the first
    stamp with a year; ``since_boot``: lines dated from boot; ``of_day``: lines whose stamp has no date, ``has_dates``:
    others have one; ``is_whole``: all lines of the log are read here; ``folded_lines``: lines whose message is counted
    by its first words only; ``has_long``: a line is longer than what is read of one; ``headed_lines`` state their
    time, level or writer, ``dated_lines`` their time or level: a key before a colon looks like a writer.
    """

    sources: Sources
    lines: int = 0
    messages: int = 0
    counts: list[int] = msgspec.field(default_factory=list)
    year: int | None = None
    has_yearless: bool = False
    since_boot: int = 0
    of_day: int = 0
    has_dates: bool = False
    is_whole: bool = True
    boots: list[int] = msgspec.field(default_factory=list)
    folded_lines: int = 0
    has_long: bool = False
    headed_lines: int = 0
    dated_lines: int = 0

    def __post_init__(self) -> None:
        self.counts += [0] * len(self.sources.all)

    def count(self, writer: dict[str, str], lines_: int) -> int:
        """Counts lines of the writer with these words; returns its index."""
        source = self.sources.index(**writer)
        self.counts += [0] * (len(self.sources.all) - len(self.counts))
        self.counts[source] += lines_
        return source

    @property
    def boot(self) -> int | None:
        """The boot time (ns UTC) of the kernel whose lines count from boot; None without such lines or without a
        statement of it."""
        return boots.agreed_boot_time(self.boots) if self.since_boot else None

    @property
    def used_year(self) -> int | None:
        """The year that was given to stamps without one, or None if there were none or no year is known."""
        return self.year if self.has_yearless else None

    @property
    def moves(self) -> tuple[int | None, bool, int | None, bool | None]:
        """How its times are moved, for :func:`tables.redate`."""
        return self.used_year, self.since_boot > 0, self.boot, self.is_whole if self.of_day else None

    def times(self, time: npt.NDArray[np.int64], flags: npt.NDArray[np.uint8]) -> list[int | None]:
        """The times (ns UTC) of some of its lines, whose stamps and flags are given; None for lines without one."""
        if not (self.has_yearless or self.since_boot or self.of_day):
            return [None if at == stamps.NO_TIME else at for at in time.tolist()]
        rows = pl.DataFrame({"time": time, "flags": flags})
        rows = rows.with_columns(time=pl.when(pl.col("time") != stamps.NO_TIME).then(pl.col("time")))
        return redate(rows, *self.moves[:3], False if self.of_day else None)["time"].to_list()


class Described:
    """The logs of one reader."""

    def __init__(self, logs: Sequence[Sources]) -> None:
        self.logs = [Log(sources) for sources in logs]
        self._writers: dict[tuple[int, int], int] = {}  # (log, source) -> its number

    def add(self, prepared: Prepared) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint32]]:
        """Adds writers, year, boot time and long lines of a block to their logs. Returns of each line the index of its
        writer in its log's sources, and the writer's number among all logs'. O(lines).
        """
        self._dates(prepared)
        is_dated = (prepared.time != stamps.NO_TIME) | (prepared.facts.level > 0)
        for log, dated in enumerate(np.bincount(prepared.log[is_dated]).tolist()):
            self.logs[log].dated_lines += dated
        has_header = is_dated | (prepared.writer > 0)
        for log, headed in enumerate(np.bincount(prepared.log[has_header]).tolist()):
            self.logs[log].headed_lines += headed
        for log in np.unique(prepared.log[prepared.rows.length > lines.LINE_BYTES]).tolist():
            self.logs[log].has_long = True
        pairs = prepared.log * (len(prepared.said) + 1) + prepared.writer
        number, first = hashing.distinct(pairs.view(np.uint64))
        index, place = np.empty(len(first), np.uint16), np.empty(len(first), np.uint32)
        columns = prepared.log[first], prepared.writer[first], np.bincount(number)
        for pair, (log, name, count) in enumerate(np.column_stack(columns).tolist()):
            parts = prepared.said[name - 1] if name else {}
            index[pair] = source = self.logs[log].count(_NO_WRITER | parts, count)
            place[pair] = self._writers.setdefault((log, source), len(self._writers))
        return index[number], place[number]

    @property
    def sources(self) -> list[int]:
        """The index in a single log's sources of each writer's number."""
        return [source for _, source in self._writers]

    def _dates(self, prepared: Prepared) -> None:
        flags, time, log = prepared.facts.flags, prepared.time, prepared.log
        is_bare, is_since, is_of_day = ((flags & bit) != 0 for bit in (YEARLESS, SINCE_BOOT, OF_DAY))
        has_date = ~is_of_day & (time != stamps.NO_TIME)
        bare, since, of_day, has_dates = (
            np.bincount(log[lines_], minlength=len(self.logs)).tolist()
            for lines_ in (is_bare, is_since, is_of_day, has_date)
        )
        dated = np.flatnonzero(~is_bare & ~is_since & has_date)
        edges = pairwise(np.searchsorted(dated, prepared.cuts).tolist())
        for number, (one, (first, last)) in enumerate(zip(self.logs, edges, strict=True)):
            one.has_yearless |= bare[number] + of_day[number] > 0
            one.of_day += of_day[number]
            one.has_dates |= has_dates[number] > 0
            one.since_boot += since[number]
            one.boots += prepared.boots.get(number, [])
            if first < last and one.year is None:
                one.year = _year(int(time[dated[first]]))


def _year(time: int) -> int:
    return int(np.datetime64(time, "ns").astype("datetime64[Y]").astype(int)) + 1970
