"""Which errors were caught, or survived by training, and are no cause (L4, section 3.4): the one
place that decides it, :func:`survived_events`. What it asks of tracebacks alone is in
:mod:`tracebacks`, what another launch wrote in :mod:`launches`.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.causes import launches, not_finite, tracebacks
from diagnosis.kinds.logs.causes.failure_facts import Facts, slowdown_window
from diagnosis.kinds.logs.meaning.catalogue import PLAIN, Catalogue, event_starts
from diagnosis.knowledge import words
from diagnosis.model import Level, Role

THRESHOLDS: Final = thresholds.of("survived")
#: The lines above a traceback that the interpreter itself or its logging caught, and above one that
#: ended a thread only.
IGNORED: Final = ("Exception ignored in", "--- Logging error ---")
IN_THREAD: Final = "Exception in thread "
#: Categories of what a program does wrong, not what it computes.
_OF_THE_PROGRAM: Final = r"^(?:framework|user\.(?:code|config|data|environment))"
#: Words for problems; a message of a program that it goes on in spite of one.
EXIT_NOTICE: Final = words.pattern("phrases", "exit_notice")
OUTPUT_FOLLOWS: Final = words.pattern("phrases", "output_follows")


def survived_events(facts: Facts) -> tuple[frozenset[int], frozenset[int]]:
    """Events that training survived, and those without a time, where this is unknown. In a job that
    nothing ends, the latter count as survived.
    """
    catalogue, pace = facts.catalogue, facts.pace
    events = catalogue.events
    over = launches.errors_of_other_programs(catalogue) | launches.errors_before_ranks(catalogue)
    over |= launches.followed_commands(catalogue)
    over |= launches.errors_of_earlier_files(catalogue, facts.progress, facts.clocks)
    over |= withdrawn_complaints(facts)
    over |= lines_of_progress(facts)
    for head in IGNORED:
        over |= exceptions_below(catalogue, head)
    survived = set(events.filter(recovered_events(facts))["event"].to_list())
    survived |= over
    caught = caught_errors(catalogue) | tracebacks.habitual_errors(catalogue)
    # without a time, and the last time before it is earlier than the last progress: training may
    # have survived it
    is_undated = ~pl.col("is_stamped") & (pl.col("last_at") < pl.lit(pace.last_at, pl.Int64))
    undated = set(events.filter(is_undated)["event"].to_list()) - survived
    is_fatal = pl.col("role").is_null() & (pl.col("level") == Level.FATAL)
    ends = events.filter(
        (pl.col("role").is_in([Role.CASCADE, Role.TEARDOWN]) | pl.col("is_exception") | is_fatal)
        & ~pl.col("is_ordinary")
        & (pl.col("jobs_with_it") == 0)
        & ~pl.col("event").is_in(sorted(survived | caught))
    )
    stopped = _since_a_stop(catalogue, survived)
    if stopped.issuperset(ends["event"]) and (facts.is_complete or pace.slow_from is None):
        survived |= (undated | caught | wrote_on(catalogue, facts.is_complete)) - stopped
        undated = set()
    if pace.is_even and pace.last_at is not None:
        # a complaint that something is slow, before the last progress, had no effect
        is_slowness = pl.col("category").fill_null("").str.starts_with("performance.")
        is_before = ~(pl.col("first_at") > pace.last_at).fill_null(False) if ends.height else True
        survived |= set(events.filter(is_slowness & is_before)["event"].to_list())
    if pace.slow_from is not None and pace.slow_at is not None:
        # an event that began when the job became slow was not survived: the job is still slow
        # because of it
        near = slowdown_window(pace)
        is_near = pl.col("first_at").is_between(pace.slow_at - near, pace.slow_at + near)
        since = events.filter(is_near | pl.col("event").is_in(sorted(undated)))
        survived -= set(since["event"].to_list())
    if facts.is_complete:
        # a loss that is not a number ends no training that came to its planned end
        survived |= not_finite.lasting_events(facts)
    told_above = told_above_the_output(catalogue)
    return frozenset((survived | over) - told_above), frozenset(undated - told_above)


def _since_a_stop(catalogue: Catalogue, survived: Set[int]) -> set[int]:
    """The stops from outside and all events since: no error ended the job. O(events)."""
    events = catalogue.events.with_columns(began=event_starts(catalogue))
    is_stop = catalogue.is_stop & (pl.col("role") == Role.TEARDOWN)
    is_new = (pl.col("jobs_with_it") == 0) & ~pl.col("event").is_in(sorted(survived))
    at = events.filter(is_stop & is_new)["began"].min()
    is_after = pl.col("began") >= pl.lit(at, pl.Int64)
    return set(events.filter((is_stop & is_new) | is_after.fill_null(False))["event"].to_list())


def recovered_events(facts: Facts) -> pl.Series:
    """For each event whether training went on after its last line: later progress demotes an
    earlier error.

    A line without a time may be much later than the last time before it: only the next time is an
    upper bound.
    """
    catalogue = facts.catalogue
    if facts.progress.points.is_empty():
        return _went_on_preparing(catalogue, facts.marks)
    times = facts.pace.points["at"].drop_nulls().sort()
    # a tried import, a repeated connection: every writer of it made progress later. Without any times the order of
    # lines in the file that shows progress holds for its other writers, too
    writer = ("file", "source") if times.len() else ("file",)
    written = facts.progress.points.sort("file", "line").group_by(writer)
    edges = written.agg(edge=pl.col("line").tail(THRESHOLDS.survived_points).min(), points=pl.len())
    is_over = writers_went_on(catalogue, edges.filter(pl.col("points") >= THRESHOLDS.survived_points), writer)
    if times.len() <= THRESHOLDS.survived_points:
        return is_over
    edge = int(times[-THRESHOLDS.survived_points])
    is_before = (catalogue.events["until_at"] < edge).fill_null(False)
    if not is_before.any():
        return is_over
    below = _below_the_last_progress(facts)
    return is_over | (is_before & ~catalogue.events["event"].is_in(below))


def _below_the_last_progress(facts: Facts) -> list[int]:
    """The events that stand below the last step of the job in its file: whatever time the next line
    states, perhaps of another zone, nobody went on after them. O(occurrences).
    """
    points = facts.progress.points
    last = points.filter(pl.col("n") == facts.progress.last).group_by("file")
    ends = last.agg(step_line=pl.col("line").max())
    below = facts.catalogue.occurrences.join(ends, on="file")
    return below.filter(pl.col("first_line") > pl.col("step_line"))["event"].unique().to_list()


def writers_went_on(catalogue: Catalogue, edges: pl.DataFrame, writer: Sequence[str] = ("file", "source")) -> pl.Series:
    """For each event whether all writers of it wrote on: their ``edges`` (the line ``edge`` of a
    ``writer``) come after its last line. By the order of lines, without clocks. O(occurrences).
    """
    if edges.is_empty():
        return pl.repeat(False, catalogue.events.height, dtype=pl.Boolean, eager=True)
    occurrences, ends = catalogue.occurrences, edges[["edge", *writer]]
    writers = pl.DataFrame([occurrences[name] for name in writer])
    written = writers.join(ends, on=list(writer), how="left", maintain_order="left")
    is_over = occurrences["last_line"].to_numpy() < written["edge"].to_numpy()  # no edge: NaN
    of, events = occurrences["event"].to_numpy(), catalogue.events["event"].to_numpy()
    lines, over = (np.bincount(part, minlength=events.max(initial=0) + 1)[events] for part in (of, of[is_over]))
    return pl.Series((lines > 0) & (over == lines))


def _last_lines(occurrences: pl.DataFrame) -> pl.DataFrame:
    """The last of these lines of each writer, as ``edge``."""
    return occurrences.group_by("file", "source").agg(edge=pl.col("last_line").max())


def _went_on_preparing(catalogue: Catalogue, marks: pl.DataFrame) -> pl.Series:
    """For each exception, and each line without a rule, whether every writer of it went on to a
    later step of its preparations: it was caught. So was a complaint about the environment that is
    no exception, perhaps of a script, if anybody went on, later in its file or by the clock. A
    launch or a rendezvous may belong to the next run, a save may be the last step of a failing one.
    """
    steps = marks.filter(pl.col("stage").is_in(["model_build", "checkpoint_load", "training"]))
    marked, events = catalogue.occurrences.join(steps, on="masked", how="semi"), catalogue.events
    later, latest = _last_lines(marked), marked.filter("is_stamped")["first_at"].max()
    by_file = writers_went_on(catalogue, later.group_by("file").agg(pl.col("edge").max()), ("file",))
    by_file |= events.select((pl.col("until_at") < pl.lit(latest, pl.Int64)).fill_null(False)).to_series()
    is_of_script = events["category"].str.starts_with("user.environment").fill_null(False) & ~events["is_exception"]
    is_final = events["event"].is_in(list(tracebacks.last_exceptions(catalogue)))
    is_caught = (events["is_exception"] & ~is_final) | events["signature"].is_null()
    return (writers_went_on(catalogue, later) & is_caught) | (by_file & is_of_script)


def wrote_on(catalogue: Catalogue, is_complete: bool) -> set[int]:
    """Errors after which each of their writers printed several new ordinary messages: those without
    a rule, and of a job that came to its planned end what the program says of itself, too. A rank
    is one writer, in whatever forms of lines it names itself. O(occurrences).
    """
    events = catalogue.events
    is_error = pl.col("role").is_null()
    if is_complete:
        is_own = pl.col("category").str.contains(_OF_THE_PROGRAM).fill_null(False)
        is_error |= is_own & ~pl.col("is_system")
    fresh = catalogue.occurrences_of(PLAIN)
    is_over = _has_fresh_lines(catalogue, fresh, ("file", "source"))
    is_over |= _has_fresh_lines(catalogue, fresh.drop_nulls("rank"), ("file", "rank"))
    return set(events.filter(is_over & is_error & ~pl.col("is_exception"))["event"].to_list())


def _has_fresh_lines(catalogue: Catalogue, fresh: pl.DataFrame, writer: Sequence[str]) -> pl.Series:
    """For each event whether each ``writer`` of it began several of these ``fresh`` ones later."""
    edge = pl.col("first_line").top_k(THRESHOLDS.survived_points).min()
    is_several = pl.col("n") >= THRESHOLDS.survived_points
    edges = fresh.group_by(writer).agg(edge=edge, n=pl.len()).filter(is_several)
    return writers_went_on(catalogue, edges, writer)


def caught_errors(catalogue: Catalogue) -> set[int]:
    """Errors that their program says it handled. It printed an exception as a warning, with the
    level on the line itself; Python showed a warning, which ends nothing; or its file goes on with
    several new ordinary lines after a warning, after a message of what it does instead, or after an
    exception that it logged as a record.
    O(occurrences).
    """
    is_warning = pl.col("level").is_between(Level.DEBUG, Level.WARNING) & ~pl.col("is_system")
    is_warned = is_warning & pl.col("is_exception") & pl.col("is_stamped")
    is_warned |= pl.col("is_tolerated") & pl.col("example").str.contains("Warning: ", literal=True)
    is_notice = (is_warning | pl.col("is_tolerated")) & ~pl.col("is_exception")
    is_logged = pl.col("event").is_in(_logged_exceptions(catalogue))
    says_why = pl.col("role").is_null() & pl.col("is_stamped") & is_logged.any()
    events = catalogue.events
    went_on = events.filter(is_notice | is_logged | says_why, _goes_on(catalogue, events))["event"]
    return {*events.filter(is_warned)["event"], *went_on}


def _goes_on(catalogue: Catalogue, events: pl.DataFrame) -> pl.Series:
    """For each event whether its file has several ordinary lines after its last line: new ones, or
    those of work that went on before the first exception, too. O(occurrences).
    """
    is_bad = pl.col("is_structure") | pl.col("is_ill") | catalogue.says(EXIT_NOTICE)
    is_work = PLAIN & ~is_bad & (pl.col("template") != "")
    plain = catalogue.occurrences_of(is_work)
    lines = plain.select("file", "first_line", "n").sort("file", "first_line", descending=[False, True])
    after = lines.with_columns(after=pl.col("n").cum_sum().over("file"))
    edges = after.filter(pl.col("after") >= THRESHOLDS.survived_points)
    edge = edges.group_by("file").agg(edge=pl.col("first_line").max())
    raised = catalogue.occurrences_of(pl.col("is_exception"))
    raised_lines = raised.group_by("file").agg(raised_line=pl.col("first_line").min())
    steady = _steady_edges(plain.join(raised_lines, on="file").filter(pl.col("first_line") < pl.col("raised_line")))
    return writers_went_on(catalogue, edge, ("file",)) | writers_went_on(catalogue, steady, ("file",))


def _steady_edges(occurrences: pl.DataFrame) -> pl.DataFrame:
    """For each file the line after which a message is printed several times more."""
    repeated = occurrences.filter(pl.col("n") >= 2 * THRESHOLDS.survived_points)
    apart = (pl.col("last_line") - pl.col("first_line")) / (pl.col("n") - 1)
    edge = pl.col("last_line") - (THRESHOLDS.survived_points - 1) * apart
    return repeated.group_by("file").agg(edge=edge.max())


def _logged_exceptions(catalogue: Catalogue) -> list[int]:
    """Exceptions that a program logged: each states its own time and level, or all their tracebacks
    begin in a record with a time and a level. O(occurrences).
    """
    events = catalogue.events
    is_record = pl.col("is_stamped") & (pl.col("level") > Level.NONE)
    is_head = (pl.col("signature") == tracebacks.HEAD) & is_record
    heads = catalogue.occurrences_of(is_head)
    records = events.filter(pl.col("is_exception") & is_record)["event"].to_list()
    if heads.is_empty():
        return records
    first = heads.group_by("file", "source").agg(head=pl.col("first_line").min(), heads=pl.col("n").sum())
    raised = catalogue.occurrences_of(pl.col("is_exception") & ~pl.col("is_stamped"))
    own = raised.join(first, on=["file", "source"], how="left")
    is_behind = (pl.col("head") < pl.col("first_line")) & (pl.col("n") <= pl.col("heads"))
    logged = own.group_by("event").agg(is_so=is_behind.fill_null(False).all())
    return [*logged.filter("is_so")["event"], *records]


def exceptions_below(catalogue: Catalogue, head: str) -> set[int]:
    """Exceptions all of whose tracebacks stand below a line with these words, and not below the end
    of a process, which another program follows. O(occurrences).
    """
    is_head = pl.col("example").str.contains(head, literal=True) & ~pl.col("is_exception")
    heads = catalogue.occurrences_of(is_head)
    if heads.is_empty() or not catalogue.events["is_exception"].any():
        return set()
    own = catalogue.occurrences_of(pl.col("is_exception"))
    said = heads.group_by("file", "source").agg(
        head_first=pl.col("first_line").min(),
        head_last=pl.col("last_line").max(),
        heads=pl.col("n").sum(),
    )
    ended = catalogue.occurrences_of(pl.col("role") == Role.TEARDOWN)
    ends = ended.group_by("file").agg(end_line=pl.col("last_line").max())
    is_each_below = _is_below_a_head("first_line") & _is_below_a_head("last_line")
    is_other = pl.col("end_line").is_between("head_last", "first_line", closed="none")
    is_below = is_each_below & (pl.col("n") <= pl.col("heads")) & ~is_other.fill_null(False)
    placed = own.join(said, on=["file", "source"], how="left").join(ends, on="file", how="left")
    below = placed.group_by("event").agg(is_below=is_below.fill_null(False).all())
    return set(below.filter("is_below")["event"].to_list())


def _is_below_a_head(line: str) -> pl.Expr:
    """Whether a line is in the traceback that begins at the first or at the last head."""
    at = pl.col(line).cast(pl.Int64)
    below = [at - pl.col(head).cast(pl.Int64) for head in ("head_first", "head_last")]
    return pl.any_horizontal(lines.is_between(1, THRESHOLDS.traceback) for lines in below)


def told_above_the_output(catalogue: Catalogue) -> set[int]:
    """Events of a report of the job's end that stands above the output of the job. O(occurrences)."""
    follows = catalogue.occurrences_of(pl.col("example").str.contains(OUTPUT_FOLLOWS))
    if follows.is_empty():
        return set()
    ends = follows.select("file", until="first_line")
    above = catalogue.occurrences.join(ends, on="file").filter(pl.col("last_line") < pl.col("until"))
    return set(above["event"].to_list())


