"""Analysis over time: stages and their spans, survived events (L4, section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.causes import not_finite, tracebacks
from diagnosis.kinds.logs.causes.failure_facts import Facts
from diagnosis.kinds.logs.meaning import stages
from diagnosis.kinds.logs.meaning.catalogue import Catalogue
from diagnosis.knowledge import words
from diagnosis.model import Level, Role

THRESHOLDS: Final = thresholds.of("temporal")
#: The lines above a traceback that the interpreter itself or its logging caught, and above one that
#: ended a thread only.
IGNORED: Final = ("Exception ignored in", "--- Logging error ---")
IN_THREAD: Final = "Exception in thread "
#: Categories of what a program does wrong, not what it computes.
_OF_THE_PROGRAM: Final = r"^(?:framework|user\.(?:code|config|data|environment))"
#: Words for problems; a message of a program that it goes on in spite of one.
EXIT_NOTICE: Final = words.pattern("phrases", "exit_notice")
OUTPUT_FOLLOWS: Final = words.pattern("phrases", "output_follows")


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
    return is_over | (catalogue.events["until_at"] < edge).fill_null(False)


def writers_went_on(catalogue: Catalogue, edges: pl.DataFrame, writer: Sequence[str] = ("file", "source")) -> pl.Series:
    """For each event whether all writers of it wrote on: their ``edges`` (the line ``edge`` of a
    ``writer``) come after its last line. By the order of lines, without clocks. O(occurrences).
    """
    if edges.is_empty():
        return pl.repeat(False, catalogue.events.height, dtype=pl.Boolean, eager=True)
    occurrences, ends = catalogue.occurrences, edges.select("edge", *writer)
    writers = pl.DataFrame([occurrences[name] for name in writer])
    written = writers.join(ends, on=list(writer), how="left", maintain_order="left")
    is_over = (occurrences["last_line"] < written["edge"]).fill_null(False).alias("is_over")
    by_event = pl.DataFrame([occurrences["event"], is_over])
    done = by_event.group_by("event").agg(pl.col("is_over").all())
    return catalogue.events.join(done, on="event", how="left", maintain_order="left")["is_over"].fill_null(False)


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
    is_plain = pl.col("role").is_null() & (pl.col("level") < Level.WARNING) & ~pl.col("is_exception")
    fresh = catalogue.occurrences.filter(pl.col("event").is_in(events.filter(is_plain)["event"].implode()))
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
    is_plain = pl.col("role").is_null() & (pl.col("level") < Level.WARNING) & ~pl.col("is_exception")
    is_bad = pl.col("is_structure") | pl.col("is_ill") | catalogue.says(EXIT_NOTICE)
    is_work = is_plain & ~is_bad & (pl.col("template") != "")
    places = catalogue.occurrences.select("file", "event", "first_line", "last_line", "n")
    plain = places.filter(pl.col("event").is_in(events.filter(is_work)["event"].implode()))
    lines = plain.select("file", "first_line", "n").sort("file", "first_line", descending=[False, True])
    after = lines.with_columns(after=pl.col("n").cum_sum().over("file"))
    edges = after.filter(pl.col("after") >= THRESHOLDS.survived_points)
    edge = edges.group_by("file").agg(edge=pl.col("first_line").max())
    raised = catalogue.occurrences.filter(pl.col("event").is_in(events.filter("is_exception")["event"].implode()))
    raised_lines = raised.group_by("file").agg(raised_line=pl.col("first_line").min())
    steady = _steady_edges(plain.join(raised_lines, on="file").filter(pl.col("first_line") < pl.col("raised_line")))
    return writers_went_on(catalogue, edge, ("file",)) | writers_went_on(catalogue, steady, ("file",))


def _steady_edges(occurrences: pl.DataFrame) -> pl.DataFrame:
    """For each file the line from which on one of these messages is printed several times more, by
    its mean distance.
    """
    repeated = occurrences.filter(pl.col("n") >= 2 * THRESHOLDS.survived_points)
    apart = (pl.col("last_line") - pl.col("first_line")) / (pl.col("n") - 1)
    edge = pl.col("last_line") - (THRESHOLDS.survived_points - 1) * apart
    return repeated.group_by("file").agg(edge=edge.max())


def _logged_exceptions(catalogue: Catalogue) -> list[int]:
    """Exceptions that a program logged: each states its own time and level, or all their tracebacks
    begin in a record with a time and a level. O(occurrences).
    """
    events, occurrences = catalogue.events, catalogue.occurrences
    is_record = pl.col("is_stamped") & (pl.col("level") > Level.NONE)
    is_head = (pl.col("signature") == tracebacks.HEAD) & is_record
    heads = occurrences.filter(pl.col("event").is_in(events.filter(is_head)["event"].implode()))
    records = events.filter(pl.col("is_exception") & is_record)["event"].to_list()
    if heads.is_empty():
        return records
    raised = events.filter(pl.col("is_exception") & ~pl.col("is_stamped"))["event"]
    first = heads.group_by("file", "source").agg(head=pl.col("first_line").min(), heads=pl.col("n").sum())
    own = occurrences.filter(pl.col("event").is_in(raised.implode())).join(first, on=["file", "source"], how="left")
    is_behind = (pl.col("head") < pl.col("first_line")) & (pl.col("n") <= pl.col("heads"))
    logged = own.group_by("event").agg(is_so=is_behind.fill_null(False).all())
    return [*logged.filter("is_so")["event"], *records]


def exceptions_below(catalogue: Catalogue, head: str) -> set[int]:
    """Exceptions all of whose tracebacks stand below a line with these words, and not below the end
    of a process, which another program follows. O(occurrences).
    """
    events, occurrences = catalogue.events, catalogue.occurrences
    is_head = pl.col("example").str.contains(head, literal=True) & ~pl.col("is_exception")
    telling, raised = events.filter(is_head)["event"], events.filter("is_exception")["event"]
    if telling.is_empty() or raised.is_empty():
        return set()
    heads = occurrences.filter(pl.col("event").is_in(telling.implode()))
    own = occurrences.filter(pl.col("event").is_in(raised.implode()))
    said = heads.group_by("file", "source").agg(
        head_first=pl.col("first_line").min(),
        head_last=pl.col("last_line").max(),
        heads=pl.col("n").sum(),
    )
    teardown = events.filter(role=Role.TEARDOWN)["event"]
    ended = occurrences.filter(pl.col("event").is_in(teardown.implode()))
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
    follows = catalogue.events.filter(pl.col("example").str.contains(OUTPUT_FOLLOWS))["event"]
    if follows.is_empty():
        return set()
    is_end = pl.col("event").is_in(follows.implode())
    ends = catalogue.occurrences.filter(is_end).select("file", until="first_line")
    above = catalogue.occurrences.join(ends, on="file").filter(pl.col("last_line") < pl.col("until"))
    return set(above["event"].to_list())


def withdrawn_complaints(facts: Facts) -> set[int]:
    """Events of a complaint that each of their writers withdrew later: "server OK" after "server
    not responding".
    """
    catalogue, found = facts.catalogue, set[int]()
    events = catalogue.events
    said = set(events["signature"].drop_nulls())
    for rule in facts.rules.signatures:
        if rule.ends and rule.id in said:
            ends = events.filter(pl.col("signature") == rule.id)["event"]
            back = _last_lines(catalogue.occurrences.filter(pl.col("event").is_in(ends.implode())))
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


def stage_spans(facts: Facts) -> list[tuple[str, int, int]]:
    """Stages of the whole job as (stage, from, to) in ns, from markers (first over all writers) and
    progress.
    """
    marked = facts.catalogue.occurrences.join(facts.marks, on="masked").drop_nulls("first_at")
    rows = list(marked.select("first_at", "stage", "is_end").iter_rows())
    points = facts.pace.points["at"].drop_nulls().sort()
    if points.len():
        # training goes on with the first progress after an interruption
        marks_at = pl.Series([at for at, _, _ in rows], dtype=pl.Int64)
        after = points.search_sorted(marks_at, side="right").to_list()
        going_on = {0, *after} - {points.len()}
        rows += [(int(points[place]), "training", False) for place in going_on]
    begun: list[tuple[str, int]] = []
    trained = False
    for at, stage, is_end in sorted(rows):
        trained = trained or stage == "training"
        name = stages.stage_after_end(stage, trained) if is_end else stage
        # preparations do not come back: a late line of one rank is not a new stage of the job
        is_late = trained and name in stages.BEFORE_TRAINING
        if not is_late and (not begun or begun[-1][0] != name):
            begun.append((name, at))
    ends = [at for _, at in begun[1:]] + [max(at, facts.last_at or at) for _, at in begun[-1:]]
    return [(name, at, end) for (name, at), end in zip(begun, ends, strict=True)]
