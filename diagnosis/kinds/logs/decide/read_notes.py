"""What was read of each log, in a sentence: lines, writers, times, progress, and known messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import polars as pl

from diagnosis.kinds.logs.causes.case import Case
from diagnosis.values.plain import counted

_NS: Final = 1_000_000_000
#: Times that are further apart are hardly those of one run.
_LONG: Final = timedelta(days=31)


class _Read(NamedTuple):
    """What was read of one log: times in ns, None where no line states one."""

    file: int
    lines: int
    writers: int
    first_at: int | None
    last_at: int | None
    untimed: int
    known: int


def read_notes(case: Case, facts: Mapping[str, int]) -> dict[str, str]:
    """By the path of each log. ``facts``: how many of the set-up each states. O(occurrences)."""
    known = case.catalogue.events.filter(pl.col("signature").is_not_null())["event"]
    own = pl.col("n")
    # of a file with reports, their lines are blank to the log
    blank = case.table.messages.filter(pl.col("text").str.strip_chars() == "")["masked"]
    rows = (
        case.catalogue.occurrences.filter(~pl.col("masked").is_in(blank.to_list()))
        .group_by("file")
        .agg(
            lines=own.sum(),
            writers=pl.col("source").n_unique(),
            first_at=pl.col("first_at").min(),
            last_at=pl.col("last_at").max(),
            untimed=own.filter(~pl.col("is_stamped")).sum(),
            known=own.filter(pl.col("event").is_in(known.to_list())).sum(),
        )
        .sort("file")
    )
    steps = _steps(case)
    notes = {}
    for read in map(_Read._make, rows.select(_Read._fields).iter_rows()):
        path = case.table.files[read.file]
        parts = [*_parts(read, steps.get(read.file, "")), *_setup(facts.get(path, 0))]
        notes[path] = f"Read as a log: {'; '.join(parts)}."
    return notes


def _setup(facts: int) -> Iterator[str]:
    """How many facts of the set-up a log states, if any."""
    if facts:
        yield f"{counted(facts, 'fact', 'facts')} of the set-up"


def _steps(case: Case) -> dict[int, str]:
    """By the number of each file, the first and last iteration that it counts."""
    ends = case.progress.points.group_by("file").agg(first=pl.col("n").min(), last=pl.col("n").max())
    kind = case.progress.kind
    return {
        file: f"{kind} {last:,}" if first == last else f"{kind}s {first:,} to {last:,}"
        for file, first, last in ends.select("file", "first", "last").iter_rows()
    }


def _parts(read: _Read, steps: str) -> Iterator[str]:
    """The parts that a log has; what it lacks is said, too."""
    writers = counted(read.writers, "writer", "writers")
    yield f"{_lines(read.lines)} of {writers}"
    if read.first_at is None or read.last_at is None:
        yield "no line states a time"
    else:
        yield _times(read.first_at, read.last_at)
        if read.untimed:
            yield f"{_lines(read.untimed)} without a time of their own"
    yield steps or "no progress"
    if read.known:
        yield f"{_lines(read.known)} with a message that a rule knows"


def _lines(count: int) -> str:
    return counted(count, "line", "lines")


def _times(first_at: int, last_at: int) -> str:
    """From and to, in UTC; the date once if it is the same."""
    first, last = (datetime.fromtimestamp(at // _NS, UTC) for at in (first_at, last_at))
    end = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"
    if first == last:
        return f"{first:%Y-%m-%d %H:%M:%S} UTC"
    doubt = ", so far apart that some may not say when their line was written" if last - first > _LONG else ""
    return f"{first:%Y-%m-%d %H:%M:%S} to {end} UTC{doubt}"
