"""Steps that take longer than the job's own: a sequential test of the job's steps against several
slowdowns.

For each slowdown one sum is kept: how much more likely each step is under it than under the usual
pace (Page's CUSUM of log likelihood ratios; Lorden 1971 for several alternatives). The largest sum
decides, so a strong slowdown needs few steps and a weak one more. The usual step and its spread are
the job's own, of the steps before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Annotated, Final

import msgspec

from diagnosis import thresholds
from diagnosis.live.alarms import Alarm
from diagnosis.live.job_state import TRAINING, JobState
from diagnosis.live.observation import Count
from diagnosis.live.range_effect import RangeEffect
from diagnosis.live.site_absence import silence_s
from diagnosis.live.site_time import Moment, Positive, Seconds
from diagnosis.live.watches import hang
from diagnosis.values.plain import times_as_long
from diagnosis.values.stats import MAD_TO_SIGMA

THRESHOLDS: Final = thresholds.of("slow")
LIMITS: Final = thresholds.limits("slow")

id: Final = "slow"
why: Final = "a throttled GPU or a lossy link slows every step from one moment on; many small signs show it together"
category: Final = "performance.step"

#: Steps that give the usual one, and from how many on.
MAX_USUAL_STEPS: Final = 48
#: After so many slow steps they are the usual ones of this job.
MAX_SLOW_STEPS: Final = 400
#: A sum of logarithms of likelihood ratios.
type Sum = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class UsualStep(msgspec.Struct, frozen=True, array_like=True):
    """The median seconds of usual steps, and the spread of their logarithms."""

    median_s: Positive
    spread: Positive

    def deviation(self, step_s: float) -> float:
        """How many spreads a step is above the usual one."""
        return math.log(max(step_s, 1e-6) / self.median_s) / self.spread


class SlowState(msgspec.Struct):
    """``usual_s``: seconds of the last usual steps, ``usual_step`` sums them up.

    ``sums``: of each slowdown, empty while nothing is suspected. Since they left zero: ``since``,
    ``suspect_s``: seconds of the last such steps; ``count``: their number; ``lasted_s``: their
    seconds; ``highest``: the largest sum.

    ``noise``: a sum that passed by itself; ``is_open``: the alarm holds.
    """

    usual_s: list[Seconds] = msgspec.field(name="usual", default_factory=list)
    usual_step: UsualStep | None = msgspec.field(name="of", default=None)
    sums: list[Sum] = []
    since: Moment = 0.0
    suspect_s: list[Seconds] = msgspec.field(name="began", default_factory=list)
    count: Count = 0
    lasted_s: Seconds = msgspec.field(name="lasted", default=0.0)
    highest: Sum = msgspec.field(name="top", default=0.0)
    noise: Sum = 0.0
    is_open: bool = False

    def __post_init__(self) -> None:
        """Refuse what does not fit together in a stored state."""
        if self.sums and len(self.sums) != len(THRESHOLDS.slowdowns):
            raise ValueError("a sum for each slowdown is needed")
        if self.usual_step is None and (self.sums or len(self.usual_s) >= THRESHOLDS.usual):
            raise ValueError("the usual step is needed")
        if self.is_open and not self.suspect_s:
            raise ValueError("an alarm needs its steps")

    def forget(self) -> None:
        """Begin again: the steps after a restart may be others."""
        for name, value in msgspec.structs.asdict(SlowState()).items():
            setattr(self, name, value)

    def begin_suspicion(self, now: float) -> None:
        """Begin to count the steps since the sums left zero."""
        self.since, self.suspect_s, self.count = now, [], 0
        self.lasted_s = self.highest = 0.0

    def add_suspect(self, step_s: float, count_s: float) -> None:
        """Count a step of a count that took ``count_s``."""
        self.suspect_s = [*self.suspect_s, step_s][-MAX_USUAL_STEPS:]
        self.count += 1
        self.lasted_s += count_s
        self.highest = max(self.highest, *self.sums)


record: Final = SlowState


def learn(state: SlowState, job: JobState, effect: RangeEffect) -> None:
    """Add the new steps to the sums. Steps join the usual ones once no sum suspects them."""
    if effect.has_restarted:
        state.forget()
    for step_s in effect.steps:
        usual = state.usual_step
        if usual is not None and len(state.usual_s) >= THRESHOLDS.usual:
            enough = alarm_sum(usual, job)
            _add_step(state, usual, step_s, step_s * job.interval, enough, effect.now)
        if not state.sums:
            state.usual_s = [*state.usual_s, *state.suspect_s, step_s][-MAX_USUAL_STEPS:]
            state.suspect_s = []
            state.usual_step = usual_step_of(state.usual_s)


def _add_step(
    state: SlowState,
    usual: UsualStep,
    step_s: float,
    count_s: float,
    enough: float,
    now: float,
) -> None:
    """Add one step, of a count of ``count_s``, and judge. ``enough``: the sum of an alarm."""
    if not any(state.sums):
        state.begin_suspicion(now)
    state.sums = _added_sums(state.sums, log_likelihood_ratios(usual, step_s), enough)
    total = max(state.sums)
    if total > 0.0:
        state.add_suspect(step_s, count_s)
    is_lasting = state.count > MAX_SLOW_STEPS
    is_over = state.is_open and (is_lasting or total < enough / 2)
    if is_over or total <= 0.0:
        _end_suspicion(state, enough)
    elif total >= max(enough, state.noise) and state.lasted_s >= THRESHOLDS.slow_s:
        state.is_open = True


def _added_sums(sums: Sequence[float], ratios: Sequence[float], enough: float) -> list[float]:
    former = sums or [0.0] * len(ratios)
    most = THRESHOLDS.highest * enough
    return [min(max(0.0, total + more), most) for total, more in zip(former, ratios, strict=True)]


def _end_suspicion(state: SlowState, enough: float) -> None:
    """End an alarm, or a suspicion that passed by itself and is this job's noise."""
    if state.count < THRESHOLDS.short:
        noise = max(state.noise, THRESHOLDS.noisier * state.highest)
        state.noise = min(noise, THRESHOLDS.noisiest * enough)
    if state.count > MAX_SLOW_STEPS:
        state.usual_s = state.suspect_s
    if state.is_open:
        state.suspect_s = []
    state.is_open = False
    state.sums = []


