"""The facts of a block of lines without its predecessors: messages, levels, times and writers.

Compiled code reads every byte once and gives each line a key that does not depend on its digits (``scan.keys``).
Header, level and masks are computed for one line of each key, and the others look them up (``known``). Compiled code
also reads times and writers from the lines.

A call costs some milliseconds even for few lines, so small files are prepared as one block and divided again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from diagnosis.logs import boots, hashing, headers, known, lines, records, scan, times, writers

_STYLES = {style.name: index for index, style in enumerate(times.TIME_STYLES)}
_OF_ROWS = [field.name for field in fields(lines.Rows) if field.name != "data"]
type Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Read:
    """The lines of a block before their messages are counted. ``writer`` numbers the writers that ``said`` describes,
    from 1 on; 0 is none.
    """

    rows: lines.Rows
    facts: known.Facts
    texts: dict[int, str]
    time: npt.NDArray[np.int64]
    writer: Places
    said: list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Prepared(_Read):
    """The facts of a block without its predecessors. ``message`` numbers the block's masked messages in order of
    appearance; ``first``, ``count`` and ``worst`` have one entry each.
    """

    message: Places
    first: Places
    count: Places
    worst: npt.NDArray[np.uint8]
    boots: list[int]


def prepare(block: lines.Block, time_zone: str) -> Prepared:
    """Reads the lines of a block. O(bytes)."""
    return _counted(_read(block, time_zone))


def prepare_files(files: Sequence[bytes], time_zone: str) -> list[Prepared]:
    """:func:`prepare` of each of several plain files (``lines.is_plain``, not empty), read as one block. O(bytes)."""
    whole = [data if data.endswith(b"\n") else data + b"\n" for data in files]
    block = _read(lines.Block(b"".join(whole), 0, "utf-8"), time_zone)
    starts = np.cumsum([0, *map(len, whole)])
    cuts = np.searchsorted(block.rows.offset, starts).tolist()
    return [
        _counted(_part(block, slice(first, last), int(start)))
        for (first, last), start in zip(pairwise(cuts), starts, strict=False)
    ]


def _read(block: lines.Block, time_zone: str) -> _Read:
    rows, table = lines.read(block), known.shared.get()
    facts = table.facts(rows)
    return _Read(rows, facts, table.texts, _times(rows, facts, time_zone), *writers.read(rows, facts.who))


def _part(block: _Read, part: slice, start: int) -> _Read:
    """The rows ``part`` of a block as a block of their own, whose first byte was ``start``."""
    rows = lines.Rows(block.rows.data, *(getattr(block.rows, name)[part] for name in _OF_ROWS))
    facts = known.Facts(*(getattr(block.facts, field.name)[part].copy() for field in fields(block.facts)))
    number, first = hashing.distinct(block.writer[part].view(np.uint64))
    names = block.writer[part][first]
    said = [block.said[name - 1] for name in names.tolist() if name]
    writer = np.where(names == 0, 0, np.cumsum(names != 0))[number]
    return _Read(replace(rows, offset=rows.offset - start), facts, block.texts, block.time[part], writer, said)


def _counted(read: _Read) -> Prepared:
    rows, facts, time = read.rows, read.facts, read.time
    since = np.flatnonzero(facts.flags & records.SINCE_BOOT)
    told = boots.stated(rows, since, np.flatnonzero(facts.who & headers.SYSLOG), time) if len(since) else []
    message, first = hashing.distinct(facts.masked)
    count, worst = np.zeros(len(first), np.int64), np.zeros(len(first), np.uint8)
    hashing.tally(message, facts.level, count, worst)
    return Prepared(rows, facts, read.texts, time, read.writer, read.said, message, first, count, worst, told)


def _times(rows: lines.Rows, facts: known.Facts, time_zone: str) -> npt.NDArray[np.int64]:
    """The lines' times; sets flags for stamps without a year, or counted from boot."""
    time = np.full(len(facts.style), scan.NO_TIME, np.int64)
    for index in np.flatnonzero(np.bincount(facts.style)):
        if index == known.NO_STYLE:
            continue
        style = times.TIME_STYLES[index]
        places = np.flatnonzero(facts.style == index)
        time[places] = value = times.read(rows, places, style, time_zone)
        if style.name == times.SINCE_BOOT:
            facts.flags[places[value != scan.NO_TIME]] |= records.SINCE_BOOT
            for name in times.OTHERWISE:
                places = places[time[places] == scan.NO_TIME]
                if len(places):
                    time[places] = times.read(rows, places, times.TIME_STYLES[_STYLES[name]], time_zone)
        if style.yearless:
            facts.flags[places[(value != scan.NO_TIME) & (value < times.NEXT_YEAR)]] |= records.YEARLESS
    return time
