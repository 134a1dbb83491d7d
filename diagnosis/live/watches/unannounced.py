"""Evaluations that no line announces: pauses that come again at the same distance, and the first at
a round count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from diagnosis import thresholds
from diagnosis.live.job_state import JobState
from diagnosis.live.watches import rhythm
from diagnosis.live.watches.pause_history import HangState, PauseRow

THRESHOLDS: Final = thresholds.of("hang")

EVALUATION: Final = "evaluation"


def unannounced_s(state: HangState, job: JobState, iteration: int | None) -> float:
    """Seconds that such an evaluation may take after a count; 0 if none is likely."""
    likely = [pause.seconds for pause in recurring_pauses(state, job, iteration)]
    if likely:
        return rhythm.max_pause_s(likely)
    return first_round_s(state, job, iteration)


def recurring_pauses(state: HangState, job: JobState, iteration: int | None) -> list[PauseRow]:
    """The pauses that no line announced, at the same distance as the count ``iteration``."""
    if iteration is None:
        return []
    interval = job.interval
    return [one for one in state.pauses if _is_recurrence(state, one.after, iteration, interval)]


def _is_recurrence(state: HangState, after: int, iteration: int, interval: int) -> bool:
    """Whether ``iteration`` follows the rhythm of the earlier pause after the count ``after``."""
    if iteration == after:
        return True
    if after > 0 and abs(iteration - after) % after < interval:
        return True
    distances = [abs(after - other.after) for other in state.pauses]
    steps = [one for one in distances if one >= max(1, THRESHOLDS.rhythm * interval)]
    return any((iteration - after) % step < interval for step in steps)


def first_round_s(state: HangState, job: JobState, iteration: int | None) -> float:
    """Seconds of the first pause at a round count, in a job that announces no evaluation."""
    is_announced = any(mark.stage == EVALUATION for mark in job.marks)
    if iteration is None or is_announced or state.of_stage(EVALUATION):
        return 0.0
    unreached = _unreached_sign(state, job)
    for unit in round_units(iteration, job.interval):
        if unit not in state.passed and unit * unreached <= 0:
            return float(THRESHOLDS.first_stage_s[EVALUATION])
    return 0.0


def _unreached_sign(state: HangState, job: JobState) -> int:
    """The sign of the round numbers that the job does not reach: -1 if its first iteration is
    called 1, because 1 was the first count and all are printed, or because announced pauses came
    after counts such as 100 and 200; 1 if these came after 99 and 199. 0 if nothing says it.
    """
    leader = job.leading_counter
    if leader is not None and leader.first == 1 and job.interval == 1:
        return -1
    reached = list(_reached_units(state))
    if len(reached) < THRESHOLDS.pauses:
        return 0
    if min(reached) > 0:
        return -1
    return 1 if max(reached) < 0 else 0


def _reached_units(state: HangState) -> Iterator[int]:
    """The round numbers that the announced pauses of saves and evaluations came at."""
    for stage in THRESHOLDS.first_stage_s:
        for pause in state.of_stage(stage):
            yield from round_units(pause.after, 1)


def round_units(iteration: int, interval: int) -> Iterator[int]:
    """The round numbers that ``iteration`` completes; negative if the first is called 0."""
    if iteration <= 0:
        return
    units = [unit for unit in THRESHOLDS.round_counts if unit >= THRESHOLDS.round * interval]
    yield from (unit for unit in units if iteration % unit == 0)
    if interval == 1:
        yield from (-unit for unit in units if (iteration + 1) % unit == 0)
