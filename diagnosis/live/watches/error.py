"""A line that a decisive rule knows, until training continues after it."""

from __future__ import annotations

from typing import Final

import msgspec

from diagnosis.live.alarms import Alarm
from diagnosis.live.job_state import JobState
from diagnosis.live.observation import ErrorRow
from diagnosis.live.range_effect import RangeEffect
from diagnosis.live.site_time import Moment
from diagnosis.live.watches import hang_limits

id: Final = "error"
why: Final = "its words name a cause that jobs do not survive"
category: Final = "unknown"

#: Maximum number of stored errors.
MAX_ERRORS: Final = 20


class SeenError(ErrorRow, frozen=True, kw_only=True):
    """An error, the file that has its line, and when the site read it."""

    source: str
    seen_at: Moment


class ErrorState(msgspec.Struct):
    """The first line of each rule."""

    rows: list[SeenError] = []


record: Final = ErrorState


def learn(state: ErrorState, job: JobState, effect: RangeEffect) -> None:
    """Remember the first line of each rule."""
    known = {row.signature for row in state.rows}
    for row in effect.observation.errors:
        if row.signature in known or len(state.rows) >= MAX_ERRORS:
            continue
        fields = msgspec.structs.asdict(row)
        state.rows.append(SeenError(**fields, source=effect.source, seen_at=effect.now))


def find_alarm(state: ErrorState, job: JobState, now: float) -> Alarm | None:
    """The first error after which the job made no progress for some time."""
    for row in state.rows:
        if not hang_limits.has_gone_on(job, row.seen_at):
            return Alarm(id, f"{row.title}: {row.text}", row.seen_at, row.category)
    return None
