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

from diagnosis import thresholds
from diagnosis.live.attention import silence_s
from diagnosis.live.news import Alarm, News
from diagnosis.live.watches import hang
from diagnosis.plain import times_as_long
from diagnosis.stats import MAD_TO_SIGMA

THRESHOLDS: Final = thresholds.of("slow")
LIMITS: Final = thresholds.limits("slow")

id: Final = "slow"
why: Final = "a throttled GPU or a lossy link slows every step from one moment on, and the sum of small signs shows it"
category: Final = "performance.step"

#: Steps that give the usual one, and from how many on.
MAX_USUAL_STEPS: Final = 48
#: After so many slow steps they are the usual ones of this job.
MAX_SLOW_STEPS: Final = 400


def learn(own: dict[str, Any], state: Mapping[str, Any], news: News) -> None:
    """Add the new steps to the sums. Steps join the usual ones once no sum suspects them."""
    if news.has_restarted:
        own.clear()
    usual = own.setdefault("usual", [])
    for step in news.steps:
        if len(usual) >= THRESHOLDS.usual:
            _add_step(own, step, step * state["interval"], _alarm_sum(own, state), news.now)
        if not own.get("sums"):
            usual += [*own.pop("began", ()), step]
            del usual[:-MAX_USUAL_STEPS]
            own["of"] = _median_and_spread(usual)


def _add_step(own: dict[str, Any], step: float, seconds: float, enough: float, now: float) -> None:
    """Add one step, of a count that took ``seconds``. ``began``: the steps since the sums left zero; ``top``: their
    maximum; ``noise``: what passed.
    """
    sums = own.get("sums") or [0.0] * len(THRESHOLDS.slowdowns)
    if not any(sums):
        own.update(since=now, began=[], count=0, lasted=0.0, top=0.0)
    sums = [
        min(max(0.0, total + more), THRESHOLDS.highest * enough)
        for total, more in zip(sums, _log_likelihood_ratios(own, step), strict=True)
    ]
    own["sums"], total = sums, max(sums)
    if total > 0.0:
        own["began"] = [*own["began"], step][-MAX_USUAL_STEPS:]
        own["count"], own["lasted"], own["top"] = own["count"] + 1, own["lasted"] + seconds, max(own["top"], total)
    is_over = total < enough / 2 or own["count"] > MAX_SLOW_STEPS
    if (own.get("is_open") and is_over) or total <= 0.0:
        if own["count"] < THRESHOLDS.short:
            own["noise"] = min(
                max(own.get("noise", 0.0), THRESHOLDS.noisier * own["top"]), THRESHOLDS.noisiest * enough
            )
        if own["count"] > MAX_SLOW_STEPS:
            own["usual"][:] = own["began"]
        own.update(is_open=False, sums=[], began=[] if own.get("is_open") else own["began"])
    elif total >= max(enough, own.get("noise", 0.0)) and own["lasted"] >= THRESHOLDS.slow_s:
        own["is_open"] = True


def look(own: Mapping[str, Any], state: Mapping[str, Any], now: float) -> Alarm | None:
    """The alarm since the first of the slow steps. The step that is not finished counts for what it took so far."""
    began = list(own.get("began", ()))
    if not own.get("is_open"):
        if not own.get("sums") or state["stage"] != "training" or hang.is_pause_likely(state):
            return None
        seconds = silence_s(state, now) - THRESHOLDS.transport_s
        unfinished = seconds / state["interval"]
        shares = _log_likelihood_ratios(own, unfinished, is_finished=False)
        total = max(total + more for total, more in zip(own["sums"], shares, strict=True))
        if total < max(_alarm_sum(own, state), own.get("noise", 0.0)) or own["lasted"] + seconds < THRESHOLDS.slow_s:
            return None
        began.append(unfinished)
    last = median(began[-LIMITS.shown :])
    text = f"Steps take {last:.1f} s, {times_as_long(last / own['of'][0])} as before."
    return Alarm(id, text, own["since"], category)


def _alarm_sum(own: Mapping[str, Any], state: Mapping[str, Any]) -> float:
    """The sum that is an alarm in this job."""
    usual_s = max(own["of"][0] * state["interval"], 1e-3)
    return float(THRESHOLDS.sum + max(0.0, math.log(THRESHOLDS.reference_s / usual_s)))


def _log_likelihood_ratios(own: Mapping[str, Any], step: float, *, is_finished: bool = True) -> list[float]:
    """What a step adds to each sum: the log of how many times more likely it is under that slowdown.

    The logarithms of steps are taken as normal. Of an unfinished step only its least length is known.
    """
    middle, spread = own["of"]
    at, load = math.log(max(step, 1e-6) / middle) / spread, math.log(THRESHOLDS.load) / spread
    out = []
    for slowdown in THRESHOLDS.slowdowns:
        slow = math.log(slowdown) / spread
        if is_finished:
            more = (slow - load) * (at - (slow + load) / 2)
        else:
            more = math.log(max(_normal_tail(at - slow), 1e-12) / max(_normal_tail(at - load), 1e-12))
        out.append(min(max(more, -THRESHOLDS.step), THRESHOLDS.step))
    return out


def _normal_tail(at: float) -> float:
    """The share of a normal distribution beyond ``at`` spreads."""
    return math.erfc(at / math.sqrt(2.0)) / 2


def _median_and_spread(steps: list[float]) -> list[float]:
    """The median of the steps, and the spread of their logarithms: the wider of two robust ones."""
    ordered = sorted(max(step, 1e-6) for step in steps)
    middle = median(ordered)
    logs = sorted(abs(math.log(step / middle)) for step in ordered)
    high = math.log(ordered[int(THRESHOLDS.high * (len(ordered) - 1))] / middle) / THRESHOLDS.high_spreads
    return [middle, max(MAD_TO_SIGMA * median(logs), high, THRESHOLDS.spread)]
