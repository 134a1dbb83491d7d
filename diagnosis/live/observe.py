"""Reads one range of a growing log: counters, losses, stages, errors and what else the watches need.

Linear in the range.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import polars as pl

from diagnosis.live.meanings import LINE_BYTES, Meaning, meanings
from diagnosis.live.news import nothing
from diagnosis.logs import progress, signatures, stages, words, wrapped
from diagnosis.logs.encodings import decode
from diagnosis.logs.lines import overwritten
from diagnosis.model import Level, Parsed

#: Maximum number of lines with a counter that are read: the last ones of a range.
MOST_LINES: Final = 256
#: Maximum number of errors, statements about disks and nodes that are reported for a range.
MOST_ERRORS: Final = 5
MOST_DISKS: Final = 20
MOST_WRITERS: Final = 4_096
#: Stages that are kept between two counts.
MOST_ANNOUNCED: Final = 8
#: Number of characters of an error line that are kept.
MOST_TEXT: Final = 300


def observe(parsed: Parsed, read: Callable[[int, int], bytes]) -> dict[str, Any]:
    """The observation of one parsed range.

    Args:
        parsed: the range, as ``parse`` left it.
        read: gives bytes of the file at an offset, as in ``columns.parquet``.

    Returns:
        In the order of the lines; times in ns UTC, None if a line has none.
        ``counters``: message -> rows of the count, its time, what was announced since the row before, and whether it is
        the last one planned; ``losses``: iteration and loss (None: not finite) of the same lines; ``stage`` at the end
        and its time; ``announced``: stages with their times after the last count, ``training`` where one ended, each
        once in a row; ``errors``: signature, category, title, text, at; ``tallies`` of error lines and of lines about
        retries; ``disks``: name and percent; ``writers``: nodes; ``lines``: their number.
    """
    if parsed.columns is None or parsed.uniques is None:
        return nothing()
    uniques = pl.read_parquet(parsed.uniques)
    columns = pl.read_parquet(parsed.columns, columns=["line", "offset", "length", "masked", "time", "level", "source"])
    known = meanings(uniques)
    marks = _marks(known, columns)
    encoding = str(parsed.facts.get("encoding", "utf-8"))

    def texts(rows: pl.DataFrame) -> Iterator[str]:
        return _texts(rows, read, encoding)

    counters, losses, counted_at = _counters(known, columns, marks, texts)
    stage, stage_at = _stage(marks, counted_at)
    return {
        "lines": columns.height,
        "counters": counters,
        "losses": losses,
        "stage": stage,
        "stage_at": stage_at,
        "announced": [row[1:] for row in _announced(marks.filter(pl.col("line") > counted_at))][:MOST_ANNOUNCED],
        "errors": _errors(known, uniques, columns),
        "tallies": _tallies(known, uniques),
        "disks": _disks(known, columns, texts),
        "writers": _writers(parsed, columns),
    }


def _texts(rows: pl.DataFrame, read: Callable[[int, int], bytes], encoding: str) -> Iterator[str]:
    """The lines of rows, at most :data:`LINE_BYTES`; of an overwritten progress bar what is visible, of a collector's
    JSON object the message.
    """
    for offset, length in rows.select("offset", "length").iter_rows():
        text = decode(read(offset, min(length, LINE_BYTES)), encoding).rstrip("\r\n")
        text = overwritten(text) if "\r" in text else text
        yield wrapped.unwrap(text) if text.startswith("{") else text


def _rows(known: Mapping[int, Meaning], of: str, columns: pl.DataFrame) -> pl.DataFrame:
    """The lines whose message has such a meaning."""
    wanted = [masked for masked, meaning in known.items() if getattr(meaning, of)]
    if not wanted:
        return columns.clear()
    return columns.filter(pl.col("masked").is_in(pl.Series(wanted, dtype=pl.UInt64).implode()))


def _marks(known: Mapping[int, Meaning], columns: pl.DataFrame) -> pl.DataFrame:
    """The lines that begin or end a stage."""
    rows = _rows(known, "stage", columns)
    said = [known[masked] for masked in rows["masked"].to_list()]
    return rows.select("line", "time").with_columns(
        stage=pl.Series([meaning.stage for meaning in said], dtype=pl.String),
        is_end=pl.Series([meaning.is_end for meaning in said], dtype=pl.Boolean),
    )


def _counters(
    known: Mapping[int, Meaning],
    columns: pl.DataFrame,
    marks: pl.DataFrame,
    texts: Callable[[pl.DataFrame], Iterator[str]],
) -> tuple[dict[str, list[list[Any]]], list[list[Any]], int]:
    """The counters of each message, the losses beside them, and the last line with a counter."""
    rows = _rows(known, "is_counter", columns).tail(MOST_LINES)
    announced = _announced(marks)
    found: dict[str, list[list[Any]]] = {}
    losses: list[list[Any]] = []
    last, place = 0, 0
    since: list[list[Any]] = []
    read_loss = words.regex("watched", "loss")
    for (line, masked, at), text in zip(rows.select("line", "masked", "time").iter_rows(), texts(rows), strict=True):
        while place < len(announced) and announced[place][0] < line:
            since, place = [*since, announced[place][1:]][:MOST_ANNOUNCED], place + 1
        if not (counted := progress.counter(text)):
            continue
        found.setdefault(f"{counted[0]} {masked:x}", []).append([counted[1], at, since, _is_last(text)])
        last, since = line, []
        if loss := read_loss.search(text):
            value = float(loss.group(1))
            losses.append([counted[1], value if math.isfinite(value) else None])
    return found, losses, last


def _is_last(text: str) -> bool:
    """Whether the line states a count that is the planned end: ``iteration 900/900``."""
    planned = words.regex("watched", "planned").search(text)
    return planned is not None and planned.group(1) == planned.group(2)


def _announced(marks: pl.DataFrame) -> list[list[Any]]:
    """Rows of line, stage and time: the stage that a marker begins, or that follows what it ends."""
    found: list[list[Any]] = []
    for line, at, stage, is_end in marks.iter_rows():
        said = stages.after_end(stage, trained=True) if is_end else str(stage)
        if not found or found[-1][1] != said:
            found.append([line, said, at])
    return found


def _stage(marks: pl.DataFrame, counted_at: int) -> tuple[str | None, int | None]:
    """The stage at the end of the range: the stage that the last marker begins; training if it ends one, or if steps
    follow.
    """
    if marks.is_empty():
        return None, None
    line, at, stage, is_end = marks.row(-1)
    if counted_at > line and not is_end:
        return "training", at
    return (stages.after_end(stage, trained=True) if is_end else str(stage)), at


def _errors(known: Mapping[int, Meaning], uniques: pl.DataFrame, columns: pl.DataFrame) -> list[dict[str, Any]]:
    """The first line of each decisive rule."""
    rows = _rows(known, "signature", columns).filter(pl.col("level") != Level.DEBUG.value)
    if rows.is_empty():
        return []
    rules, texts = signatures.load(), dict(uniques.select("masked", "example").iter_rows())
    first: dict[str, tuple[int, int | None]] = {}
    for masked, at in rows.select("masked", "time").iter_rows():
        first.setdefault(known[masked].signature, (masked, at))
    out = []
    for signature, (masked, at) in list(first.items())[:MOST_ERRORS]:
        rule = rules.rule(signature)
        title = rule.title if rule is not None else signature
        text, category = str(texts[masked])[:MOST_TEXT], known[masked].category
        out.append({"signature": signature, "category": category, "title": title, "text": text, "at": at})
    return out


def _tallies(known: Mapping[int, Meaning], uniques: pl.DataFrame) -> dict[str, int]:
    """Counts of lines that are errors, and of lines about retries."""
    told = {"errors": 0, "retries": 0}
    for masked, level, count in uniques.select("masked", "level", "count").iter_rows():
        told["errors"] += count if level >= Level.ERROR.value else 0
        told["retries"] += count if known[masked].is_retry and level != Level.DEBUG.value else 0
    return told


def _disks(
    known: Mapping[int, Meaning], columns: pl.DataFrame, texts: Callable[[pl.DataFrame], Iterator[str]]
) -> list[list[Any]]:
    """What lines say of the use of file systems."""
    states_use = words.regex("watched", "disk")
    out = []
    for text in texts(_rows(known, "is_disk", columns).tail(MOST_DISKS)):
        if (found := states_use.search(text)) and float(found.group(2)) <= 100:
            path = found.group(1) or next(iter(re.findall(r"(?<!\S)/[\w./-]*", text)), "")
            out.append([path[:200], float(found.group(2))])
    return out


def _writers(parsed: Parsed, columns: pl.DataFrame) -> list[str]:
    names = {parsed.sources[n].node for n in columns["source"].unique().to_list() if n < len(parsed.sources)}
    return sorted(name for name in names if name)[:MOST_WRITERS]
