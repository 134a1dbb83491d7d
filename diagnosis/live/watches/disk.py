"""A file system that fills, as lines about its use say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Final

import msgspec

from diagnosis import thresholds
from diagnosis.live.alarms import Alarm
from diagnosis.live.job_state import JobState
from diagnosis.live.range_effect import RangeEffect
from diagnosis.live.site_time import Moment
from diagnosis.values.plain import PER_CENT

THRESHOLDS: Final = thresholds.of("disk")

id: Final = "disk"
why: Final = "a full file system ends the job at the next checkpoint, and its growth says when"
category: Final = "hardware.disk.full"

#: File systems that are kept, and statements about each.
MAX_DISKS: Final = 32
MAX_STATEMENTS: Final = 16


class Statement(msgspec.Struct, frozen=True, array_like=True):
    """How full a file system was when the site read it."""

    at: Moment
    percent: Annotated[float, msgspec.Meta(ge=0, le=100)]


class DiskState(msgspec.Struct):
    """``disks``: file and file system, with a tab between -> the last statements."""

    disks: dict[str, Annotated[list[Statement], msgspec.Meta(min_length=1)]] = {}


record: Final = DiskState


def learn(state: DiskState, job: JobState, effect: RangeEffect) -> None:
    """Remember the last statements of each file system."""
    for use in effect.observation.disks:
        key = f"{effect.source}\t{use.name}"
        if key not in state.disks and len(state.disks) >= MAX_DISKS:
            continue
        former = state.disks.get(key, [])
        state.disks[key] = [*former, Statement(effect.now, use.percent)][-MAX_STATEMENTS:]


def find_alarm(state: DiskState, job: JobState, now: float) -> Alarm | None:
    """The fullest one."""
    fullest_first = sorted(state.disks.items(), key=lambda item: -item[1][-1].percent)
    for key, statements in fullest_first:
        last = statements[-1]
        left_s = _seconds_left(statements)
        is_soon_full = last.percent >= THRESHOLDS.high_percent and left_s < THRESHOLDS.left_s
        if last.percent >= THRESHOLDS.full_percent or is_soon_full:
            return Alarm(id, _sentence(key, last.percent, left_s), last.at, category)
    return None


def _seconds_left(statements: Sequence[Statement]) -> float:
    """Seconds until the file system is full, if it only grew; infinite if it does not grow."""
    first, last = statements[0], statements[-1]
    growth = last.percent - first.percent
    is_known = len(statements) >= THRESHOLDS.statements and growth >= THRESHOLDS.growth_percent
    if not is_known or last.at <= first.at:
        return math.inf
    if any(later.percent < one.percent for one, later in pairwise(statements)):
        return math.inf
    return (100.0 - last.percent) / (growth / (last.at - first.at))


def _sentence(key: str, percent: float, left_s: float) -> str:
    source, _, name = key.partition("\t")
    who = name or "A file system"
    is_time_known = 0 < left_s < math.inf
    soon = f", full in {left_s / 60:,.0f} min at this pace" if is_time_known else ""
    return f"{who} is {percent:g}{PER_CENT} full{soon} ({source})."
