"""Reads one range of a growing log: counters, losses, stages, errors and what else the watches need.

Linear in the range.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import polars as pl

from diagnosis.live.news import nothing
from diagnosis.logs import progress, signatures, stages, words
from diagnosis.model import Level, Parsed, Role

#: Maximum number of lines with a counter that are read: the last ones of a range.
MOST_LINES: Final = 400
#: Maximum number of errors, statements about disks and nodes that are reported for a range.
MOST_ERRORS: Final = 5
MOST_DISKS: Final = 20
MOST_WRITERS: Final = 4_096
#: Number of characters of an error line that are kept.
MOST_TEXT: Final = 300
_LINE_BYTES: Final = 2_000


def observe(parsed: Parsed, read: Callable[[int, int], bytes]) -> dict[str, Any]:
    """The observation of one parsed range.

    Args:
        parsed: the range, as ``parse`` left it.
        read: gives bytes of the file at an offset, as in ``columns.parquet``.

    Returns:
        In the order of the lines; times in ns UTC, None if a line has none.
        ``counters``: message -> rows of the count, its time, the stage that a line announced since the row before, and
        whether it is the last one planned; ``losses``: iteration and loss (None: not finite) of the same lines;
        ``stage`` at the end and its time; ``announced``: the stages after the last count; ``errors``: signature,
        category, title, text, at; ``tallies`` of error lines and of lines about retries; ``disks``: name and percent;
        ``writers``: nodes; ``lines``: their number.
    """
    if parsed.columns is None or parsed.uniques is None:
        return nothing()
    uniques = pl.read_parquet(parsed.uniques)
    columns = pl.read_parquet(parsed.columns, columns=["line", "offset", "length", "masked", "time", "level", "source"])
    marks = columns.join(stages.mark(uniques), on="masked").sort("line").select("line", "stage", "is_end", "time")
    counters, losses, counted_at = _counters(uniques, columns, marks, read)
    stage, stage_at = _stage(marks, counted_at)
    return {
        "lines": columns.height,
        "counters": counters,
        "losses": losses,
        "stage": stage,
        "stage_at": stage_at,
        "announced": _announced(marks.filter(pl.col("line") > counted_at)),
        "errors": _errors(uniques, columns),
        "tallies": _tallies(uniques),
        "disks": _disks(uniques, columns, read),
        "writers": _writers(parsed, columns),
    }


def _texts(rows: pl.DataFrame, read: Callable[[int, int], bytes]) -> Iterator[str]:
    """The lines of rows; of an overwritten progress bar what is visible."""
    for offset, length in rows.select("offset", "length").iter_rows():
        yield read(offset, min(length, _LINE_BYTES)).decode("utf-8", "replace").rstrip("\r\n").rsplit("\r", 1)[-1]


def _counters(
    uniques: pl.DataFrame, columns: pl.DataFrame, marks: pl.DataFrame, read: Callable[[int, int], bytes]
) -> tuple[dict[str, list[list[Any]]], list[list[Any]], int]:
    """The counters of each message, the losses beside them, and the last line with a counter."""
    wanted = [m for m, example in uniques.select("masked", "example").iter_rows() if progress.names_counter(example)]
    if not wanted:
        return {}, [], 0
    rows = columns.filter(pl.col("masked").is_in(pl.Series(wanted, dtype=pl.UInt64).implode())).tail(MOST_LINES)
    announced = _begins(marks).select("line", "stage").rows()
    found: dict[str, list[list[Any]]] = {}
    losses: list[list[Any]] = []
    last, place = 0, 0
    stage: str | None = None
    read_loss = words.regex("watched", "loss")
    for (line, masked, at), text in zip(
        rows.select("line", "masked", "time").iter_rows(), _texts(rows, read), strict=True
    ):
        while place < len(announced) and announced[place][0] < line:
            stage, place = announced[place][1], place + 1
        if not (counted := progress.counter(text)):
            continue
        found.setdefault(f"{counted[0]} {masked:x}", []).append([counted[1], at, stage, _is_last(text)])
        last, stage = line, None
        if loss := read_loss.search(text):
            value = float(loss.group(1))
            losses.append([counted[1], value if math.isfinite(value) else None])
    return found, losses, last


def _is_last(text: str) -> bool:
    """Whether the line states a count that is the planned end: ``iteration 900/900``."""
    planned = words.regex("watched", "planned").search(text)
    return planned is not None and planned.group(1) == planned.group(2)


def _begins(marks: pl.DataFrame) -> pl.DataFrame:
    return marks.filter(~pl.col("is_end") & (pl.col("stage") != "training"))


def _announced(marks: pl.DataFrame) -> list[str]:
    return [str(stage) for stage in _begins(marks)["stage"].unique(maintain_order=True).to_list()]


def _stage(marks: pl.DataFrame, counted_at: int) -> tuple[str | None, int | None]:
    """The stage at the end of the range: the stage that the last marker begins; training if it ends one, or if steps
    follow.
    """
    if marks.is_empty():
        return None, None
    line, stage, is_end, at = marks.row(-1)
    if counted_at > line and not is_end:
        return "training", at
    return (stages.after_end(stage, trained=True) if is_end else str(stage)), at


def _errors(uniques: pl.DataFrame, columns: pl.DataFrame) -> list[dict[str, Any]]:
    rules = signatures.load()
    hits = rules.match(uniques).filter((pl.col("role") == Role.ROOT.value) & (pl.col("strength") == "decisive"))
    if hits.is_empty():
        return []
    first = columns.join(hits, on="masked").filter(pl.col("level") != Level.DEBUG.value).sort("line")
    first = first.unique("signature", keep="first", maintain_order=True).head(MOST_ERRORS)
    texts = dict(uniques.select("masked", "example").iter_rows())
    out = []
    for masked, signature, category, at in first.select("masked", "signature", "category", "time").iter_rows():
        rule = rules.rule(signature)
        title = rule.title if rule is not None else signature
        text = str(texts[masked])[:MOST_TEXT]
        out.append({"signature": signature, "category": category, "title": title, "text": text, "at": at})
    return out


def _tallies(uniques: pl.DataFrame) -> dict[str, int]:
    spoken = uniques.filter(pl.col("level") != Level.DEBUG.value)
    again = spoken.filter(pl.col("example").str.contains(words.pattern("watched", "retry")))
    errors = spoken.filter(pl.col("level") >= Level.ERROR.value)
    return {"errors": int(errors["count"].sum()), "retries": int(again["count"].sum())}


def _disks(uniques: pl.DataFrame, columns: pl.DataFrame, read: Callable[[int, int], bytes]) -> list[list[Any]]:
    percents = uniques.filter(pl.col("example").str.contains("%", literal=True)).select("masked", "example").rows()
    states_use = words.regex("watched", "disk")
    wanted = [masked for masked, example in percents if states_use.search(example[:_LINE_BYTES])]
    if not wanted:
        return []
    rows = columns.filter(pl.col("masked").is_in(pl.Series(wanted, dtype=pl.UInt64).implode())).tail(MOST_DISKS)
    out = []
    for text in _texts(rows, read):
        if (found := states_use.search(text)) and float(found.group(2)) <= 100:
            path = found.group(1) or next(iter(re.findall(r"(?<!\S)/[\w./-]*", text)), "")
            out.append([path[:200], float(found.group(2))])
    return out


def _writers(parsed: Parsed, columns: pl.DataFrame) -> list[str]:
    names = {parsed.sources[n].node for n in columns["source"].unique().to_list() if n < len(parsed.sources)}
    return sorted(name for name in names if name)[:MOST_WRITERS]
