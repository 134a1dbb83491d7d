"""The facts of a block of lines without its predecessors: messages, levels, times and writers.

Compiled code reads every byte once and gives each line a key that does not depend on its digits (``scan.keys``).
Header, level and masks are computed for one line of each key, and the others look them up (``known``). Compiled code
also reads times and writers from the lines.

A call costs some milliseconds however few lines it gets. So small files are prepared as one block.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from diagnosis.kinds.logs.columns.tables import OF_DAY, SINCE_BOOT, YEARLESS
from diagnosis.kinds.logs.read import boots, headers, known, lines, times, writers
from diagnosis.kinds.logs.text import hashing, stamps

_STYLES = {style.name: index for index, style in enumerate(times.TIME_STYLES)}
_FLAGS = {times.SINCE_BOOT: SINCE_BOOT, times.OF_DAY: OF_DAY}
type Places = npt.NDArray[np.int64]


class Prepared(msgspec.Struct, frozen=True):
    """The facts of a block without its predecessors. ``log`` numbers the log of each line, ``cuts`` are the places of
    each log's first line and the number of lines. ``writer`` numbers the writers that ``said`` describes, from 1 on; 0
    is none. ``message`` numbers the masked messages of each log in order of appearance; ``first``, ``count`` and
    ``worst`` have one entry each. ``boots``: of logs that are dated from there.
    """

    rows: lines.Rows
    facts: known.Facts
    texts: dict[int, str]
    time: npt.NDArray[np.int64]
    writer: Places
    said: list[dict[str, str]]
    log: Places
    cuts: Places
    message: Places
    first: Places
    count: Places
    worst: npt.NDArray[np.uint8]
    boots: dict[int, list[int]]


def prepare(block: lines.Block, time_zone: str) -> Prepared:
    """Reads the lines of a block of one log. O(bytes)."""
    rows = lines.read(block)
    return _prepared(rows, np.array([0, len(rows.start)]), time_zone)


def prepare_files(files: Iterable[bytes], time_zone: str) -> Prepared:
    """Reads plain files as one block; offsets count from each one's beginning. O(bytes)."""
    each = [data if data.endswith(b"\n") else data + b"\n" for data in files]
    whole, starts = b"".join(each), np.cumsum([0, *map(len, each)])
    del each
    rows = lines.read(lines.Block(whole, 0, "utf-8", is_plain=True))
    cuts = np.searchsorted(rows.offset, starts)
    return _prepared(replace(rows, offset=rows.offset - np.repeat(starts[:-1], np.diff(cuts))), cuts, time_zone)


def _prepared(rows: lines.Rows, cuts: Places, time_zone: str) -> Prepared:
    table = known.shared.get()
    facts = table.facts(rows)
    time = _times(rows, facts, time_zone)
    log = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
    message, first = hashing.distinct(hashing.hash_pair(facts.masked, log) if len(cuts) > 2 else facts.masked)
    count, worst = np.zeros(len(first), np.int64), np.zeros(len(first), np.uint8)
    hashing.tally(message, facts.level, count, worst)
    boots = _boots(rows, facts, time, cuts)
    writer, parts = writers.read(rows, facts.who)
    return Prepared(rows, facts, table.texts, time, writer, parts, log, cuts, message, first, count, worst, boots)


def _boots(rows: lines.Rows, facts: known.Facts, time: npt.NDArray[np.int64], cuts: Places) -> dict[int, list[int]]:
    since = np.flatnonzero(facts.flags & SINCE_BOOT)
    if not len(since):
        return {}
    stamped = np.flatnonzero(facts.who & headers.SYSLOG)
    found = {}
    for log, (low, high) in enumerate(pairwise(cuts)):
        own, others = (at[slice(*np.searchsorted(at, (low, high)))] for at in (since, stamped))
        if len(own):
            found[log] = boots.boot_times(rows, own, others, time)
    return found


def _times(rows: lines.Rows, facts: known.Facts, time_zone: str) -> npt.NDArray[np.int64]:
    """The lines' times; sets flags for stamps without a year or a date, or counted from boot."""
    time = np.full(len(facts.style), stamps.NO_TIME, np.int64)
    for index in np.flatnonzero(np.bincount(facts.style)):
        if index == known.NO_STYLE:
            continue
        style = times.TIME_STYLES[index]
        places = np.flatnonzero(facts.style == index)
        time[places] = value = times.read_times(rows, places, style, time_zone)
        if flag := _FLAGS.get(style.name):
            facts.flags[places[value != stamps.NO_TIME]] |= flag
            for name in times.FALLBACK_STYLES:
                places = places[time[places] == stamps.NO_TIME]
                if len(places):
                    time[places] = times.read_times(rows, places, times.TIME_STYLES[_STYLES[name]], time_zone)
        if style.yearless:
            facts.flags[places[(value != stamps.NO_TIME) & (value < times.NEXT_YEAR)]] |= YEARLESS
    return time
