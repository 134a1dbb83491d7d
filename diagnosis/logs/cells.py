"""Which source printed which message, how often, first and last time: a row for each (source, message), and for each
file.

One pass of compiled code over the lines; the rest follows the number of *different* pairs. A file is read in slices, so
that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.jit import compiled
from diagnosis.logs import hashing, tables
from diagnosis.logs.scan import NO_TIME
from diagnosis.logs.tables import YEARLESS, Rows

#: Lines read at a time (about 50 bytes each).
MOST_LINES: Final = 1 << 19
#: Files read at a time.
_FILES: Final = 512
#: A time that runs back by this many seconds is a jump: clocks of machines differ by less.
JUMP_S: Final = 900
_NEVER: Final = np.iinfo(np.int64).max

CELLS: Final = {
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
type Places = npt.NDArray[np.int64]


def of_files(
    logs: Sequence[Rows], bases: Sequence[int], year_at: int | None, kept: pl.Series | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """``cells`` (of the messages ``kept`` only, where not all are) and ``spans`` (of all lines) of these files, see
    :class:`diagnosis.logs.events.LogTable`; ``bases`` are the numbers of each file's first writer."""
    found = [_of_group(group, logs, bases, year_at, kept) for group in groups([log.size for log in logs])]
    found.append((pl.DataFrame(schema=CELLS), pl.DataFrame(schema=SPANS)))
    cells, spans = (pl.concat(part) for part in zip(*found, strict=True))
    return cells.sort("file", "source", "masked"), spans


def groups(lines: Sequence[int]) -> Iterator[list[int]]:
    """Files to be read at a time, in order: at most :data:`MOST_LINES` lines, or one file."""
    group: list[int] = []
    held = 0
    for file, count in enumerate(lines):
        if group and (len(group) == _FILES or held + count > MOST_LINES):
            yield group
            group, held = [], 0
        group.append(file)
        held += count
    if group:
        yield group


def own_time(year_at: int | None) -> pl.Expr:
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


