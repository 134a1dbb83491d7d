"""Steps that take longer than the job's own: a sequential test of the job's steps against several slowdowns.

For each slowdown one sum is kept: how much more likely each step is under it than under the usual pace (Page's CUSUM
of log likelihood ratios; Lorden 1971 for several alternatives). The largest sum decides, so a strong slowdown needs few
steps and a weak one more. The usual step and its spread are the job's own, of the steps before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median
from typing import Any, Final

from diagnosis.live.attention import silence_s
from diagnosis.live.news import Alarm, News
from diagnosis.live.watches import hang
from diagnosis.plain import times_as_long

id: Final = "slow"
why: Final = "a throttled GPU or a lossy link slows every step from one moment on, and the sum of small signs shows it"
category: Final = "performance.step"

#: Steps that give the usual one, and from how many on.
MAX_USUAL_STEPS: Final = 48
MIN_USUAL_STEPS: Final = 16
#: A load of so many times the usual one is no fault; the slowdowns that are distinguished from it.
LOAD_FACTOR: Final = 1.2
SLOWDOWNS: Final = (1.5, 1.8, 2.5, 4.0)
#: The sum that is an alarm where the counts are ``REFERENCE_COUNT_S`` seconds apart: closer ones are judged more often
#: and need more. No step adds or takes more than ``MAX_STEP_EVIDENCE``: single steps are slow or short for many
#: reasons.
ALARM_SUM: Final = 6.0
REFERENCE_COUNT_S: Final = 30.0
MAX_STEP_EVIDENCE: Final = 3.7
#: The spread is never taken for less: stamps in whole milliseconds, few steps.
MIN_SPREAD: Final = 0.04
#: Seconds from a printed line to its judgement, at most usually; seconds that slow steps must last.
TRANSPORT_S: Final = 6.0
MIN_SLOW_S: Final = 6.0
#: Slow steps that pass after fewer are this job's noise: as much of it is no alarm again.
SHORT_STRETCH: Final = 10
#: After so many slow steps they are the usual ones of this job.
MAX_SLOW_STEPS: Final = 400


def learn(own: dict[str, Any], state: Mapping[str, Any], news: News) -> None:
    """Add the new steps to the sums. Steps join the usual ones once no sum suspects them."""
    if news.has_restarted:
        own.clear()
    usual = own.setdefault("usual", [])
    for step in news.steps:
        if len(usual) >= MIN_USUAL_STEPS:
            _add_step(own, step, step * state["interval"], _alarm_sum(own, state), news.now)
        if not own.get("sums"):
            usual += [*own.pop("began", ()), step]
            del usual[:-MAX_USUAL_STEPS]
            own["of"] = _median_and_spread(usual)


def _add_step(own: dict[str, Any], step: float, seconds: float, enough: float, now: float) -> None:
    """Add one step, of a count that took ``seconds``. ``began``: the steps since the sums left zero; ``top``: their
    maximum; ``noise``: what passed.
    """
    sums = own.get("sums") or [0.0] * len(SLOWDOWNS)
    if not any(sums):
        own.update(since=now, began=[], count=0, lasted=0.0, top=0.0)
    sums = [
        min(max(0.0, total + more), 3 * enough)
        for total, more in zip(sums, _log_likelihood_ratios(own, step), strict=True)
    ]
    own["sums"], total = sums, max(sums)
    if total > 0.0:
        own["began"] = [*own["began"], step][-MAX_USUAL_STEPS:]
        own["count"], own["lasted"], own["top"] = own["count"] + 1, own["lasted"] + seconds, max(own["top"], total)
    is_over = total < enough / 2 or own["count"] > MAX_SLOW_STEPS
    if (own.get("is_open") and is_over) or total <= 0.0:
        if own["count"] < SHORT_STRETCH:
            own["noise"] = min(max(own.get("noise", 0.0), 1.2 * own["top"]), 4 * enough)
        if own["count"] > MAX_SLOW_STEPS:
            own["usual"][:] = own["began"]
        own.update(is_open=False, sums=[], began=[] if own.get("is_open") else own["began"])
    elif total >= max(enough, own.get("noise", 0.0)) and own["lasted"] >= MIN_SLOW_S:
        own["is_open"] = True


def look(own: Mapping[str, Any], state: Mapping[str, Any], now: float) -> Alarm | None:
    """The alarm since the first of the slow steps. The step that is not finished counts for what it took so far."""
    began = list(own.get("began", ()))
    if not own.get("is_open"):
        if not own.get("sums") or state["stage"] != "training" or hang.is_pause_likely(state):
            return None
        seconds = silence_s(state, now) - TRANSPORT_S
        unfinished = seconds / state["interval"]
        shares = _log_likelihood_ratios(own, unfinished, is_finished=False)
        total = max(total + more for total, more in zip(own["sums"], shares, strict=True))
        if total < max(_alarm_sum(own, state), own.get("noise", 0.0)) or own["lasted"] + seconds < MIN_SLOW_S:
            return None
        began.append(unfinished)
    last = median(began[-8:])
    text = f"Steps take {last:.1f} s, {times_as_long(last / own['of'][0])} as before."
    return Alarm(id, text, own["since"], category)


def _alarm_sum(own: Mapping[str, Any], state: Mapping[str, Any]) -> float:
    """The sum that is an alarm in this job."""
    return ALARM_SUM + max(0.0, math.log(REFERENCE_COUNT_S / max(own["of"][0] * state["interval"], 1e-3)))


def _log_likelihood_ratios(own: Mapping[str, Any], step: float, *, is_finished: bool = True) -> list[float]:
    """What a step adds to each sum: the log of how many times more likely it is under that slowdown.

    The logarithms of steps are taken as normal. Of an unfinished step only its least length is known.
    """
    middle, spread = own["of"]
    at, load = math.log(max(step, 1e-6) / middle) / spread, math.log(LOAD_FACTOR) / spread
    out = []
    for slowdown in SLOWDOWNS:
        slow = math.log(slowdown) / spread
        if is_finished:
            more = (slow - load) * (at - (slow + load) / 2)
        else:
            more = math.log(max(_normal_tail(at - slow), 1e-12) / max(_normal_tail(at - load), 1e-12))
        out.append(min(max(more, -MAX_STEP_EVIDENCE), MAX_STEP_EVIDENCE))
    return out


def _normal_tail(at: float) -> float:
    """The share of a normal distribution beyond ``at`` spreads."""
    return 0.5 * math.erfc(at / math.sqrt(2.0))


def _median_and_spread(steps: list[float]) -> list[float]:
    """The median of the steps, and the spread of their logarithms: the wider of two robust ones."""
    ordered = sorted(max(step, 1e-6) for step in steps)
    middle = median(ordered)
    logs = sorted(abs(math.log(step / middle)) for step in ordered)
    high = math.log(ordered[int(0.9 * (len(ordered) - 1))] / middle) / 1.28
    return [middle, max(1.4826 * median(logs), high, MIN_SPREAD)]
