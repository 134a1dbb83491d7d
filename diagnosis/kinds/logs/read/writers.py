"""The writer of each line of a block, from the line itself: ranks, local ranks, labels, hosts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.kinds.logs.read import headers
from diagnosis.kinds.logs.read.lines import Rows
from diagnosis.kinds.logs.text import hashing, scan

type Places = npt.NDArray[np.int64]
#: The numbers that compiled code reads: position, kind, and the text before them.
_TAGS = (
    (headers.TAG, "rank", np.frombuffer(b"[rank", np.uint8)),
    (headers.MPI, "rank", np.frombuffer(b"[1,", np.uint8)),
    (headers.LOCAL, "local", np.frombuffer(b"[default", np.uint8)),
)


class _WriterPart:
    """One part of the writers, such as their rank: a distinguishing word, and its text for a few lines."""

    def __init__(self, words: hashing.Words) -> None:
        self.words = words

    def text(self, row: int) -> str:
        raise NotImplementedError


class _NumberPart(_WriterPart):
    def __init__(self, values: Places) -> None:
        super().__init__(values.view(np.uint64))
        self._values = values

    def text(self, row: int) -> str:
        return "" if self._values[row] < 0 else str(self._values[row])


class _TextPart(_WriterPart):
    def __init__(self, values: pl.Series) -> None:
        super().__init__(values.hash(1).to_numpy())
        self._values = values

    def text(self, row: int) -> str:
        return str(self._values[row])


class _WordSpan(_WriterPart):
    """A word by the position of its bytes; hash 0 is none."""

    def __init__(self, rows: Rows, places: Places, bit: int) -> None:
        first, last = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
        words = np.empty(len(places), np.uint64)
        if bit == headers.LABEL:
            scan.labels(rows.data, rows.start, rows.end, places, first, last, words)
        else:
            scan.hosts(rows.data, rows.start, rows.end, places, headers.WRITER_CHARS, first, last, words)
        super().__init__(words)
        self._data, self._first, self._last = rows.data, first, last

    def text(self, row: int) -> str:
        return self._data[self._first[row] : self._last[row]].tobytes().decode("ascii")


def read(rows: Rows, who: npt.NDArray[np.uint16]) -> tuple[Places, list[dict[str, str]]]:
    """The number of each line's writer within the block, 0 for none, and the parts of each writer's first line
    (``headers.PARTS``), in order of appearance, writer 1 first.
    """
    writer = np.zeros(len(who), np.int64)
    firsts: list[tuple[int, dict[str, str]]] = []
    groups: list[tuple[Places, Places, int]] = []
    for kind in np.flatnonzero(np.bincount(who)):
        if not kind:
            continue
        places = np.flatnonzero(who == kind)
        parts = _parts(rows, places, int(kind))
        words = np.zeros(len(places), np.uint64)
        for part in parts.values():
            words = hashing.hash_pair(words, part.words)
        number, fresh = hashing.distinct(words)
        groups.append((places, number, len(firsts)))
        firsts += [(int(places[row]), {name: part.text(int(row)) for name, part in parts.items()}) for row in fresh]
    order = sorted(range(len(firsts)), key=lambda first: firsts[first][0])
    rank = np.empty(len(firsts), np.int64)
    rank[order] = np.arange(1, len(firsts) + 1)
    for places, number, base in groups:
        writer[places] = rank[number + base]
    return writer, [firsts[first][1] for first in order]


def _parts(rows: Rows, places: Places, who: int) -> dict[str, _WriterPart]:
    """The parts of the writer that lines with these ``who`` bits state: some of ``headers.PARTS``."""
    found: dict[str, _WriterPart] = {}
    if who & headers.WORDS:
        for series in headers.writers(rows.text(places, headers.WRITER_CHARS), who):
            found[series.name] = _TextPart(series)
    for bit, part, tag in _TAGS:
        if who & bit and part not in found:
            value = np.empty(len(places), np.int64)
            scan.tagged(rows.data, rows.start, rows.end, places, tag, headers.WRITER_CHARS, value)
            found[part] = _NumberPart(value)
    for bit, part in ((headers.LABEL, "label"), (headers.NCCL, "host")):
        if who & bit and part not in found:
            found[part] = _WordSpan(rows, places, bit)
    if who & headers.TASK and "rank" not in found:
        value = np.empty(len(places), np.int64)
        scan.leading(rows.data, rows.start, rows.end, places, value)
        found["task"] = _NumberPart(value)
    return found
