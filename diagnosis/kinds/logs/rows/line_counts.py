"""Counts lines by writer and message: one pass of compiled code over them."""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.columns.tables import YEARLESS
from diagnosis.kinds.logs.text import hashing
from diagnosis.kinds.logs.text.stamps import NO_TIME
from diagnosis.processing.jit import compiled

#: A time that runs back by this many nanoseconds is a jump.
JUMP: Final = thresholds.of("line_counts").jump_s * 1_000_000_000

#: Schema of ``cells.parquet``: the occurrences of a run of lines of one file, see :class:`occurrences.Counts`.
COUNTED: Final = {
    "source": pl.UInt32,
    "masked": pl.UInt64,
    "n": pl.UInt32,
    "first_line": pl.UInt32,
    "last_line": pl.UInt32,
    "stated_at": pl.Int64,
    "known_at": pl.Int64,
    "last_at": pl.Int64,
    "until_at": pl.Int64,
    "is_early": pl.Boolean,
    "is_waiting": pl.Boolean,
}
NEVER: Final = np.iinfo(np.int64).max
type Places = npt.NDArray[np.int64]


class Edges(NamedTuple):
    """A run of lines seen from its neighbours: its length, the first and the last time that one of
    them states, and how often the time runs back widely within it.
    """

    lines: int
    first: int | None
    last: int | None
    jumps: int


def own_time(year_at: int | None) -> pl.Expr:
    """A line's own time; stamps without a year are moved near to ``year_at``."""
    time = pl.col("time")
    if year_at is None:
        return time
    stamp = pl.from_epoch(time, time_unit="ns")
    year = datetime.fromtimestamp(year_at / 1e9, UTC).year
    best = None
    for candidate in (year, year - 1, year + 1):
        last = 29 if calendar.isleap(candidate) else 28
        is_leap_day = (stamp.dt.month() == 2) & (stamp.dt.day() > last)
        day = pl.when(is_leap_day).then(last).otherwise(stamp.dt.day())
        moved = stamp.dt.replace(year=candidate, day=day).dt.epoch("ns")
        best = (
            moved
            if best is None
            else pl.when((moved - year_at).abs() < (best - year_at).abs()).then(moved).otherwise(best)
        )
    return pl.when((pl.col("flags") & YEARLESS) > 0).then(best).otherwise(time)


class Tally:
    """Counts the lines of some files by writer and message."""

    def __init__(self, files: int) -> None:
        self._pairs = hashing.Numbering()
        self._who: list[tuple[Places, npt.NDArray[np.uint16], npt.NDArray[np.uint64]]] = []
        self._lines = np.zeros((3, 0), np.int64)
        self._times = np.zeros((4, 0), np.int64)
        self._state = np.zeros((2, 0), np.int64)  # of each occurrence: does it wait for a time; is it early
        self._queue = np.zeros(0, np.int64)  # the occurrences that wait
        self._edges = np.full((2, files), NO_TIME)  # the first and the last time of each file
        self._jumps = np.zeros(files, np.uint32)
        self._at = np.array([-1, 0])  # the file that is being read, how many occurrences wait

    def add(
        self, rows: pl.DataFrame, file: Places, line: Places, base: npt.NDArray[np.uint32], year_at: int | None
    ) -> None:
        """Adds consecutive lines. ``base``: makes the writers of each file others."""
        masked, source = rows["masked"].to_numpy(), rows["source"].to_numpy()
        time = rows.select(own_time(year_at))["time"].fill_null(NO_TIME).to_numpy()
        occurrence, fresh = self._pairs.add(hashing.hash_pair(masked, (source + base).astype(np.int64)))
        self._who.append((file[fresh], source[fresh], masked[fresh]))
        blank = np.array([[NEVER], [NEVER], [NO_TIME], [NO_TIME]])
        self._lines = np.append(self._lines, np.zeros((3, len(fresh)), np.int64), axis=1)
        self._times = np.append(self._times, np.repeat(blank, len(fresh), axis=1), axis=1)
        self._state = np.append(self._state, np.zeros((2, len(fresh)), np.int64), axis=1)
        self._queue = np.append(self._queue, np.zeros(len(fresh), np.int64))
        state = self._lines, self._times, self._state, self._queue
        count_pairs(*(file, line, occurrence, time, *state, self._edges, self._jumps, self._at), JUMP)

    def found(self, sizes: Sequence[int]) -> tuple[pl.DataFrame, list[Edges]]:
        """The rows of ``COUNTED`` with the number of their ``file``; the edges of each file."""
        file, source, masked = (np.concatenate(column) for column in zip(*self._who, strict=True))
        numbers = zip(("n", "first_line", "last_line"), self._lines, strict=True)
        times = (pl.Series(np.where(times == NEVER, NO_TIME, times)).replace(NO_TIME, None) for times in self._times)
        occurrences = pl.DataFrame(
            {
                "file": pl.Series(file, dtype=pl.UInt32),
                "source": source,
                "masked": masked,
                **dict(numbers),
                **dict(zip(("stated_at", "known_at", "last_at", "until_at"), times, strict=True)),
                "is_waiting": self._state[0] > 0,
                "is_early": self._state[1] > 0,
            }
        ).select("file", *(pl.col(name).cast(kind) for name, kind in COUNTED.items()))
        first, last = ([None if at == NO_TIME else at for at in edge] for edge in self._edges.tolist())
        return occurrences, [Edges(*one) for one in zip(sizes, first, last, self._jumps.tolist(), strict=True)]


@compiled
def count_pairs(  # noqa: PLR0917
    file: Places,
    line: Places,
    occurrence: Places,
    time: Places,
    lines: npt.NDArray[np.int64],
    times: npt.NDArray[np.int64],
    state: npt.NDArray[np.int64],
    queue: Places,
    edges: npt.NDArray[np.int64],
    jumps: npt.NDArray[np.uint32],
    at: Places,
    jump: int,
) -> None:
    """Adds lines to their occurrences' ``lines`` (how many, first, last) and ``times`` (the first that
    one states; the first and the last that are known, each line's own or the last before it; by
    when those were written that a time follows: the latest next time). Occurrences wait for the next time
    of their file; those that wait at its end stay so. Occurrences with a line before the first time of
    their file are early.
    """
    for row in range(len(occurrence)):
        here, one, own = file[row], occurrence[row], time[row]
        if here != at[0]:
            at[0], at[1] = here, 0
        if lines[0, one] == 0:
            lines[1, one] = line[row]
        lines[0, one] += 1
        lines[2, one] = line[row]
        if own == NO_TIME:
            if state[0, one] == 0:
                queue[at[1]] = one
                state[0, one] = 1
                at[1] += 1
        else:
            if edges[0, here] == NO_TIME:
                edges[0, here] = own
            elif own - edges[1, here] <= -jump:
                jumps[here] += 1
            edges[1, here] = own
            times[0, one] = min(times[0, one], own)
            times[3, one] = max(times[3, one], own)
            for place in range(at[1]):
                waited = queue[place]
                state[0, waited] = 0
                times[3, waited] = max(times[3, waited], own)
            at[1] = 0
        if edges[1, here] != NO_TIME:
            times[1, one] = min(times[1, one], edges[1, here])
            times[2, one] = max(times[2, one], edges[1, here])
        else:
            state[1, one] = 1
