"""Multi-line records: a traceback or a stack dump is one record of many lines.

Whether a line can continue its predecessor is a property of the line alone (its ``flags``); which record it then
belongs to follows from the order of the lines of one source. So a byte range is read without the ones before it:
:class:`Ends` says how its records depend on them, and :func:`followed_records` gives the records of its first lines,
once they are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.kinds.logs.columns.tables import BLANK, CLOSER, INDENTED, OPENER
from diagnosis.kinds.logs.text.patterns import ANY, Haystack
from diagnosis.processing.jit import compiled

_OPENER = (
    r"^\s*(?:Traceback \(most recent call last\)|Exception in thread |[Cc]all [Tt]race:|[Ss]tack "
    r"?[Tt]race|.*\bBacktrace:|Thread 0x0|Current thread|Fatal Python error)"
)
_CLOSER = (
    r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure|Abort|Timeout|Stop\w*)?(?::|$)"
)
_CONTINUES = (
    r"^(?:\s{2,}|\t|frame #0|_[A-Z]\w*=|(?:MESSAGE|PRIORITY|SYSLOG_\w+)=|\^+$|The above exception was"
    r"|During handling of the above)"
)
#: Of a source after a line: whether an opener began its record, whether the line was indented.
_IS_OPEN: Final = 1
_WAS_INDENTED: Final = 2
#: Of a row of ``heads``: the line begins a record whatever was before it, and ends the source's head.
_BEGINS_RECORD: Final = 128
_HEAD: Final = np.dtype([("source", np.uint16), ("line", np.uint32), ("bits", np.uint8)])
type Numbers = npt.NDArray[np.uint32]
#: Of the rows of :func:`followed_records`.
FOLLOWED_ROWS: Final = np.dtype([("source", np.uint16), ("line", np.uint32), ("record", np.uint32)])
type Heads = npt.NDArray[np.void]


def flags(message: pl.Expr, style: pl.Expr, hay: Haystack = ANY) -> pl.Expr:
    """Flags of normalised messages without header; ``style`` is null if no time is stated."""
    bits = (
        pl.when(hay.contains(message, _CONTINUES)).then(INDENTED).otherwise(0)
        + pl.when(hay.contains(message, _OPENER)).then(OPENER).otherwise(0)
        + pl.when(hay.contains(message, _CLOSER)).then(CLOSER).otherwise(0)
        + pl.when(message.str.strip_chars() == "").then(BLANK).otherwise(0)
    )
    return bits.cast(pl.UInt8)


class Ends(msgspec.Struct, frozen=True):
    """How the records of a range of lines join those of its neighbours.

    ``record``, ``state``: of each source after the last line: its record (0: it has no line), whether that is open and
    its last line was indented. ``heads``: the lines whose record depends on lines before the range, by line: of each
    source the first of several indented ones and possible closers, up to the first line that begins a record in any
    case, which is the last row of its source unless it is also the first one.
    """

    record: Numbers
    state: npt.NDArray[np.uint8]
    heads: Heads

    def stored(self) -> dict[str, Any]:
        """As JSON."""
        return {name: getattr(self, name).tolist() for name in ("record", "state", "heads")}

    @classmethod
    def loaded(cls, stored: dict[str, Any]) -> Self:
        """What :meth:`stored` returned."""
        heads = np.array([tuple(row) for row in stored["heads"]], _HEAD)
        return cls(np.array(stored["record"], np.uint32), np.array(stored["state"], np.uint8), heads)


class Records:
    """Gives each line its record; keeps the open record of every source from block to block."""

    def __init__(self) -> None:
        self._record = np.zeros(16, np.uint32)  # of each source, 0: none yet
        self._state = np.zeros(16, np.uint8)
        self._is_settled = np.zeros(16, np.bool_)
        self._heads: list[Heads] = []

    def assign(
        self, line: npt.NDArray[np.uint32], source: npt.NDArray[np.uint32], flags: npt.NDArray[np.uint8]
    ) -> npt.NDArray[np.uint32]:
        """The records of consecutive lines. O(lines)."""
        most = int(source.max(initial=0)) + 1
        if most > len(self._record):
            more = 2 * most - len(self._record)
            self._record = np.append(self._record, np.zeros(more, np.uint32))
            self._state = np.append(self._state, np.zeros(more, np.uint8))
            self._is_settled = np.append(self._is_settled, np.zeros(more, np.bool_))
        out, bits = np.empty(len(line), np.uint32), np.zeros(len(line), np.uint8)
        _assign_records(line, source, flags, self._record, self._state, self._is_settled, out, bits)
        rows = np.flatnonzero(bits)
        heads = np.empty(len(rows), _HEAD)
        heads["source"], heads["line"], heads["bits"] = source[rows], line[rows], bits[rows]
        self._heads.append(heads)
        return out

    def ends(self, source: Sequence[int], sources: int) -> Ends:
        """How these lines join those before and after them. ``source``: which of so many ``sources`` is the one that
        was counted here as 0, 1, ….
        """
        record, state = np.zeros(sources, np.uint32), np.zeros(sources, np.uint8)
        record[source], state[source] = self._record[: len(source)], self._state[: len(source)]
        heads = np.concatenate([np.empty(0, _HEAD), *self._heads])
        heads["source"] = np.array(source, np.uint16)[heads["source"]]
        return Ends(record, state, heads)


@compiled
def _assign_records(  # noqa: PLR0917
    line: Numbers,
    source: Numbers,
    flags: npt.NDArray[np.uint8],
    record: Numbers,
    state: npt.NDArray[np.uint8],
    is_settled: npt.NDArray[np.bool_],
    out: Numbers,
    bits: npt.NDArray[np.uint8],
) -> None:
    for row in range(len(line)):
        one = source[row]
        line_flags = flags[row]
        is_indented = line_flags & INDENTED != 0
        was_indented = state[one] & _WAS_INDENTED != 0
        if not is_settled[one]:
            if is_indented or (line_flags & CLOSER != 0 and (was_indented or record[one] == 0)):
                if not (is_indented and was_indented):
                    bits[row] = line_flags & (INDENTED | OPENER | CLOSER)
            else:
                is_settled[one] = True
                if record[one] != 0:
                    bits[row] = _BEGINS_RECORD
        if is_indented and record[one] != 0:
            # continues the open record, or the last line
            state[one] |= _WAS_INDENTED
        elif not is_indented and state[one] == _IS_OPEN | _WAS_INDENTED and line_flags & CLOSER != 0:
            # a closing line begins no record: it and the indented lines below it end the traceback
            state[one] = 0
        else:
            record[one] = line[row]
            state[one] = (_IS_OPEN if line_flags & OPENER != 0 else 0) | (_WAS_INDENTED if is_indented else 0)
        out[row] = record[one]


def followed_records(ranges: Sequence[tuple[int, Ends, Sequence[int]]], sources: int) -> list[Heads]:
    """Of each of consecutive ranges (lines before it, its ends, the number over all ranges of each of its sources) the
    lines from which its source's record is another one than the range alone shows: ``source``, ``line``, ``record``
    (over all ranges; 0: what the range shows). O(sources and heads of all).
    """
    record, state = np.zeros(sources, np.int64), np.zeros(sources, np.uint8)
    found = []
    for before, ends, number in ranges:
        place = np.array(number, np.int64)
        is_own = np.ones(len(place), np.bool_)  # what the range shows of the source's last line stands
        rows = []
        for source, line, bits in ends.heads.tolist():
            to = place[source]
            if bits == _BEGINS_RECORD:
                if not is_own[source]:
                    rows.append((source, line, 0))
                is_own[source] = True
            elif record[to] != 0:
                is_own[source] = False
                if bits & INDENTED:
                    state[to] |= _WAS_INDENTED
                elif state[to] == _IS_OPEN | _WAS_INDENTED and bits & CLOSER:
                    state[to] = 0
                else:
                    record[to], state[to] = before + line, _IS_OPEN if bits & OPENER else 0
                rows.append((source, line, record[to]))
        is_own &= ends.record != 0
        record[place[is_own]], state[place[is_own]] = before + ends.record[is_own].astype(np.int64), ends.state[is_own]
        found.append(np.array(rows, FOLLOWED_ROWS))
    return found
