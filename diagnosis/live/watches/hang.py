"""No progress for longer than this stage's own history allows."""

from __future__ import annotations

from typing import Final

from diagnosis.live.alarms import Alarm
from diagnosis.live.job_state import SHUTDOWN, JobState
from diagnosis.live.range_effect import Pause, RangeEffect
from diagnosis.live.site_absence import line_silence_s, may_progress_wait, silence_s
from diagnosis.live.step_time import count_interval_s, step_s
from diagnosis.live.watches import hang_limits, rhythm
from diagnosis.live.watches.pause_history import HangState, PauseRow
from diagnosis.live.watches.unannounced import round_units, unannounced_s
from diagnosis.model import HANG_ALARM

id: Final = HANG_ALARM
why: Final = "a job that waits for a lost rank prints nothing more; its own pauses say what is normal"
category: Final = "unknown"
record: Final = HangState


def learn(state: HangState, job: JobState, effect: RangeEffect) -> None:
    """Remember each stage's longest time, and the counts of pauses that none explains."""
    usual_s = hang_limits.known_interval_s(job)
    silences = job.longest_silence_s
    for pause in effect.pauses:
        if pause.parts:
            _learn_stages(state, job, pause, silences)
        elif usual_s is not None:
            _learn_pause(state, job, pause, silences, usual_s)
        silences = {}  # of a further pause in the same range nothing is known but its length


def _learn_stages(
    state: HangState,
    job: JobState,
    pause: Pause,
    silences: dict[str, float],
) -> None:
    """Remember a pause in which stages were announced."""
    is_longer = False
    # a count after the announced end of a job shows that it did not end
    parts = [(stage, seconds) for stage, seconds in pause.parts if stage != SHUTDOWN]
    for stage, seconds in parts:
        known = state.of_stage(stage)
        if known and seconds > rhythm.limit_s(known, pause.after, job.interval):
            is_longer = True
        of_stage = [silences[stage]] if stage in silences else silences.values()
        state.add_stage_pause(stage, PauseRow.of(pause.after, seconds, of_stage))
    if is_longer:  # an evaluation that no line announced was part of it
        state.add_pause(PauseRow.of(pause.after, pause.seconds, silences.values()))
    state.add_passed(round_units(pause.after, job.interval))


def _learn_pause(
    state: HangState,
    job: JobState,
    pause: Pause,
    silences: dict[str, float],
    usual_s: float,
) -> None:
    """Remember a pause in which no stage was announced, if it was longer than usual."""
    if pause.seconds > hang_limits.late_s(usual_s):
        state.add_pause(PauseRow.of(pause.after, pause.seconds, silences.values()))
        return
    state.longest_s = max(state.longest_s, pause.seconds)
    state.add_passed(round_units(pause.after, job.interval))


def inherit(before: JobState) -> HangState:
    """What the next attempt knows of pauses: its steps may be others, its stages are not."""
    known = before.watch_state(id, HangState)
    return HangState(dict(known.stages), list(known.pauses), list(known.passed))


def find_alarm(state: HangState, job: JobState, now: float) -> Alarm | None:
    """The time since the last progress of any counter, against what is allowed."""
    if may_progress_wait(job, now):
        return job.open_alarm(id)
    if silence_s(job, now) <= hang_limits.allowed_s(state, job):
        return _find_silence(state, job, now)
    if job.advanced_at is None and _are_lines_usual(job, now):
        return None  # its lines have no counter that grows, but they go on
    where = _after_iteration(job, " yet")
    usual_s = step_s(job)
    usual = "" if usual_s is None else f"; a step usually takes {usual_s:.1f} s"
    return Alarm(id, f"No progress{where}{usual}.", job.last_progress_at, category)


def _after_iteration(job: JobState, unknown: str) -> str:
    """Where the job is, in words; ``unknown`` if no line counts iterations."""
    return unknown if job.iteration is None else f" after iteration {job.iteration:,}"


def _are_lines_usual(job: JobState, now: float) -> bool:
    """Whether lines come as often as before."""
    longest_s = max(job.longest_silence_s.values(), default=0.0)
    return bool(line_silence_s(job, now) <= hang_limits.THRESHOLDS.silence * longest_s)


def _find_silence(state: HangState, job: JobState, now: float) -> Alarm | None:
    """The alarm of a pause that may still take longer, but in which lines came more often."""
    usual_s = hang_limits.line_silence_allowed_s(state, job)
    if usual_s is None or job.last_line_at is None or line_silence_s(job, now) <= usual_s:
        return None
    where = _after_iteration(job, "")
    text = f"No line has come for long in the pause{where}; earlier pauses were never silent for so long."
    return Alarm(id, text, job.last_line_at, category)


def is_pause_likely(job: JobState) -> bool:
    """Whether an evaluation that no line announces may follow the present count."""
    return unannounced_s(job.watch_state(id, HangState), job, job.iteration) > 0.0


def is_expected(job: JobState, pause: Pause) -> bool:
    """Whether the time between two counts is an expected evaluation, and no slow step."""
    usual_s = count_interval_s(job)
    if usual_s is None or pause.seconds <= hang_limits.late_s(usual_s):
        return False
    return unannounced_s(job.watch_state(id, HangState), job, pause.after) > 0.0