def withdrawn_complaints(facts: Facts) -> set[int]:
    """Complaints that each of their writers withdrew later: "server OK" after "not responding"."""
    catalogue, found = facts.catalogue, set[int]()
    events = catalogue.events
    said = set(events["signature"].drop_nulls())
    for rule in facts.rules.signatures:
        if rule.ends and rule.id in said:
            back = _last_lines(catalogue.occurrences_of(pl.col("signature") == rule.id))
            is_over = writers_went_on(catalogue, back) & events["signature"].is_in(rule.ends)
            found |= set(events.filter(is_over)["event"].to_list())
    return found


def lines_of_progress(facts: Facts) -> set[int]:
    """Events whose messages count the iterations: what stands in each of them measures the job, and
    ends none ("stall 0.02 s"). A loss that is not a number is told by :mod:`not_finite`. One line
    alone may be a bar with an error behind it.
    """
    counting = facts.progress.points["masked"]
    again = counting.filter(counting.is_duplicated()).unique().implode()
    masked = facts.catalogue.of.filter(pl.col("masked").is_in(again))
    is_of_numbers = (pl.col("category") == not_finite.CATEGORY).fill_null(False)
    events = facts.catalogue.events.filter(~is_of_numbers)
    return set(events.join(masked, on="event", how="semi")["event"].to_list())
