"""How long a job may go without progress, and without a line: by its stage and its own pauses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from diagnosis import thresholds
from diagnosis.live.job_state import SHUTDOWN, TRAINING, JobState
from diagnosis.live.step_time import count_interval_s, spread
from diagnosis.live.watches import rhythm
from diagnosis.live.watches.pause_history import HangState, PauseRow
from diagnosis.live.watches.unannounced import (
    EVALUATION,
    first_round_s,
    recurring_pauses,
    unannounced_s,
)

THRESHOLDS: Final = thresholds.of("hang")


def known_interval_s(job: JobState) -> float | None:
    """The usual seconds between two counts; None before enough of them."""
    return count_interval_s(job) if job.advances >= THRESHOLDS.advances else None


def late_s(usual_s: float) -> float:
    """Seconds after a count from which the next one is late, where ``usual_s`` lie between two."""
    return float(THRESHOLDS.counts * usual_s + THRESHOLDS.slack_s)


def has_gone_on(job: JobState, moment: float) -> bool:
    """Whether the job advanced after that moment, and not only by counts that came late."""
    usual_s = count_interval_s(job) or 0.0
    return job.last_progress_at > moment + late_s(usual_s)


def allowed_s(state: HangState, job: JobState) -> float:
    """How long progress may stop: until the present stage began, and what that may take."""
    usual_s = known_interval_s(job)
    if usual_s is None:
        return float(THRESHOLDS.launch_s)
    least_s = late_s(usual_s * (1 + spread(job)))
    stage = _present_stage(state, job)
    begun_s = _before_stage_s(job)
    if stage == TRAINING:
        usual_pause_s = THRESHOLDS.longest * state.longest_s + THRESHOLDS.slack_s / 2
        evaluation_s = unannounced_s(state, job, job.iteration)
        return begun_s + float(max(least_s, usual_pause_s, evaluation_s))
    ends_s = begun_s + _stage_s(state, job, stage)
    if stage in THRESHOLDS.first_stage_s:
        ends_s = max(ends_s, _with_evaluation_s(state, job, stage, begun_s, ends_s))
    return max(least_s, ends_s)


def _present_stage(state: HangState, job: JobState) -> str:
    """The stage of the job; an unannounced evaluation begins with the last count."""
    if job.stage_now != TRAINING or not job.is_last:
        return job.stage_now
    return TRAINING if state.of_stage(EVALUATION) else SHUTDOWN


def _before_stage_s(job: JobState) -> float:
    """Seconds from the last progress to the last stage that was announced since."""
    if not job.marks:
        return 0.0
    return max(0.0, job.marks[-1].seen_at - job.last_progress_at)


def _stage_s(state: HangState, job: JobState, stage: str) -> float:
    """How long an announced stage may take."""
    known = state.of_stage(stage)
    first_s = float(THRESHOLDS.first_stage_s.get(stage, THRESHOLDS.launch_s))
    pause_s = rhythm.limit_s(known, job.iteration, job.interval) if known else first_s
    if stage in THRESHOLDS.first_stage_s:
        return pause_s
    return float(max(pause_s, THRESHOLDS.launch_s / 2))  # a launch takes what the cluster takes


def _with_evaluation_s(
    state: HangState,
    job: JobState,
    stage: str,
    begun_s: float,
    ends_s: float,
) -> float:
    """How long a stage may take together with an evaluation that no line announces."""
    known = recurring_pauses(state, job, job.iteration)
    if not known:
        return begun_s + first_round_s(state, job, job.iteration)
    counts = {pause.after for pause in state.of_stage(stage)}
    of_both = [pause.seconds for pause in known if pause.after in counts]
    if of_both:
        return rhythm.max_pause_s(of_both)
    # the first time that a save and such an evaluation come together, they take the sum
    return ends_s + rhythm.max_pause_s([pause.seconds for pause in known])


def line_silence_allowed_s(state: HangState, job: JobState) -> float | None:
    """How long no line may come in the present pause; None if no such pause is known."""
    usual_s = known_interval_s(job)
    if usual_s is None:
        return None
    kinds = _kinds_of_pause(state, job)
    if min(map(len, kinds), default=0) < THRESHOLDS.pauses:
        return None
    longest_s = max(pause.silence_s for pause in chain.from_iterable(kinds))
    allowed = max(THRESHOLDS.counts * usual_s, THRESHOLDS.silence * longest_s)
    return float(allowed + THRESHOLDS.slack_s)


def _kinds_of_pause(state: HangState, job: JobState) -> list[Sequence[PauseRow]]:
    """The former pauses of each kind that the present one may be; none if one is the first."""
    stage = job.stage_now
    recurring = recurring_pauses(state, job, job.iteration)
    if stage == TRAINING:
        return [recurring]
    if stage not in THRESHOLDS.first_stage_s:
        return []
    if recurring:
        return [recurring, state.of_stage(stage)]
    if first_round_s(state, job, job.iteration):
        return []
    return [state.of_stage(stage)]
