"""Lines of one sort that come in greater numbers than this stage's own history: error lines, retries.

Lines are counted in windows. Each stage remembers its largest window so far; a window that a launch, an evaluation or a
checkpoint touches is one of that stage, since these print warnings of their own: a launch most, and those of the run
that it ends come with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from diagnosis import thresholds
from diagnosis.live.attention import is_catching_up
from diagnosis.live.news import Alarm, News

THRESHOLDS: Final = thresholds.of("rates")

LAUNCH: Final = "launch"


@dataclass(frozen=True, slots=True)
class Rate:
    """A watch over one tally of the ranges (``errors``, ``retries``).

    ``window_s``: seconds of a window; ``min_lines``: lines in it from which it may be an alarm; ``factor``: how many
    times the largest window so far; ``windows_in_turn``: such windows in turn that are an alarm.
    """

    id: str
    why: str
    category: str
    tally: str
    window_s: float
    min_lines: int
    factor: float
    windows_in_turn: int
    text: str

    def learn(self, own: dict[str, Any], state: Mapping[str, Any], news: News) -> None:
        """Count; a window that is over is judged and joins the history of its stage."""
        if "began" not in own or is_catching_up(state, news.now):  # an hour of lines in one window is none
            known = {name: own.get(name, {}) for name in ("most", "windows", "visits")}
            own.update(began=news.now, count=0, stage="training", quiet=0, hits=[], waits={}, many=0, **known)
        if news.now - own["began"] >= self.window_s:
            self._close(own, news.now)
        if is_catching_up(state, news.now):
            return
        own["count"] += int(news.observation.get("tallies", {}).get(self.tally, 0))
        touched = [s for s in (own["stage"], *touched_stages(state, news)) if s != "training"]
        own["stage"] = LAUNCH if LAUNCH in touched else next(iter(touched), "training")
        for stage in begun_stages(state, news):
            own["visits"][stage] = own["visits"].get(stage, 0) + 1

    def look(self, own: Mapping[str, Any], state: Mapping[str, Any], now: float) -> Alarm | None:
        """The alarm since the first of the windows."""
        hits = own.get("hits", ())
        is_now = (
            "began" in own and len(hits) == self.windows_in_turn - 1 and self._is_many(own, own["stage"], own["count"])
        )
        if not (is_now or own.get("is_open")):
            return None
        since = hits[0] if hits else own["began"]
        count = max(own["count"], own.get("last", 0))
        usual = own["most"].get(own["stage"], 0)
        text = f"{count:,} {self.text} within {self.window_s:.0f} s; at most {usual:,} before."
        return Alarm(self.id, text, since, self.category)

    def _close(self, own: dict[str, Any], now: float) -> None:
        stage, count = own["stage"], own["count"]
        if self._is_many(own, stage, count):
            own["hits"] = [*own["hits"], own["began"]][-self.windows_in_turn :]
            own["is_open"] = own.get("is_open", False) or len(own["hits"]) >= self.windows_in_turn
            own["many"] += 1
            own["quiet"], own["waits"][stage] = 0, max(count, own["waits"].get(stage, 0))
        elif own["quiet"] + 1 < THRESHOLDS.quiet:
            own["quiet"] += 1
        else:
            if own["many"] <= self.windows_in_turn:  # what passed at once is usual in this job
                own["most"] |= own["waits"]
            own.update(is_open=False, hits=[], waits={}, many=0)
        if not own["hits"]:
            own["most"][stage] = max(own["most"].get(stage, 0), count)
            own["windows"][stage] = own["windows"].get(stage, 0) + 1
        own.update(began=now, count=0, last=count, stage="training")

    def _is_many(self, own: Mapping[str, Any], stage: str, count: int) -> bool:
        windows = own["windows"].get(stage, 0)
        least = float(self.min_lines)
        if stage != "training":
            least *= max(1.0, THRESHOLDS.often / max(own["visits"].get(stage, 0), 1))
        return bool(windows >= THRESHOLDS.windows and count >= max(least, self.factor * own["most"].get(stage, 0)))


def touched_stages(state: Mapping[str, Any], news: News) -> list[str]:
    """The stages that a range touches."""
    return [state["stage"] or "training", news.observation["stage"] or "training", *begun_stages(state, news)]


def begun_stages(state: Mapping[str, Any], news: News) -> list[str]:
    """The stages that begin in a range."""
    counted = [mark for counts in news.observation["counters"].values() for row in counts for mark in row[2]]
    begun = [str(mark[0]) for mark in (*counted, *news.observation["announced"])]
    last = news.observation["stage"]
    return begun if not last or last in (*begun, state["stage"]) else [*begun, str(last)]


BURST: Final = Rate(
    id="burst",
    why="a job in trouble prints errors that no rule knows, many times more than it ever did",
    category="unknown",
    tally="errors",
    **THRESHOLDS.burst,
    text="error lines",
)
RETRIES: Final = Rate(
    id="retries",
    why="storage and links that begin to fail are tried again before anything breaks",
    category="unknown",
    tally="retries",
    **THRESHOLDS.retries,
    text="lines about retries",
)
