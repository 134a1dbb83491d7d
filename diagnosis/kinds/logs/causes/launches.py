"""Which lines another launch of the job, or another program, wrote: the one place that decides it
within files (of whole files: ``decide.attempts``).

Launches follow one another in one file of one process, as ``nohup … >> train.log`` writes them:
only the last counts. No line says so. But a launch prints its beginning once. If much of a file's beginning is printed
again after progress or an error, another launch begins there, unless the counter goes on: then it
is a loop. A file's lines before its last launch are left out of everything
(:meth:`diagnosis.kinds.logs.rows.events.LogTable.since`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy.typing as npt
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.meaning.catalogue import UNKNOWN_EXCEPTION, Catalogue
from diagnosis.kinds.logs.pace.progress import Progress
from diagnosis.kinds.logs.rows.clocks import Clocks
from diagnosis.model import Level, Role
from diagnosis.values import stats

THRESHOLDS: Final = thresholds.of("launches")
LIMITS: Final = thresholds.limits("launches")
#: the rule for commands of scripts, which most scripts survive, as they do a refused step
_COMMAND: Final = "shell.command"
_REFUSALS: Final = (_COMMAND, "slurm.launch")
#: Lines that no rule knows, warnings among them.
_IS_CALM: Final = pl.col("role").is_null() & ~pl.col("is_exception") & (pl.col("level") <= Level.WARNING)
#: a progress bar, which is drawn again where it is closed
BAR: Final = r"(?:\?|\d) ?(?:it/s|s/it)\]"


class Restart(msgspec.Struct, frozen=True):
    """A process ended badly after counter ``last``, which it reached at ``at`` (ns as written, may
    be None); then its job counted again from ``first``, which is lower.
    """

    at: int | None
    last: int
    first: int


def last_launches(catalogue: Catalogue, progress: Progress) -> dict[int, int]:
    """The line at which the last launch of a file begins, of files of one process that show
    several. Files of many ranks are left out: the others still begin while the first one fails.
    O(occurrences).
    """
    told = catalogue.of.filter(pl.col("masked").is_in(progress.points["masked"].unique().implode()))["event"]
    is_point = pl.col("event").is_in(told.implode())
    # a beginning comes before the first step and the first end: summaries of ends repeat lines too
    is_over = is_point | pl.col("is_end") | pl.col("is_bad_end")
    until = pl.col("first_line").filter(is_over).min().over("file").fill_null(2**32 - 1)
    rows = _file_events(catalogue).with_columns(
        is_early=pl.col("is_plain") & ~is_point & (pl.col("first_line") < until)
    )
    is_again = pl.col("is_early") & (pl.col("last_line") > pl.col("first_line"))
    again = rows.filter(is_again.sum().over("file") >= THRESHOLDS.again).sort("file", "first_line", "event")
    found = {}
    for mine in again.partition_by("file"):
        file = int(mine["file"][0])
        early = mine.filter("is_early").head(THRESHOLDS.lines).select("first_line", "last_line", "n").to_numpy()
        points = progress.points.filter(pl.col("file") == file).sort("line")
        ends = mine.filter(pl.col("is_end") | pl.col("is_stopped"))
        has_peers = len(catalogue.nodes) > 1
        for line in _repetitions(early):
            begins = _is_launch(line, ends, points, has_peers)
            if begins and not _is_epilogue(line, mine, points):
                found[file] = line
                break
    # machines that begin alike begin again together
    theirs = rows.filter("is_early", pl.col("file").is_in(list(found)))["event"].unique()
    begun = rows.filter("is_early", pl.col("event").is_in(theirs.implode()))["file"].n_unique()
    return {} if len(catalogue.nodes) > 1 and stats.is_minority(len(found), begun) else found


def errors_of_earlier_files(catalogue: Catalogue, progress: Progress, clocks: Clocks) -> set[int]:
    """Errors of files whose progress had ended before that of all other files began: these show a
    later launch, or the rest of the same one. O(points).
    """
    points = progress.points.drop_nulls("at")
    if points["file"].n_unique() < max(2, progress.points["file"].n_unique()):
        return set()
    # files of one time look apart where their clocks differ, but then they count from the same
    earlier = _files_before_the_last(clocks.correct(points, "at"))
    earlier = earlier or _files_before_the_last(points, is_resumed=True)
    if not earlier:
        return set()
    of_files = catalogue.occurrences.lazy().select("event", is_later=~pl.col("file").is_in(earlier))
    told = of_files.group_by("event").agg(pl.col("is_later").any())
    return set(told.filter(~pl.col("is_later")).collect()["event"].to_list())


def _files_before_the_last(points: pl.DataFrame, *, is_resumed: bool = False) -> list[int]:
    """The files whose progress ended before that of the last ones began. Files whose progress
    overlaps in time are of one launch. ``is_resumed``: only if each launch counts on from within
    the one before it.
    """
    at, n = pl.col("at"), pl.col("n")
    spans = points.group_by("file").agg(since=at.min(), until=at.max(), low=n.min(), n=pl.len())
    ordered = spans.sort("since", "file")
    is_new = (pl.col("since") > pl.col("until").cum_max().shift()).fill_null(False)
    numbered = ordered.with_columns(launch=is_new.cum_sum())
    by_launch = numbered.group_by("launch").agg(pl.col("low").min(), pl.col("n").sum())
    launches = by_launch.sort("launch")
    is_rising = bool((launches["low"].diff().drop_nulls() > 0).all())
    if launches["n"][-1] < THRESHOLDS.again or (is_resumed and not is_rising):
        return []
    return numbered.filter(pl.col("launch") < launches["launch"][-1])["file"].to_list()


def _repetitions(early: npt.NDArray[Any]) -> Iterator[int]:
    """Where the beginning of a file may be printed for the last time. A line of it is printed a few
    times by a launch, once by each of its programs; what is printed more often is a loop's, and
    what most launches do not print is no part of their beginning.
    """
    for place, (first, last, count) in enumerate(early):
        is_rare = early[:, 2] <= THRESHOLDS.beginning * count
        is_of_most = is_rare & (THRESHOLDS.beginning * early[:, 2] >= count)
        is_again = is_rare & (early[:, 0] < last) & (early[:, 1] >= last)
        shown = int(is_again[place:].sum())
        if last > first and shown >= max(THRESHOLDS.again, THRESHOLDS.most * is_of_most.sum()):
            yield int(last)


def _is_epilogue(line: int, events: pl.DataFrame, points: pl.DataFrame) -> bool:
    """Whether what is printed again belongs to the end of the same launch: a bad end is told after
    it for the first time, and neither a step nor an error that would explain that end.
    """
    later = events.filter(pl.col("last_line") > line)
    has_own = bool(later["is_end"].any()) or bool((points["line"] > line).any())
    ends = later.filter("is_bad_end")["first_line"]
    return bool((ends > line).any()) and not has_own


def _is_launch(line: int, ends: pl.DataFrame, points: pl.DataFrame, has_peers: bool) -> bool:
    """Whether a launch begins at ``line``, and no round of a loop: the counter falls back there, or
    never moves, or an error or an order to stop came after the last step before it. A restart of a
    job of several machines must reach training again: else it only shows what ended the job.
    """
    is_before = pl.col("line") < line
    before, after = points.filter(is_before), points.filter(~is_before)
    if after.is_empty() and has_peers:
        return False
    never_moves = points["n"].n_unique() == 1
    if before.height and after.height and (never_moves or after["n"][0] < before["n"][-1]):
        return True
    since = int(before["line"][-1]) if before.height else 0
    lines = pl.concat([ends["first_line"], ends["last_line"]])
    return bool(lines.is_between(since, line, closed="none").any())


def restarts(progress: Progress, bad_ends: pl.DataFrame) -> tuple[Restart, ...]:
    """Where a writer's counter falls back and one of these occurrences of a bad end stands between
    the two lines. O(points + bad ends).
    """
    if bad_ends.is_empty():
        return ()
    written = progress.points.sort("file", "line").with_columns(
        pl.col("n", "line", "at").shift().over("file", "source").name.suffix("_before")
    )
    falls = written.filter(pl.col("n") < pl.col("n_before")).head(LIMITS.restarts)
    if falls.is_empty():
        return ()
    told = bad_ends.unpivot(["first_line", "last_line"], index="file", value_name="bad_line")
    is_between = pl.col("bad_line").is_between(pl.col("line_before"), pl.col("line"), closed="none")
    first = falls.join(told, on="file").filter(is_between).sort("file", "line", "bad_line")
    once = first.unique(["file", "line"], keep="first", maintain_order=True).unique(
        ["file", "bad_line"], keep="first", maintain_order=True
    )
    return tuple(Restart(*row) for row in once.select("at_before", "n_before", "n").iter_rows())


def errors_of_other_programs(catalogue: Catalogue) -> set[int]:
    """Errors that ended another program than the last one of their files: one before anything else,
    or a command of a script that other programs follow. O(plain events × ``lines``), for at most
    ``files`` files with errors.
    """
    rows = _file_events(catalogue)
    ends = rows.filter("is_end").sort("last_line", "event").group_by("file").tail(THRESHOLDS.lines)
    if ends.is_empty() or ends["file"].n_unique() > THRESHOLDS.files:
        return set()
    pairs = ends.join(rows.filter("is_plain").select("file", begins="first_line", until="last_line"), on="file")
    shown = pairs.group_by("file", "event", "is_command", "last_line").agg(
        before=(pl.col("begins") < pl.col("first_line")).sum(), after=(pl.col("until") > pl.col("last_line")).sum()
    )
    is_last = pl.col("last_line") == pl.col("last_line").max().over("file")
    is_first = ~is_last & (pl.col("before") < THRESHOLDS.again) & (pl.col("after") >= THRESHOLDS.fresh)
    over = shown.filter(is_first | (pl.col("is_command") & (pl.col("after") >= THRESHOLDS.again)))
    written = catalogue.occurrences.group_by("event").agg(files=pl.col("file").n_unique())
    over = over.group_by("event").len("over").join(written, on="event")
    return set(over.filter(pl.col("over") == pl.col("files"))["event"].to_list())


def errors_before_ranks(catalogue: Catalogue) -> set[int]:
    """Exceptions, failed commands and refused steps that a line of no rank tells, before the ranks
    of its file begin with ordinary lines: what a wrapper says before it starts the ranks did not stop them.
    O(occurrences).
    """
    is_refusal = pl.col("signature").is_in(_REFUSALS).fill_null(False)
    is_error = pl.col("is_exception") | is_refusal
    kinds = catalogue.events.select("event", is_plain=_IS_CALM, is_error=is_error)
    ranks = catalogue.occurrences["rank"]
    if not kinds["is_error"].any() or ranks.null_count() in (0, ranks.len()):
        return set()  # no line of no rank, or no rank
    places = catalogue.occurrences.select("file", "event", "rank", "first_line", "last_line")
    occurrences = places.join(kinds, on="event")
    errors = occurrences.filter("is_error")
    of_ranks = occurrences.filter(pl.col("rank").is_not_null()).join(errors, on="file", how="semi")
    in_order = pl.col("is_plain").sort_by("first_line", "event")
    begun = of_ranks.group_by("file").agg(
        begins=pl.col("first_line").min(), is_calm=in_order.head(THRESHOLDS.calm).all()
    )
    early = errors.join(begun, on="file", how="left").with_columns(
        is_before=pl.col("is_calm") & pl.col("rank").is_null() & (pl.col("last_line") < pl.col("begins"))
    )
    over = early.group_by("event").agg(pl.col("is_before").fill_null(False).all())
    return set(over.filter("is_before")["event"].to_list())


def followed_commands(catalogue: Catalogue) -> set[int]:
    """The failed commands of scripts after which their file goes on with many ordinary messages
    that were not in it before, in a file of many processes, too. O(commands × messages).
    """
    is_command = (pl.col("signature") == _COMMAND).fill_null(False)
    failed = catalogue.events.filter(is_command)["event"]
    if failed.is_empty():
        return set()
    is_calm = pl.col("role").is_null() & ~pl.col("is_exception")
    plain = catalogue.events.filter(is_calm & (pl.col("level") <= Level.WARNING))["event"]
    places = catalogue.occurrences.select("file", "event", "first_line", "last_line")
    commands = places.filter(pl.col("event").is_in(failed.implode()))
    last = commands.group_by("file", "event").agg(pl.col("last_line").max())
    said = places.filter(pl.col("event").is_in(plain.implode()))
    begun = said.group_by("file", plain="event").agg(pl.col("first_line").min())
    after = last.join(begun, on="file", how="left")
    is_new = (pl.col("first_line") > pl.col("last_line")).fill_null(False)
    fresh = after.group_by("event", "file").agg(fresh=is_new.sum())
    followed = fresh.group_by("event").agg(least=pl.col("fresh").min())
    return set(followed.filter(pl.col("least") >= THRESHOLDS.fresh)["event"].to_list())


def _file_events(catalogue: Catalogue) -> pl.DataFrame:
    """The events of each file of one process, with whether they end it or are ordinary."""
    events, occurrences = catalogue.events, catalogue.occurrences
    by_file = occurrences.group_by("file").agg(
        ranks=pl.col("rank").drop_nulls().n_unique(), nodes=pl.col("node").n_unique()
    )
    alone = by_file.filter((pl.col("ranks") <= 1) & (pl.col("nodes") <= 1))["file"]
    is_root = (pl.col("role") == Role.ROOT) | ((pl.col("own_role") == Role.ROOT) & (pl.col("role") == Role.CASCADE))
    is_teardown = pl.col("role").eq_missing(Role.TEARDOWN)
    kinds = events.select(
        "event",
        is_end=UNKNOWN_EXCEPTION | is_root,
        is_plain=_IS_CALM & ~(pl.col("is_structure") | pl.col("is_quoted_code") | catalogue.says(BAR)),
        is_bad_end=is_teardown,
        is_stopped=is_teardown & catalogue.is_stop,
        is_command=(pl.col("signature") == _COMMAND).fill_null(False),
    )
    return (
        occurrences.filter(pl.col("file").is_in(alone.implode()))
        .group_by("file", "event")
        .agg(pl.col("first_line").min(), pl.col("last_line").max(), pl.col("n").sum())
        .join(kinds, on="event")
    )
