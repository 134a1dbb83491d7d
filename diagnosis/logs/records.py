"""Multi-line records: a traceback or a stack dump is one record of many lines.

Whether a line can continue its predecessor is a property of the line alone (its ``flags``); which record it then
belongs to follows from the order of the lines of one source. So byte ranges are independent: merging them repeats only
the cheap second half.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.jit import compiled
from diagnosis.logs.patterns import Form, same
from diagnosis.logs.tables import BLANK, CLOSER, INDENTED, OPENER

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


def flags(message: pl.Expr, style: pl.Expr, form: Form = same) -> pl.Expr:
    """Flags of normalised messages (without header, with leading white space); ``style`` is null if the line states no
    time.
    """
    bits = (
        pl.when(message.str.contains(form(_CONTINUES))).then(INDENTED).otherwise(0)
        + pl.when(message.str.contains(form(_OPENER))).then(OPENER).otherwise(0)
        + pl.when(message.str.contains(form(_CLOSER))).then(CLOSER).otherwise(0)
        + pl.when(message.str.strip_chars() == "").then(BLANK).otherwise(0)
    )
    return bits.cast(pl.UInt8)


class Records:
    """Gives each line its record; keeps the open record of every source from block to block."""

    def __init__(self) -> None:
        # of each source: its record (0: none yet), whether an opener began it, whether its last line was indented
        self._record = np.zeros(16, np.uint32)
        self._is_open = np.zeros(16, np.bool_)
        self._was_indented = np.zeros(16, np.bool_)

    def assign(
        self, line: npt.NDArray[np.uint32], source: npt.NDArray[np.uint32], flags: npt.NDArray[np.uint8]
    ) -> npt.NDArray[np.uint32]:
        """The records of consecutive lines. O(lines)."""
        most = int(source.max(initial=0)) + 1
        if most > len(self._record):
            more = 2 * most - len(self._record)
            self._record = np.append(self._record, np.zeros(more, np.uint32))
            self._is_open = np.append(self._is_open, np.zeros(more, np.bool_))
            self._was_indented = np.append(self._was_indented, np.zeros(more, np.bool_))
        out = np.empty(len(line), np.uint32)
        _assign(line, source, flags, self._record, self._is_open, self._was_indented, out)
        return out


@compiled
def _assign(  # noqa: PLR0917
    line: npt.NDArray[np.uint32],
    source: npt.NDArray[np.uint32],
    flags: npt.NDArray[np.uint8],
    record: npt.NDArray[np.uint32],
    is_open: npt.NDArray[np.bool_],
    was_indented: npt.NDArray[np.bool_],
    out: npt.NDArray[np.uint32],
) -> None:
    for row in range(len(line)):
        one = source[row]
        said = flags[row]
        is_indented = said & INDENTED != 0
        if is_indented and record[one] != 0:
            pass  # continues the open record, or the last line
        elif not is_indented and was_indented[one] and is_open[one] and said & CLOSER != 0:
            # a closing line begins no record: it and the indented lines below it end the traceback
            is_open[one] = False
        else:
            record[one] = line[row]
            is_open[one] = said & OPENER != 0
        was_indented[one] = is_indented
        out[row] = record[one]
