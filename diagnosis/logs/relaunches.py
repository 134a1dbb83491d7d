"""Launches one after another in one file of one process, as ``nohup … >> train.log`` writes them: what ended an earlier
launch is not why the last one failed.

No line says so. But a process ends once: if it prints an error, then begins again with what it had printed at its
beginning, and then prints another error, the first error is of an earlier launch, or the program survived it. And a
command of the script that fails, while other programs go on, ended nothing.
"""

from __future__ import annotations

from typing import Final

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
    # one error alone has nothing before it that could be of another launch, unless it is a command's
    is_open = (pl.col("is_end").sum() > 1) | pl.col("is_command").any()
    files = rows.filter(is_open.over("file"))
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
    found = []
    for end in ends.iter_rows(named=True):
        fresh = plain.filter(pl.col("last_line") > end["last_line"])
        if end["is_command"] and fresh.height >= AT.fresh:
            found.append(end["event"])
        if end["event"] == last["event"]:
            continue
        until = pl.col("last_line").is_between(end["last_line"], last["first_line"], closed="none")
        again = first.filter(until & (pl.col("first_line") < end["first_line"]))
        before = plain.filter(pl.col("first_line") < end["first_line"])
        if again.height >= AT.again or (before.height < AT.again and plain.filter(until).height >= AT.fresh):
            found.append(end["event"])
    return pl.DataFrame({"event": found}, schema={"event": rows.schema["event"]}).unique()
