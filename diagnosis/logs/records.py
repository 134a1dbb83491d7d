"""Multi-line records: a traceback or a stack dump is one record of many lines.

Whether a line can continue its predecessor is a property of the line alone (its ``flags``); which record it then
belongs to follows from the order of the
lines of one source. That keeps byte ranges independent: merging them only repeats the cheap second half.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

#: Bits of the column ``flags``.
INDENTED = 1  # begins with white space and states no time of its own
OPENER = 2  # begins a record that indented lines continue to explain: "Traceback …", "Call Trace:"
CLOSER = 4  # may end a traceback: "ValueError: …"
BLANK = 8
YEARLESS = 16  # its time stamp names no year

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


def flags(message: pl.Expr, style: pl.Expr) -> pl.Expr:
    """Flags of normalised messages (header taken off, leading white space kept); ``style`` is null where the line
    states no time.
    """
    bits = (
        pl.when(message.str.contains(_CONTINUES)).then(INDENTED).otherwise(0)
        + pl.when(message.str.contains(_OPENER)).then(OPENER).otherwise(0)
        + pl.when(message.str.contains(_CLOSER)).then(CLOSER).otherwise(0)
        + pl.when(message.str.strip_chars() == "").then(BLANK).otherwise(0)
    )
    return bits.cast(pl.UInt8)


class Records:
    """Gives each line its record; carries the open record of every source from block to block."""

    def __init__(self) -> None:
        # source -> (record, it began with an opener, its last line was indented)
        self._open: dict[int, tuple[int, bool, bool]] = {}

    def assign(self, frame: pl.DataFrame) -> pl.Series:
        """``record`` (u32) for the rows of ``frame`` (line, source, flags; in line order). O(n): a stable radix
        sort and running maxima.
        """
        count = len(frame)
        if not count:
            return pl.Series("record", [], dtype=pl.UInt32)
        source = frame["source"].to_numpy()
        order = np.argsort(source, kind="stable")
        source = source[order]
        line = frame["line"].to_numpy()[order].astype(np.int64)
        flags = frame["flags"].to_numpy()[order]
        is_first = np.empty(count, bool)
        is_first[0] = True
        np.not_equal(source[1:], source[:-1], out=is_first[1:])
        firsts = np.flatnonzero(is_first)
        carried = [self._open.get(int(one), (0, False, False)) for one in source[firsts]]

        indented = (flags & INDENTED) != 0
        opens = (flags & OPENER) != 0
        starts = ~indented
        record: npt.NDArray[np.int64] = np.where(starts, line, 0)
        opened = np.where(starts, opens, False)
        # The first line of a source in this block continues what was left open, if it is indented.
        for place, (number, is_open, _) in zip(firsts, carried, strict=True):
            if indented[place]:
                record[place] = number or line[place]
                opened[place] = is_open or (not number and opens[place])
                starts[place] = True
        at = np.maximum.accumulate(np.where(starts, np.arange(count), 0))
        record = record[at]
        opened = opened[at]

        before_indented = np.empty(count, bool)
        before_indented[1:] = indented[:-1]
        before_open = np.empty(count, bool)
        before_open[1:] = opened[:-1]
        before_record = np.empty(count, np.int64)
        before_record[1:] = record[:-1]
        before_indented[firsts] = [was_indented for _, _, was_indented in carried]
        before_open[firsts] = [is_open for _, is_open, _ in carried]
        before_record[firsts] = [number for number, _, _ in carried]
        closes = ~indented & before_indented & before_open & ((flags & CLOSER) != 0)
        if closes.any():
            # A closing line begins no record of its own: it and what is indented below it belong to the traceback.
            closing = np.flatnonzero(closes)
            target = before_record[closing]
            is_chain = closes[at]
            record[is_chain] = target[np.searchsorted(closing, at[is_chain])]
            opened[is_chain] = False
        lasts = np.append(firsts[1:], count) - 1
        for place in lasts:
            self._open[int(source[place])] = (int(record[place]), bool(opened[place]), bool(indented[place]))
        out = np.empty(count, np.uint32)
        out[order] = record
        return pl.Series("record", out)