def find_alarm(state: SlowState, job: JobState, now: float) -> Alarm | None:
    """The alarm since the first slow step; the unfinished one counts for its time so far."""
    usual = state.usual_step
    if usual is None:
        return None
    steps_s = list(state.suspect_s)
    if not state.is_open:
        unfinished_s = _decisive_step_s(state, usual, job, now)
        if unfinished_s is None:
            return None
        steps_s.append(unfinished_s)
    last_s = median(steps_s[-LIMITS.shown :])
    factor = times_as_long(last_s / usual.median_s)
    text = f"Steps take {last_s:.1f} s, {factor} as before."
    return Alarm(id, text, state.since, category)


def _decisive_step_s(state: SlowState, usual: UsualStep, job: JobState, now: float) -> float | None:
    """Seconds of the step that is not finished, if it decides that there is an alarm; else None."""
    if not state.sums or job.stage != TRAINING or hang.is_pause_likely(job):
        return None
    waited_s = silence_s(job, now) - THRESHOLDS.transport_s
    unfinished_s = waited_s / job.interval
    ratios = log_likelihood_ratios(usual, unfinished_s, is_finished=False)
    total = max(map(sum, zip(state.sums, ratios, strict=True)))
    if total < max(alarm_sum(usual, job), state.noise):
        return None
    return unfinished_s if state.lasted_s + waited_s >= THRESHOLDS.slow_s else None


def alarm_sum(usual: UsualStep, job: JobState) -> float:
    """The sum that is an alarm in this job."""
    count_s = max(usual.median_s * job.interval, 1e-3)
    return float(THRESHOLDS.sum + max(0.0, math.log(THRESHOLDS.reference_s / count_s)))


def log_likelihood_ratios(
    usual: UsualStep,
    step_s: float,
    *,
    is_finished: bool = True,
) -> list[float]:
    """What a step adds to each sum: the log of how many times more likely it is under that
    slowdown.

    The logarithms of steps are taken as normal. Of an unfinished step only its least length is
    known.
    """
    at = usual.deviation(step_s)
    load = math.log(THRESHOLDS.load) / usual.spread
    ratio = _log_density_ratio if is_finished else _log_tail_ratio
    added = []
    for slowdown in THRESHOLDS.slowdowns:
        slow = math.log(slowdown) / usual.spread
        more = ratio(at, slow, load)
        added.append(min(max(more, -THRESHOLDS.step), THRESHOLDS.step))
    return added


def _log_density_ratio(at: float, slow: float, load: float) -> float:
    """The logarithm of the ratio of two normal densities of means ``slow`` and ``load``."""
    return (slow - load) * (at - (slow + load) / 2)


def _log_tail_ratio(at: float, slow: float, load: float) -> float:
    """The same of what lies beyond ``at``."""
    return math.log(max(_normal_tail(at - slow), 1e-12) / max(_normal_tail(at - load), 1e-12))


def _normal_tail(at: float) -> float:
    """The share of a normal distribution beyond ``at`` spreads."""
    return math.erfc(at / math.sqrt(2.0)) / 2


def usual_step_of(steps_s: Sequence[float]) -> UsualStep:
    """The median of the steps, and the spread of their logarithms: the wider of two robust ones."""
    ordered = sorted(max(step, 1e-6) for step in steps_s)
    middle = median(ordered)
    distances = [abs(math.log(step / middle)) for step in ordered]
    long = ordered[int(THRESHOLDS.high * (len(ordered) - 1))]
    high = math.log(long / middle) / THRESHOLDS.high_spreads
    spread = max(MAD_TO_SIGMA * median(distances), high, THRESHOLDS.spread)
    return UsualStep(middle, spread)
