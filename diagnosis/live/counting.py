"""Adds the counts of a range to the counters of a job: its iterations, their times, and the pauses
between them.

The time between two counts is taken from the stamps of their lines, so that a follower that was
away does not lengthen it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from diagnosis.kinds.logs.pace import progress
from diagnosis.live.found_counters import FOUND
from diagnosis.live.job_state import TRAINING, CounterState, JobState, StageEntry
from diagnosis.live.observation import CountRow
from diagnosis.live.range_effect import Pause, RangeEffect
from diagnosis.live.watches import hang

#: Maximum number of stored counters of one job, and of stored step times.
MAX_COUNTERS: Final = 64
MAX_STEPS: Final = 128
#: So many ranges, one after another, may have only lines that came late. More are a job that starts
#: again after a clock was set back.
MAX_LATE_RANGES: Final = 3
#: A counter leads once it has so many advances more than the one that leads.
LEAD_ADVANCES: Final = 2


class _Growth(msgspec.Struct):
    """What a range's counts add to a counter. ``interval``: between its last two, or None."""

    steps: list[float] = msgspec.field(default_factory=list)
    pauses: list[Pause] = msgspec.field(default_factory=list)
    advances: int = 0
    has_restarted: bool = False
    interval: int | None = None


def learn_counts(job: JobState, effect: RangeEffect) -> RangeEffect:
    """Add the counts of all messages of a range; the effect, with what they mean. O(counts)."""
    for message, rows in effect.observation.counters.items():
        if rows:
            effect = _learn_counter(job, f"{effect.source}\t{message}", rows, effect)
    return effect


def _learn_counter(
    job: JobState,
    key: str,
    rows: Sequence[CountRow],
    effect: RangeEffect,
) -> RangeEffect:
    """Add one message's counts. The counter with most advances leads: the iterations."""
    counter = job.counters.get(key)
    if counter is not None:
        taken = _rows_in_time(counter, rows)
    elif len(job.counters) >= MAX_COUNTERS:
        return effect
    else:
        first = rows[0]
        counter = CounterState(first.number, first.at, effect.now, effect.now, first.number)
        job.counters[key] = counter
        taken = _rows_in_time(counter, rows[1:])
    growth = _grow(job, counter, taken, effect.now)
    _choose_leader(job, key, growth)
    # a monitor's number that grows beside the job's counter is no progress
    is_progress = job.leader == key or not _is_found(key)
    has_advanced = effect.has_advanced or (growth.advances > 0 and is_progress)
    if job.leader != key:
        return effect._replace(has_advanced=has_advanced)
    _lead(job, counter, growth)
    if taken:
        job.is_last = taken[-1].is_last
    return effect._replace(
        has_advanced=has_advanced,
        steps=tuple(growth.steps),
        pauses=tuple(growth.pauses),
        has_restarted=growth.has_restarted,
    )


def _rows_in_time(counter: CounterState, rows: Sequence[CountRow]) -> Sequence[CountRow]:
    """The counts without those that came late; all, once too many ranges had nothing else."""
    in_time = [row for row in rows if not _is_late(row, counter)]
    counter.late_ranges = 0 if in_time else counter.late_ranges + 1
    return in_time if counter.late_ranges <= MAX_LATE_RANGES else rows


def _is_late(row: CountRow, counter: CounterState) -> bool:
    """Whether a count was printed before the last one but came after it."""
    if row.at is None or counter.last_stamp is None:
        return False
    return row.number < counter.number and row.at < counter.last_stamp


def _grow(job: JobState, counter: CounterState, rows: Sequence[CountRow], now: float) -> _Growth:
    """Advance the counter by these counts."""
    growth = _Growth()
    waiting = job.marks  # the stages that were announced before the first of them
    for row in rows:
        if row.number == counter.number:
            continue
        # another file may be ahead, and announce one that comes later
        announced = [mark for mark in waiting if not mark.is_after(row.at)]
        pause = _pause(counter, announced, row, now)
        _note_pause(job, growth, pause, row.number - counter.number)
        counter.number, counter.last_stamp, counter.last_at = row.number, row.at, now
        waiting = []
    counter.advances += growth.advances
    return growth


def _note_pause(job: JobState, growth: _Growth, pause: Pause, distance: int) -> None:
    """Note a pause between counts that differ by ``distance``, negative where the job counts from
    an earlier checkpoint, or an epoch from its first step.
    """
    growth.advances += 1
    is_restart = distance < 0
    growth.has_restarted |= is_restart
    if pause.parts:
        growth.pauses.append(pause)
        return
    if is_restart:
        return
    growth.pauses.append(pause)
    growth.interval = distance
    if pause.seconds > 0 and not hang.is_expected(job, pause):
        growth.steps.append(round(pause.seconds / distance, 4))


def _choose_leader(job: JobState, key: str, growth: _Growth) -> None:
    """Let a counter lead that grew and has most advances. One without a known word must have
    more, as it must cover more of a whole file, and follow the other: a monitor's number grows
    beside it, also while the job hangs.
    """
    if not growth.advances:
        return
    leader, own = job.leading_counter, job.counters[key]
    if leader is None:
        job.leader = key
        return
    is_ahead = _share(key) * own.advances > _share(job.leader) * leader.advances + LEAD_ADVANCES
    is_beside = own.since <= leader.last_at and _share(key) < _share(job.leader)
    if is_ahead and not is_beside:
        job.leader = key


def _share(key: str | None) -> float:
    """The share of a counter's advances that counts."""
    return progress.THRESHOLDS.covering if _is_found(key) else 1.0


def _is_found(key: str | None) -> bool:
    """Whether it is a counter without a known word."""
    return key is not None and f"\t{FOUND}" in key


def _lead(job: JobState, counter: CounterState, growth: _Growth) -> None:
    """Take the numbers of the counter that leads as the job's iterations."""
    job.steps = [*job.steps, *growth.steps][-MAX_STEPS:]
    job.iteration = counter.number
    job.advances += growth.advances
    if growth.interval is not None:
        job.interval = growth.interval


def _pause(
    counter: CounterState,
    waiting: Sequence[StageEntry],
    row: CountRow,
    now: float,
) -> Pause:
    """The pause before a count, and its parts by the stages announced in it. A stage whose time is
    not known has all of it.
    """
    whole = _seconds_since(counter, row.at, now)
    stages = [entry.stage for entry in waiting]
    begins = [min(whole, _seconds_since(counter, entry.stamp, entry.seen_at)) for entry in waiting]
    for mark in row.announced:
        stages.append(mark.stage)
        begins.append(0.0 if mark.at is None else min(whole, _seconds_since(counter, mark.at, now)))
    parts = []
    for stage, (begin, end) in zip(stages, pairwise([*begins, whole]), strict=True):
        if stage != TRAINING:
            parts.append((stage, max(0.0, end - begin)))
    last = parts[-1][0] if parts else TRAINING
    return Pause(counter.number, whole, last, tuple(parts))


def _seconds_since(counter: CounterState, stamp: int | None, now: float) -> float:
    """Seconds since the last count; a stamp that says more than the site's clock is wrong."""
    last = counter.last_stamp
    if stamp is None or last is None or stamp < last:
        return max(0.0, now - counter.last_at)
    return (stamp - last) / 1e9
