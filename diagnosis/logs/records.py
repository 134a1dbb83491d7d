"""Multi-line records: a traceback or a stack dump is one record of many lines.

Whether a line can continue its predecessor is a property of the line alone (its ``flags``); which record it then belongs to follows from the order of the
lines of one source. That keeps byte ranges independent: merging them only repeats the cheap second half.
"""

from __future__ import annotations

import polars as pl

#: Bits of the column ``flags``.
INDENTED = 1  # begins with white space and states no time of its own
OPENER = 2  # begins a record that indented lines continue to explain: "Traceback …", "Call Trace:"
CLOSER = 4  # may end a traceback: "ValueError: …"
BLANK = 8
YEARLESS = 16  # its time stamp names no year

_OPENER = r"^\s*(?:Traceback \(most recent call last\)|Exception in thread |[Cc]all [Tt]race:|[Ss]tack ?[Tt]race|.*\bBacktrace:|Thread 0x0|Current thread|Fatal Python error)"
_CLOSER = (
    r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure|Abort|Timeout|Stop\w*)?(?::|$)"
)
_CONTINUES = r"^(?:\s{2,}|\t|frame #0|\^+$|The above exception was|During handling of the above)"


def flags(message: pl.Expr, style: pl.Expr) -> pl.Expr:
    """Flags of normalised messages (header taken off, leading white space kept); ``style`` is null where the line states no time."""
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
        self._open: dict[
            int, tuple[int, bool, bool]
        ] = {}  # source -> (record, it began with an opener, its last line was indented)

    def assign(self, frame: pl.DataFrame) -> pl.Series:
        """``record`` for the rows of ``frame`` (line, source, flags; in line order). O(n log n) in the block for many sources, O(n) for one."""
        if frame.is_empty():
            return pl.Series("record", [], dtype=pl.UInt32)
        carried = pl.DataFrame(
            {
                "source": list(self._open),
                "line": [0] * len(self._open),
                "flags": [0] * len(self._open),
                "was_record": [state[0] for state in self._open.values()],
                "was_open": [state[1] for state in self._open.values()],
                "was_indented": [state[2] for state in self._open.values()],
            },
            schema={
                "source": pl.UInt16,
                "line": pl.UInt32,
                "flags": pl.UInt8,
                "was_record": pl.UInt32,
                "was_open": pl.Boolean,
                "was_indented": pl.Boolean,
            },
        )
        rows = pl.concat([carried, frame.select("source", "line", "flags")], how="diagonal").sort(
            "source", "line", maintain_order=True
        )
        flag = pl.col("flags")
        is_carried = pl.col("line") == 0
        rows = rows.with_columns(
            indented=pl.when(is_carried).then(pl.col("was_indented")).otherwise((flag & INDENTED) > 0),
            start=pl.when(is_carried).then(pl.col("was_record")).when((flag & INDENTED) == 0).then(pl.col("line")),
            opens=pl.when(is_carried).then(pl.col("was_open")).when((flag & INDENTED) == 0).then((flag & OPENER) > 0),
        ).with_columns(
            first=pl.col("start").forward_fill().over("source"),
            inside=pl.col("opens").shift(1).forward_fill().over("source").fill_null(False),
            after_indent=pl.col("indented").shift(1).over("source").fill_null(False),
        )
        closes = ~is_carried & ~pl.col("indented") & pl.col("inside") & pl.col("after_indent") & ((flag & CLOSER) > 0)
        rows = rows.with_columns(start=pl.when(closes).then(None).otherwise(pl.col("start")))
        rows = rows.with_columns(record=pl.coalesce(pl.col("start").forward_fill().over("source"), pl.col("line")))
        last = rows.group_by("source", maintain_order=True).last()
        opened = (
            rows.with_columns(opens=pl.when(closes).then(False).otherwise(pl.col("opens")))
            .group_by("source", maintain_order=True)
            .agg(pl.col("opens").drop_nulls().last())
        )
        self._open = {
            int(source): (int(record), bool(opens), bool(indented))
            for source, record, indented, opens in zip(
                last["source"], last["record"], last["indented"], opened["opens"], strict=True
            )
        }
        return rows.filter(~is_carried).sort("line")["record"].cast(pl.UInt32)
