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

THRESHOLDS: Final = thresholds.of("relaunches")
#: the rule for commands of scripts, which most scripts survive
_COMMAND: Final = "shell.command"


def of_earlier_launches(catalogue: Catalogue) -> set[int]:
    """Events that end a process, and after which each of their files shows a further launch. Only files of one process
    count: in a file of many ranks the others still begin while the first one fails. O(cells of a file × ``ends``), for
    at most ``files`` files with errors: in larger jobs the times of many writers show a restart.
    """
    found = [_of_file(file) for file in _files(catalogue)]
    if not found:
        return set()
    written = catalogue.cells.group_by("event").agg(files=pl.col("file").n_unique())
    over = pl.concat(found).group_by("event").len("over").join(written, on="event")
    return set(over.filter(pl.col("over") == pl.col("files"))["event"].to_list())


def begun(catalogue: Catalogue) -> pl.DataFrame:
    """``file`` and the line ``begun`` at which its last launch begins, for files of several launches: where it prints
    for the last time what it had printed before an earlier end.
    """
    found: dict[str, list[int]] = {"file": [], "begun": []}
    for rows in _files(catalogue):
        edge = rows.filter(pl.col("event").is_in(_of_file(rows)["event"].implode()))["last_line"].max()
        if edge is not None:
            ends = rows.filter("is_end").sort("last_line", "event").tail(THRESHOLDS.ends)
            is_again = _rare("n", ends) & (pl.col("first_line") < edge) & (pl.col("last_line") > edge)
            again = rows.filter(pl.col("is_plain") & is_again)["last_line"].min()
            found["file"].append(rows["file"][0])
            found["begun"].append(int(edge if again is None else again))  # type: ignore[arg-type]
    return pl.DataFrame(found, schema={"file": pl.UInt32, "begun": pl.UInt32})


def _files(catalogue: Catalogue) -> list[pl.DataFrame]:
    """The events of each file of one process that has an end, with their kinds; none where too many have one."""
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
    return files.partition_by("file") if files["file"].n_unique() <= THRESHOLDS.files else []


def _rare(count: str, ends: pl.DataFrame) -> pl.Expr:
    """Lines of a beginning: a launch prints them a few times, once by each of its programs. What is printed more often
    than the ``ends`` of a file allow is a loop's.
    """
    return pl.col(count) <= pl.lit(THRESHOLDS.beginning * (ends["n"].sum() + 1))


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
    """``event`` of each end in one file that another launch follows, and of each command that other programs follow.
    After the last end, most of what was printed before it must be printed again: no error has ended that launch so
    far, and the end of a program repeats little of its beginning.
    """
    ends = rows.filter("is_end").sort("last_line", "event").tail(THRESHOLDS.ends)
    is_first = _rare("n_plain", ends)
    is_before, is_after = (
        pl.col("first_line_plain") < pl.col("first_line"),
        pl.col("last_line_plain") > pl.col("last_line"),
    )
    pairs = ends.with_row_index("place").join(rows.filter("is_plain"), how="cross", suffix="_plain")
    shown = pairs.group_by("place", "event", "is_command", maintain_order=True).agg(
        before=is_before.sum(),
        after=is_after.sum(),
        begun=(is_first & is_before).sum(),
        again=(is_first & is_before & is_after).sum(),
    )
    is_last = pl.col("place") == ends.height - 1
    is_again = (pl.col("again") >= THRESHOLDS.again) & (
        ~is_last | (pl.col("again") >= THRESHOLDS.most * pl.col("begun"))
    )
    # an error before anything else is of another program
    is_other = ~is_last & (pl.col("before") < THRESHOLDS.again) & (pl.col("after") >= THRESHOLDS.fresh)
    is_earlier = (is_again | is_other).cum_max(reverse=True)
    went_on = pl.col("is_command") & (pl.col("after") >= THRESHOLDS.again)
    return shown.filter(is_earlier | went_on).select("event").unique()
