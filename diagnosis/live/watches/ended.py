"""A process that ended badly, until training continues after it.

Launchers, schedulers and clients tell it in one line: a code that is not 0, or a signal that is not
sent to stop a job.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from diagnosis import thresholds
from diagnosis.live.alarms import Alarm
from diagnosis.live.job_state import JobState
from diagnosis.live.range_effect import RangeEffect
from diagnosis.live.site_time import Moment
from diagnosis.live.step_time import count_interval_s
from diagnosis.live.watches import hang_limits

THRESHOLDS: Final = thresholds.of("ended")

id: Final = "ended"
why: Final = "the other ranks wait for a process that is gone, long before anything reports a time-out"
category: Final = "unknown"


class EndedState(msgspec.Struct):
    """The first line that tells it since the job went on, and when the site read it."""

    text: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    seen_at: Moment | None = None


record: Final = EndedState


def learn(state: EndedState, job: JobState, effect: RangeEffect) -> None:
    """Remember the first line; a later one only after training went on."""
    told = effect.observation.ended
    if told and (state.seen_at is None or hang_limits.has_gone_on(job, state.seen_at)):
        state.text, state.seen_at = told, effect.now


def find_alarm(state: EndedState, job: JobState, now: float) -> Alarm | None:
    """The end of a process after which nothing advances. A job whose other ranks go on is waited
    for: it may not need that process.
    """
    if state.seen_at is None or hang_limits.has_gone_on(job, state.seen_at):
        return None
    quiet_s = now - max(state.seen_at, job.last_progress_at)
    usual_s = count_interval_s(job) or 0.0
    if quiet_s < max(THRESHOLDS.intervals * usual_s, THRESHOLDS.quiet_s):
        return None
    return Alarm(id, f"A process ended: {state.text}", state.seen_at, category)
