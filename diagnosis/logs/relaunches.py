"""Launches one after another in one file of one process, as ``nohup … >> train.log`` writes them: what ended an earlier
launch is not why the last one failed.

No line says so. But a process ends once: if it prints an error, then begins again with what it had printed at its
beginning, and then prints another error, the first error is of an earlier launch, or the program survived it. And a
command of the script that fails, while other programs go on, ended nothing.
"""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from diagnosis import thresholds
from diagnosis.logs.catalogue import STRUCTURE, Catalogue
from diagnosis.model import Level, Role

AT: Final = thresholds.of("relaunches")
#: the rule for commands of scripts, which most scripts survive
_COMMAND: Final = "shell.command"


def of_earlier_launches(catalogue: Catalogue) -> set[int]:
    """Events that end a process, and after which each of their files shows a further launch. Only files of one process
    count: in a file of many ranks the others still begin while the first one fails. O(cells of a file × ``ends``), for
    at most ``files`` files with errors: in larger jobs the times of many writers show a restart.
    """
    cells = catalogue.cells
    by_file = cells.group_by("file").agg(ranks=pl.col("rank").drop_nulls().n_unique(), nodes=pl.col("node").n_unique())
    alone = by_file.filter((pl.col("ranks") <= 1) & (pl.col("nodes") <= 1))["file"]
    rows = (
        cells.filter(pl.col("file").is_in(alone.implode()))
        .group_by("file", "event")
        .agg(pl.col("first_line").min(), pl.col("last_line").max(), pl.col("n").sum())
        .join(_kinds(catalogue.events), on="event")
    )
    files = rows.filter(pl.col("is_end").any().over("file"))
    if files.is_empty() or files["file"].n_unique() > AT.files:
        return set()
    found = pl.concat(_of_file(file) for file in files.partition_by("file"))
    written = cells.group_by("event").agg(files=pl.col("file").n_unique())
    everywhere = found.group_by("event").len("over").join(written, on="event").filter(pl.col("over") == pl.col("files"))
    return set(everywhere["event"].to_list())


def _kinds(events: pl.DataFrame) -> pl.DataFrame:
    """Which events end a process (``is_end``), and which are ordinary lines (``is_plain``)."""
    is_error = pl.col("is_exception") & pl.col("role").is_null()
    is_root = (pl.col("role") == Role.ROOT.value) | (
        (pl.col("own_role") == Role.ROOT.value) & (pl.col("role") == Role.CASCADE.value)
    )
    is_plain = pl.col("role").is_null() & ~pl.col("is_exception") & (pl.col("level") <= Level.WARNING.value)
    return events.select(
        "event",
        is_end=is_error | is_root,
        is_plain=is_plain & ~pl.col("template").str.contains(STRUCTURE),
        is_command=(pl.col("signature") == _COMMAND).fill_null(False),
    )


def _of_file(rows: pl.DataFrame) -> pl.DataFrame:
    """``event`` of each end in one file that another launch follows, and of each command that other programs follow."""
    ends = rows.filter("is_end").sort("last_line", "event").tail(AT.ends)
    last = ends.row(-1, named=True)
    plain = rows.filter("is_plain")
    # a launch prints its beginning a few times, once by each of its programs: what is printed more often is a loop's
    first = plain.filter(pl.col("n") <= AT.beginning * (ends["n"].sum() + 1))
    found: list[int] = []
    is_earlier = False
    for end in reversed(ends.rows(named=True)):
        before = plain.filter(pl.col("first_line") < end["first_line"])
        after = plain.filter(pl.col("last_line") > end["last_line"])
        if end["event"] == last["event"]:
            is_earlier = _begins_again(end, first)
        else:
            until = pl.col("last_line").is_between(end["last_line"], last["first_line"], closed="none")
            again = first.filter(until & (pl.col("first_line") < end["first_line"]))
            is_other = before.height < AT.again and plain.filter(until).height >= AT.fresh
            is_earlier = is_earlier or again.height >= AT.again or is_other
        if is_earlier or (end["is_command"] and after.height >= AT.fresh):
            found.append(end["event"])
    return pl.DataFrame({"event": found}, schema={"event": rows.schema["event"]}).unique()


def _begins_again(end: dict[str, Any], first: pl.DataFrame) -> bool:
    """Whether most of what was printed before the last error is printed again after it: a further launch, which no
    error has ended so far. What is printed at the end of a program repeats little of its beginning.
    """
    before = first.filter(pl.col("first_line") < end["first_line"])
    again = before.filter(pl.col("last_line") > end["last_line"])
    return bool(again.height >= AT.again and again.height >= AT.most * before.height)
