"""The lives of an attempt's processes: how each of them ended, who says so, and when the first
was stopped from outside.

Launchers and schedulers tell how processes end, ranks tell which signals they got. The last such
line of a writer is its end; all else follows from the order of these lines, not from their words.
The words are the states of launchers (``knowledge/phrases.toml``) and the rules of stops.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec
import polars as pl
from msgspec.structs import replace

from diagnosis.facts.silences import is_long_silence
from diagnosis.kinds.logs.causes import launches
from diagnosis.kinds.logs.causes.failure_facts import FailureFacts
from diagnosis.kinds.logs.meaning.catalogue import event_starts
from diagnosis.kinds.logs.pace.pacing import Pace
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.knowledge import words
from diagnosis.model import Role
from diagnosis.values.extremes import least

#: A launcher's message that a worker ended with a code or by a signal.
WORKER_ENDED: Final = words.pattern("phrases", "worker_ended")
_ENDED_WELL: Final = words.pattern("phrases", "ended_well")
_FAILED_CODE: Final = words.pattern("phrases", "failed_code")


class End(StrEnum):
    """How a process ended, or the processes that a launcher watches."""

    WELL = "well"
    BADLY = "badly"
    STOPPED = "stopped"


class Lifecycles(msgspec.Struct, frozen=True):
    """``rows``: one writer that tells of an end: ``file``, ``source``, ``node``, ``rank``, ``end``,
    ``event`` (that shows it). ``has_failed_code``: the last status that a writer tells is that of a
    program that failed; it outweighs words of success. ``well``: the events of good ends.
    ``stopped_at``: when the first process was told to stop from outside; ``failed_at``: when a
    process is first told to have ended badly (ns; None: nobody says so). ``restarts``: in their
    order.
    """

    rows: pl.DataFrame
    has_failed_code: bool
    well: tuple[int, ...]
    stopped_at: int | None
    failed_at: int | None
    restarts: tuple[launches.Restart, ...] = ()

    @property
    def has_ended_well(self) -> bool:
        """Whether launchers tell a good end, and no writer another one as its last: an accounting
        of the scheduler says "exit code 0" of a job that reached its time limit, too.
        """
        ends = set(self.rows["end"])
        return ends == {End.WELL}

    def was_stalled(self, pace: Pace) -> bool:
        """Whether progress had stopped for far longer than usual when the job was stopped from
        outside, and no process had ended before: launchers that watch them said nothing.
        """
        if self.stopped_at is None or not is_hang(pace, self.stopped_at):
            return False
        return self.failed_at is None or self.failed_at >= self.stopped_at


_NOTHING_TOLD: Final = Lifecycles(pl.DataFrame({"end": []}), False, (), None, None)


def find_lifecycles(facts: FailureFacts) -> Lifecycles:
    """The ends that the lines of this attempt tell. O(occurrences)."""
    events = facts.events.with_columns(at=event_starts(facts.catalogue))
    is_new = (pl.col("jobs_with_it") == 0) & ~facts.is_survived
    is_order = facts.catalogue.is_stop & is_new
    tells_end = facts.catalogue.says(WORKER_ENDED) & pl.col("role").eq_missing(Role.TEARDOWN)
    is_bad = tells_end & ~is_order & is_new
    is_well = facts.catalogue.says(_ENDED_WELL) & ~is_bad
    end = pl.when(is_order).then(pl.lit(End.STOPPED)).when(is_bad).then(pl.lit(End.BADLY))
    told = events.with_columns(end=end.when(is_well).then(pl.lit(End.WELL))).drop_nulls("end")
    bad_ends = facts.catalogue.occurrences_of(tells_end & (pl.col("jobs_with_it") == 0))
    restarts = launches.restarts(facts.progress, bad_ends)
    if told.is_empty():
        return replace(_NOTHING_TOLD, restarts=restarts)
    is_failed = (pl.col("end") == End.BADLY) & facts.catalogue.says(_FAILED_CODE)
    kinds = told.select("event", "end", is_failed=is_failed)
    occurrences = facts.catalogue.occurrences.join(kinds, on="event")
    last = _last_of_writers(occurrences)
    not_stopped = occurrences.filter(pl.col("end") != End.STOPPED)
    return Lifecycles(
        rows=last.select("file", "source", "node", "rank", "end", "event"),
        has_failed_code=bool(_last_of_writers(not_stopped)["is_failed"].any()),
        well=tuple(told.filter(pl.col("end") == End.WELL)["event"]),
        stopped_at=_first_after_progress(facts, told.filter(pl.col("end") == End.STOPPED)),
        failed_at=_first_after_progress(facts, told.filter(pl.col("end") == End.BADLY)),
        restarts=restarts,
    )


def _last_of_writers(occurrences: pl.DataFrame) -> pl.DataFrame:
    """The last occurrence of each writer."""
    ordered = occurrences.sort("last_line", "event")
    return ordered.group_by("file", "source", maintain_order=True).last()


def _first_after_progress(facts: FailureFacts, told: pl.DataFrame) -> int | None:
    """The first time that lines state themselves, not before the last progress."""
    at = told.filter("is_stamped")["first_at"].drop_nulls()
    if facts.pace.last_at is not None:
        at = at.filter(at >= facts.pace.last_at)
    return least(at)


def is_hang(pace: Pace, ended_at: int | None) -> bool:
    """No progress for far longer than usual before anything ended."""
    if pace.silent_from is None or ended_at is None or pace.usual_s is None:
        return False
    return is_long_silence((ended_at - pace.silent_from) / SECOND, pace.usual_s)
