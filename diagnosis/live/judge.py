"""The current alarms, and the record of former ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from diagnosis.live.alarms import Alarm, AlarmRow
from diagnosis.live.job_state import JobState
from diagnosis.live.watches import TABLE

#: Maximum number of former alarms that a job keeps.
MAX_FORMER_ALARMS: Final = 12
#: Seconds after an alarm was told at which its incident is written again. The stacks that followers
#: take of a job that hangs come within 30 s, the second round within 60 s, those of very many
#: followers within 90 s.
REPEAT_AGES_S: Final = (30.0, 60.0, 90.0, 300.0, 1_800.0, 7_200.0, 28_800.0)


def judge(job: JobState, now: float) -> list[Alarm]:
    """The alarms at ``now``, the most severe first. O(size of the state)."""
    found = []
    for watch in TABLE:
        state = job.watch_state(watch.id, watch.record)
        found.append(watch.find_alarm(state, job, now))
    return [alarm for alarm in found if alarm is not None]


def record(job: JobState, alarms: Sequence[Alarm], now: float) -> bool:
    """Write ``alarms`` into the state: open ones first, in place, then the last ended ones with
    their ``until``.

    Returns whether the job should be diagnosed again: one began, ended or is so old that its
    incident should say so.
    """
    was_open = {row.kind: row for row in job.alarms if row.is_open}
    former = [row for row in job.alarms if not row.is_open]
    current = []
    is_news = False
    for alarm in alarms:
        row = _continued(was_open.pop(alarm.kind, None), alarm, now)
        age_s = now - (row.since if row.raised_at is None else row.raised_at)
        ages_passed = sum(age_s >= age for age in REPEAT_AGES_S)
        is_news |= ages_passed > row.ages_reported
        row.ages_reported = ages_passed
        current.append(row)
    ended = list(was_open.values())
    for row in ended:
        row.until = now
    job.alarms = [*current, *[*ended, *former][:MAX_FORMER_ALARMS]]
    return is_news or bool(ended)


def _continued(known: AlarmRow | None, alarm: Alarm, now: float) -> AlarmRow:
    """The row of an alarm: since its row says so, if it has one, with the words of now."""
    if known is None:
        return AlarmRow(alarm.kind, alarm.text, alarm.since, alarm.category, raised_at=now)
    return msgspec.structs.replace(known, text=alarm.text, category=alarm.category)
