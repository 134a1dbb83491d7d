"""The current alarms, and the record of former ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from diagnosis.live.alarms import Alarm, AlarmRow
from diagnosis.live.job_state import JobState
from diagnosis.live.watches import TABLE

#: Maximum number of former alarms that a job keeps.
MAX_FORMER_ALARMS: Final = 12
#: Ages of an alarm, in seconds, at which its incident is written again. Two rounds of stacks, which
#: followers take of a job that hangs, are there at the first two.
REPEAT_AGES_S: Final = (30.0, 60.0, 300.0, 1_800.0, 7_200.0, 28_800.0)


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
        row = _continued(was_open.pop(alarm.kind, None), alarm)
        ages_passed = sum(now - row.since >= age for age in REPEAT_AGES_S)
        is_news |= ages_passed > row.ages_reported
        row.ages_reported = ages_passed
        current.append(row)
    ended = list(was_open.values())
    for row in ended:
        row.until = now
    job.alarms = [*current, *[*ended, *former][:MAX_FORMER_ALARMS]]
    return is_news or bool(ended)


def _continued(known: AlarmRow | None, alarm: Alarm) -> AlarmRow:
    """The row of an alarm: since its row says so, if it has one, with the words of now."""
    since = alarm.since if known is None else known.since
    ages_reported = -1 if known is None else known.ages_reported
    return AlarmRow(alarm.kind, alarm.text, since, alarm.category, ages_reported=ages_reported)
