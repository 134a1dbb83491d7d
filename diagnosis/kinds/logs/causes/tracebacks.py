"""What the order of a writer's tracebacks tells: which of them ended its process, and which its
program prints again and again.

The interpreter ends a process with a traceback whose outermost frame is a module. A program that
catches an exception prints the frames below its own handler. So the outermost frame decides, not
the lines that follow: what a process had buffered, and what its wrapper says, comes after its end.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.meaning.catalogue import PLAIN, Catalogue
from diagnosis.model import Level

THRESHOLDS: Final = thresholds.of("tracebacks")
#: The rule for the first line of a traceback, and the frame of a module.
HEAD: Final = "code.traceback"
_MODULE_FRAME: Final = r"File .{1,300}, line \d+, in <module>"
#: What a process does that dies while it is taken down.
_CRASH: Final = "user.code.native_crash"
_WRITER: Final = ("file", "source")


def last_exceptions(catalogue: Catalogue) -> set[int]:
    """Exceptions that ended a process in each of their writers, and after which their file tells no
    other end, as of a later launch. O(occurrences).
    """
    raised = _of_events(catalogue, pl.col("is_exception"))
    ends = pl.concat([raised, _of_events(catalogue, catalogue.has("decision"))])
    last = ends.group_by("file").agg(end_line=pl.col("last_line").max())
    is_last = pl.col("last_line") == pl.col("end_line")
    alone = raised.join(last, on="file").group_by("event").agg(is_last.all())
    final = _below_a_final_head(raised, _final_heads(catalogue), "last_line")
    return final & set(alone.filter("last_line")["event"])


def crashes_of_ended(catalogue: Catalogue) -> set[int]:
    """Native crashes of processes that an exception had ended before. O(occurrences)."""
    if not (catalogue.events["category"] == _CRASH).any():
        return set()
    is_crash = pl.col("category").eq_missing(_CRASH) & ~pl.col("is_system")
    crashes = _of_events(catalogue, is_crash)
    return _below_a_final_head(crashes, _final_heads(catalogue), "first_line")


def habitual_errors(catalogue: Catalogue) -> set[int]:
    """Exceptions, and errors without a rule, of writers that print tracebacks again and again with
    as many different ordinary lines between them, except those that ended a process: a program that
    prints its third one survived two. O(occurrences).
    """
    events = catalogue.events
    if events["n"].filter(events["signature"] == HEAD).sum() < THRESHOLDS.habit:
        return set()
    heads = _of_events(catalogue, pl.col("signature").eq_missing(HEAD))
    by_writer = heads.group_by(_WRITER).agg(
        since=pl.col("first_line").min(), until=pl.col("last_line").max(), heads=pl.col("n").sum()
    )
    often = by_writer.filter(pl.col("heads") >= THRESHOLDS.habit)
    if often.is_empty():
        return set()
    is_part = pl.col("is_structure") | pl.col("is_quoted_code")
    is_ordinary = PLAIN & ~is_part
    plain = _of_events(catalogue, is_ordinary).join(often, on=_WRITER)
    between = plain.filter(pl.col("first_line").is_between("since", "until", closed="none"))
    shown = between.group_by(_WRITER).agg(lines=pl.len(), heads=pl.col("heads").first())
    went_on = shown.filter(pl.col("lines") >= pl.col("heads"))
    is_error = pl.col("role").is_null() & (pl.col("level") >= Level.ERROR)
    is_own = (pl.col("is_exception") | is_error) & ~catalogue.has("decision")
    raised = _of_events(catalogue, is_own).join(went_on.select(*_WRITER, is_habit=True), on=_WRITER, how="left")
    habit = raised.group_by("event").agg(pl.col("is_habit").fill_null(False).all())
    final = _below_a_final_head(raised, _final_heads(catalogue), "last_line")
    return set(habit.filter("is_habit")["event"]) - final


def _of_events(catalogue: Catalogue, which: pl.Expr) -> pl.DataFrame:
    """Writer, lines and number of the occurrences of the events that an expression selects."""
    return catalogue.occurrences_of(which).select(*_WRITER, "event", "first_line", "last_line", "n")


def _final_heads(catalogue: Catalogue) -> pl.DataFrame:
    """The first and the last module's frame of each writer that follows the head of a traceback."""
    frames = _of_events(catalogue, catalogue.says(_MODULE_FRAME))
    heads = _of_events(catalogue, pl.col("signature").eq_missing(HEAD))
    lines = ["first_line", "last_line"]
    of_heads = heads.unpivot(lines, index=_WRITER, value_name="head").unique([*_WRITER, "head"])
    of_frames = frames.unpivot(lines, index=_WRITER, value_name="frame").unique([*_WRITER, "frame"])
    both = of_frames.with_columns(head=pl.col("frame") - 1).join(of_heads, on=[*_WRITER, "head"])
    return both.select(*_WRITER, "head")


def _below_a_final_head(occurrences: pl.DataFrame, heads: pl.DataFrame, line: str) -> set[int]:
    """Events that stand, by this line, below such a head in each of their writers."""
    if occurrences.is_empty() or heads.is_empty():
        return set()
    apart = pl.col(line).cast(pl.Int64) - pl.col("head").cast(pl.Int64)
    is_below = apart.is_between(1, THRESHOLDS.lines).fill_null(False)
    pairs = occurrences.join(heads, on=_WRITER, how="left").with_columns(is_below=is_below)
    placed = pairs.group_by("event", *_WRITER).agg(pl.col("is_below").any())
    found = placed.group_by("event").agg(pl.col("is_below").all())
    return set(found.filter("is_below")["event"])
