"""Adds the observation of each new range of a log to the state of its job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from diagnosis.live.counting import learn_counts
from diagnosis.live.found_counters import with_found
from diagnosis.live.job_state import SHUTDOWN, TRAINING, JobState, StageEntry
from diagnosis.live.observation import Observation, StageMark
from diagnosis.live.range_effect import RangeEffect
from diagnosis.live.site_absence import note_lines
from diagnosis.live.watches import TABLE, hang

#: Maximum number of stored files of one job.
MAX_SOURCES: Final = 4_096


def new_state(now: float, before: JobState | None = None) -> JobState:
    """A job's state before anything was read. ``before``: that of its last attempt."""
    job = JobState(since=now, watches={watch.id: watch.record() for watch in TABLE})
    if before is not None:
        job.watches[hang.id] = hang.inherit(before)
    return job


def learn(job: JobState, source: str, observation: Observation, now: float) -> JobState:
    """Add a range of ``source`` to the state, which is returned. O(observation)."""
    if source in job.sources or len(job.sources) < MAX_SOURCES:
        job.sources[source] = now
    note_lines(job, observation.lines, now)
    observation = with_found(job, source, observation)
    advances_before = job.advances
    effect = learn_counts(job, RangeEffect(source, observation, now))
    for watch in TABLE:  # they see the stage in which the range began
        watch.learn(job.watch_state(watch.id, watch.record), job, effect)
    if effect.has_advanced:
        job.advanced_at = now
        job.away_before_progress_s = job.away_s
    if job.advances > advances_before:
        job.longest_silence_s = {}
    _learn_stage(job, effect)
    return job


def _learn_stage(job: JobState, effect: RangeEffect) -> None:
    """The stage at the end of the range; a count ends one that another file announced."""
    observation = effect.observation
    last_count = _last_count_stamp(observation)
    if effect.has_advanced:
        job.marks = _marks_after(job.marks, last_count)
    for mark in observation.announced:
        _add_mark(job, mark, effect.now)
    if observation.stage is not None:
        _add_mark(job, StageMark(observation.stage, observation.stage_at), effect.now)
    if job.is_ending:  # nothing is announced after it
        job.stage, job.stage_stamp = SHUTDOWN, job.marks[-1].stamp
    elif observation.stage is not None:
        job.stage, job.stage_stamp = observation.stage, observation.stage_at
    elif effect.has_advanced and not _is_before(last_count, job.stage_stamp):
        job.stage, job.stage_stamp = TRAINING, None


def _last_count_stamp(observation: Observation) -> int | None:
    """The latest of the last counts of all messages; None if no line of them states a time."""
    last_rows = [rows[-1] for rows in observation.counters.values() if rows]
    return max((row.at for row in last_rows if row.at is not None), default=None)


def _marks_after(marks: Sequence[StageEntry], stamp: int | None) -> list[StageEntry]:
    """The stages that may have been announced after a count; none if a time is not known."""
    return [mark for mark in marks if mark.is_after(stamp)]


def _is_before(one: int | None, other: int | None) -> bool:
    """Whether one stamp is known to be earlier than another one."""
    return one is not None and other is not None and one < other


def _add_mark(job: JobState, mark: StageMark, now: float) -> None:
    """Add an announced stage. One that comes again is no news, so that lines which repeat hide no
    hang; nor is one beside a file that says that the job ends: a count would show that it goes on.
    """
    if job.is_ending:
        return
    known = [entry.stage for entry in job.marks]
    is_end = mark.stage == TRAINING and known[-1:] != [TRAINING]
    if is_end or mark.stage not in known:
        job.marks.append(StageEntry(mark.stage, mark.at, now))