def _of_group(
    group: Sequence[int], logs: Sequence[Rows], bases: Sequence[int], year_at: int | None, kept: pl.Series | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    names = ["source", "masked", "time", *([] if year_at is None else ["flags"])]
    sizes = [logs[file].size for file in group]
    tally = _Tally(len(group))
    if sum(sizes) <= MOST_LINES:
        rows = tables.read([logs[file] for file in group], names)
        file, first = (np.repeat(of_each, sizes) for of_each in (np.arange(len(group)), np.cumsum([0, *sizes])[:-1]))
        base = np.repeat(np.array([bases[file] for file in group], np.uint32), sizes)
        tally.add(rows, file, np.arange(1, rows.height + 1) - first, base, year_at)
    else:
        for low in range(0, sizes[0], MOST_LINES):
            rows = tables.scan(logs[group[0]]).select(names).slice(low, MOST_LINES).collect()
            file, base = np.zeros(rows.height, np.int64), np.full(rows.height, bases[group[0]], np.uint32)
            tally.add(rows, file, np.arange(low + 1, low + rows.height + 1), base, year_at)
    cells, spans = tally.found(pl.Series(group, dtype=pl.UInt32))
    return (cells if kept is None else cells.filter(pl.col("masked").is_in(kept.implode()))), spans


class _Tally:
    """Counts the lines of some files by writer and message."""

    def __init__(self, files: int) -> None:
        self._pairs = hashing.Numbering()
        self._who: list[tuple[Places, npt.NDArray[np.uint32], npt.NDArray[np.uint64]]] = []
        self._lines = np.zeros((3, 0), np.int64)
        self._times = np.zeros((4, 0), np.int64)
        self._waiting = np.zeros((2, 0), np.int64)  # cells, as many as wait; of each cell whether it does
        self._last = np.full(files, NO_TIME)
        self._jumps = np.zeros(files, np.uint32)
        self._at = np.array([-1, 0])  # the file that is being read, how many cells wait

    def add(
        self, rows: pl.DataFrame, file: Places, line: Places, base: npt.NDArray[np.uint32], year_at: int | None
    ) -> None:
        """Adds consecutive lines."""
        masked, source = rows["masked"].to_numpy(), rows["source"].to_numpy() + base
        time = rows.select(own_time(year_at))["time"].fill_null(NO_TIME).to_numpy()
        cell, fresh = self._pairs.add(hashing.joined(masked, source.astype(np.int64)))
        self._who.append((file[fresh], source[fresh], masked[fresh]))
        blank = np.array([[_NEVER], [_NEVER], [NO_TIME], [NO_TIME]])
        self._lines = np.append(self._lines, np.zeros((3, len(fresh)), np.int64), axis=1)
        self._times = np.append(self._times, np.repeat(blank, len(fresh), axis=1), axis=1)
        self._waiting = np.append(self._waiting, np.zeros((2, len(fresh)), np.int64), axis=1)
        _tally(
            *(file, line, cell, time, self._lines, self._times, self._waiting, self._last, self._jumps, self._at),
            JUMP_S * 1_000_000_000,
        )

    def found(self, files: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows of ``CELLS`` and of ``SPANS``, whose numbers are ``files``."""
        self._times[3][self._waiting[0, : self._at[1]]] = _NEVER
        file, source, masked = (np.concatenate(column) for column in zip(*self._who, strict=True))
        numbers = zip(("n", "first_line", "last_line"), self._lines, strict=True)
        stated, known, last, until = (
            pl.Series(np.where((times == NO_TIME) | (times == _NEVER), NO_TIME, times)).replace(NO_TIME, None)
            for times in self._times
        )
        cells = pl.DataFrame(
            {
                "file": files.gather(file),
                "source": source,
                "masked": masked,
                **dict(numbers),
                "first_at": stated.fill_null(known),
                "last_at": last,
                "until_at": until,
                "is_stamped": stated.is_not_null(),
            }
        ).select(pl.col(name).cast(kind) for name, kind in CELLS.items())
        jumps = pl.DataFrame({"file": files, "jumps": self._jumps})
        spans = (
            cells.group_by("file")
            .agg(lines=pl.col("n").sum(), first_at=pl.col("first_at").min(), last_at=pl.col("last_at").max())
            .join(jumps, on="file")
            .sort("file")
        )
        return cells, spans.select(pl.col(name).cast(kind) for name, kind in SPANS.items())


@compiled
def _tally(  # noqa: PLR0917
    file: Places,
    line: Places,
    cell: Places,
    time: Places,
    lines: npt.NDArray[np.int64],
    times: npt.NDArray[np.int64],
    waiting: npt.NDArray[np.int64],
    last: Places,
    jumps: npt.NDArray[np.uint32],
    at: Places,
    jump: int,
) -> None:
    """Adds lines to their cells' ``lines`` (how many, first, last) and ``times`` (the first that one states; the first
    and the last that are known, each line's own or the last before it; by when all were written: the latest next time).
    Cells wait for the next time of their file; those that wait at its end wait for ever.
    """
    for row in range(len(cell)):
        here, one, own = file[row], cell[row], time[row]
        if here != at[0]:
            for place in range(at[1]):
                times[3, waiting[0, place]] = _NEVER
            at[0], at[1] = here, 0
        if lines[0, one] == 0:
            lines[1, one] = line[row]
        lines[0, one] += 1
        lines[2, one] = line[row]
        if own == NO_TIME:
            if waiting[1, one] == 0:
                waiting[0, at[1]] = one
                waiting[1, one] = 1
                at[1] += 1
        else:
            if last[here] != NO_TIME and own - last[here] <= -jump:
                jumps[here] += 1
            last[here] = own
            times[0, one] = min(times[0, one], own)
            times[3, one] = max(times[3, one], own)
            for place in range(at[1]):
                waited = waiting[0, place]
                waiting[1, waited] = 0
                times[3, waited] = max(times[3, waited], own)
            at[1] = 0
        if last[here] != NO_TIME:
            times[1, one] = min(times[1, one], last[here])
            times[2, one] = max(times[2, one], last[here])
