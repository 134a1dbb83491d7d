"""When the site itself was away, or its clock jumped: silence then says nothing about the job.

After an hour without the site all followers are late, each by another time. Counted as silence,
this would be a hang of every job, a lost node of most, and a burst of whatever an hour brings.
"""

from __future__ import annotations

from typing import Final

from diagnosis.live.job_state import JobState

#: Seconds between two judgements from which on the site was away. Usually there are 5.
MIN_AWAY_S: Final = 120.0
#: Seconds after its return in which followers send what they kept.
CATCH_UP_S: Final = 300.0


def note_judgement(job: JobState, now: float) -> None:
    """Note that the job is judged at ``now``, before what is new is learnt."""
    last = job.judged_at
    job.judged_at = now
    if last is None or 0.0 <= now - last <= MIN_AWAY_S:
        return
    job.back_at = now
    job.away_s += max(0.0, now - last)
    is_clock_set_back = now < last
    if is_clock_set_back and job.advanced_at is not None:
        job.advanced_at = min(job.advanced_at, now)


def note_lines(job: JobState, lines: int, now: float) -> None:
    """Note that lines came from some file."""
    if not lines:
        return
    if job.last_line_at is not None:
        longest = job.longest_silence_s.get(job.stage_now, 0.0)
        job.longest_silence_s[job.stage_now] = max(longest, round(line_silence_s(job, now), 1))
    job.last_line_at = now
    job.away_before_line_s = job.away_s


def line_silence_s(job: JobState, now: float) -> float:
    """Seconds in which no file of the job got a line and the site was there to see it."""
    since = job.since if job.last_line_at is None else job.last_line_at
    away_s = job.away_s - job.away_before_line_s
    return max(0.0, now - since - away_s)


def silence_s(job: JobState, now: float) -> float:
    """Seconds without progress, or since the beginning, in which the site was there to see it. 0
    while lines that would show progress may still wait for the site.
    """
    if may_progress_wait(job, now):
        return 0.0
    away_s = job.away_s - job.away_before_progress_s
    return now - job.last_progress_at - away_s


def may_progress_wait(job: JobState, now: float) -> bool:
    """Whether lines of progress may still wait for the site, which was away since the last."""
    if job.back_at is None or not is_catching_up(job, now):
        return False
    return job.last_progress_at < job.back_at


def is_catching_up(job: JobState, now: float) -> bool:
    """Whether lines arrive that waited for the site."""
    if job.back_at is None:
        return False
    return 0.0 <= now - job.back_at < CATCH_UP_S
