"""Reads one range of a growing log: counters, the stage, decisive errors. Linear in the range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import polars as pl

from diagnosis.logs import progress, signatures, stages
from diagnosis.model import Level, Parsed, Role

#: Maximum number of lines with a counter that are read: the last ones of a range.
MOST_LINES: Final = 400
#: Maximum number of errors that are reported for a range.
MOST_ERRORS: Final = 5
#: Number of characters of an error line that are kept.
MOST_TEXT: Final = 300


def observe(parsed: Parsed, read: Callable[[int, int], bytes]) -> dict[str, Any]:
    """The observation of one parsed range.

    Args:
        parsed: the range, as ``parse`` left it.
        read: gives bytes of the file at an offset, as in ``columns.parquet``.

    Returns:
        ``{"lines": n, "counters": {message: [[n, at], …]}, "stage": str | None, "errors": [{"signature", "category",
        "title", "text", "at"}]}``; counters in the order of the lines; ``at`` in ns UTC, None if a line has no time.
    """
    if parsed.columns is None or parsed.uniques is None:
        return {"lines": 0, "counters": {}, "stage": None, "errors": []}
    uniques = pl.read_parquet(parsed.uniques)
    columns = pl.read_parquet(parsed.columns, columns=["line", "offset", "length", "masked", "time", "level"])
    counters, counted_at = _counters(uniques, columns, read)
    return {
        "lines": columns.height,
        "counters": counters,
        "stage": _stage(uniques, columns, counted_at),
        "errors": _errors(uniques, columns),
    }


def _counters(
    uniques: pl.DataFrame, columns: pl.DataFrame, read: Callable[[int, int], bytes]
) -> tuple[dict[str, list[list[int | None]]], int]:
    """The counters of each message, and the last line with one."""
    wanted = [m for m, example in uniques.select("masked", "example").iter_rows() if progress.names_counter(example)]
    if not wanted:
        return {}, 0
    rows = columns.filter(pl.col("masked").is_in(pl.Series(wanted, dtype=pl.UInt64).implode())).tail(MOST_LINES)
    found: dict[str, list[list[int | None]]] = {}
    last = 0
    for line, masked, offset, length, at in rows.select("line", "masked", "offset", "length", "time").iter_rows():
        text = read(offset, min(length, 2_000)).decode("utf-8", "replace").rsplit("\r", 1)[-1]
        if counted := progress.counter(text):
            found.setdefault(f"{counted[0]} {masked:x}", []).append([counted[1], at])
            last = line
    return found, last


def _stage(uniques: pl.DataFrame, columns: pl.DataFrame, counted_at: int) -> str | None:
    """The stage at the end of the range: the stage that the last marker begins; training if it ends one, or if steps
    follow.
    """
    marked = stages.mark(uniques)
    last = columns.join(marked, on="masked").sort("line").tail(1)
    if last.is_empty():
        return None
    line, stage, is_end = last.select("line", "stage", "is_end").row(0)
    if counted_at > line and not is_end:
        return "training"
    return stages.after_end(stage, trained=True) if is_end else str(stage)


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
