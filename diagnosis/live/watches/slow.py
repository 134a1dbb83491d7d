"""Steps that take longer than the job's own: a cumulative sum of how surprising each step is.

One slow step is a pause, and noise passes; only steps that stay slow add up (Page's CUSUM test, one-sided). The usual
step and its spread are the job's own, of the steps before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median
from typing import Any, Final

from diagnosis.live.attention import silence_s
from diagnosis.live.news import Alarm, News
from diagnosis.live.watches import hang

id: Final = "slow"
why: Final = "a throttled GPU or a lossy link slows every step from one moment on, and the sum of small signs shows it"
category: Final = "performance.step"

#: Steps that give the usual one, and from how many on.
USUAL_STEPS: Final = 48
KNOWN_STEPS: Final = 16
#: The slowdown from which a step adds to the sum; the greatest addition of one step; the sum that is an alarm.
SLOWER: Final = 1.3
MOST: Final = 3.9
#: The same of steps from so many seconds on: two of them are a long time, and there are few of them.
MOST_LONG: Final = 4.2
LONG_S: Final = 10.0
ENOUGH: Final = 8.0
#: The spread is never taken for less: stamps in whole milliseconds, few steps.
LEAST_SPREAD: Final = 0.04
#: Seconds from a printed line to its judgement, at most usually; seconds that slow steps must last.
TRANSPORT_S: Final = 6.0
LASTING_S: Final = 6.0
#: Slow steps that pass after fewer are this job's noise: as much of it is no alarm again.
SHORT: Final = 10
#: After so many slow steps they are the usual ones of this job.
ACCEPTED: Final = 400


def learn(own: dict[str, Any], state: Mapping[str, Any], news: News) -> None:
    """Add the new steps to the sum, and to the usual ones while there is no alarm."""
    if news.has_restarted:
        own.clear()
    usual = own.setdefault("usual", [])
    for step in news.steps:
        if len(usual) >= KNOWN_STEPS:
            _add(own, step, news.now)
        if not own.get("is_open"):
            usual.append(step)
            del usual[:-USUAL_STEPS]
            own["of"] = _of(usual)


def _add(own: dict[str, Any], step: float, now: float) -> None:
    """Add one step. ``began``: the steps since the sum left zero; ``top``: its maximum; ``noise``: what passed."""
    total = max(0.0, own.get("sum", 0.0) + _share(own, step))
    if not own.get("sum"):
        own.update(since=now, began=[], count=0, lasted=0.0, top=0.0)
    own["sum"] = min(total, 3 * ENOUGH)
    if total > 0.0:
        own["began"] = [*own["began"], step][-USUAL_STEPS:]
        own["count"], own["lasted"], own["top"] = own["count"] + 1, own["lasted"] + step, max(own["top"], total)
    is_over = total < ENOUGH / 2 or own["count"] > ACCEPTED
    if (own.get("is_open") and is_over) or total <= 0.0:
        if own["count"] < SHORT:
            own["noise"] = min(max(own.get("noise", 0.0), 1.2 * own["top"]), 4 * ENOUGH)
        own.update(is_open=False, sum=0.0)
        if own["count"] > ACCEPTED:
            own["usual"][:] = own["began"]
    elif total >= max(ENOUGH, own.get("noise", 0.0)) and own["lasted"] >= LASTING_S:
        own["is_open"] = True


def look(own: Mapping[str, Any], state: Mapping[str, Any], now: float) -> Alarm | None:
    """The alarm since the first of the slow steps. The step that is not finished counts for what it took so far."""
    began = list(own.get("began", ()))
    if not own.get("is_open"):
        if not own.get("sum") or state["stage"] != "training" or hang.is_pause_likely(state):
            return None
        unfinished = (silence_s(state, now) - TRANSPORT_S) / state["interval"]
        total = own["sum"] + _share(own, unfinished)
        if total < max(ENOUGH, own.get("noise", 0.0)) or own["lasted"] + unfinished < LASTING_S:
            return None
        began.append(unfinished)
    last = median(began[-8:])
    text = f"Steps take {last:.1f} s, {last / own['of'][0]:.1f} times as long as before."
    return Alarm(id, text, own["since"], category)


def _share(own: Mapping[str, Any], step: float) -> float:
    """What a step adds: how far it is beyond a slowdown that matters, in spreads of the usual steps."""
    middle, spread = own["of"]
    beyond = (math.log(max(step, 1e-6) / middle) - math.log(SLOWER)) / spread
    return float(min(beyond, MOST_LONG if middle >= LONG_S else MOST))


def _of(steps: list[float]) -> list[float]:
    """The median of the steps, and the spread of their logarithms: the wider of two robust ones."""
    ordered = sorted(max(step, 1e-6) for step in steps)
    middle = median(ordered)
    logs = sorted(abs(math.log(step / middle)) for step in ordered)
    high = math.log(ordered[int(0.9 * (len(ordered) - 1))] / middle) / 1.28
    return [middle, max(1.4826 * median(logs), high, LEAST_SPREAD)]
