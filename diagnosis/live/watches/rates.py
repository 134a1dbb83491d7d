"""Lines of one sort that come in greater numbers than this stage's own history: error lines,
retries.

Lines are counted in windows. Each stage remembers its largest window so far; a window that a
launch, an evaluation or a checkpoint touches is one of that stage, since these print warnings of
their own: a launch most, and those of the run that it ends come with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from diagnosis import thresholds
from diagnosis.live.alarms import Alarm
from diagnosis.live.job_state import TRAINING, JobState
from diagnosis.live.observation import Count, Lines, LineTallies
from diagnosis.live.range_effect import RangeEffect
from diagnosis.live.site_absence import is_catching_up
from diagnosis.live.site_time import Moment

THRESHOLDS: Final = thresholds.of("rates")

LAUNCH: Final = "launch"


class RateState(msgspec.Struct):
    """The window that is open began at ``began_at`` (unset: none), has ``count`` lines and belongs
    to ``stage``.

    ``last``: lines of the window before; ``hits``: when the last windows with many lines began;
    ``many``: how many of them came since it was quiet, ``waiting``: stage -> the largest of them;
    ``quiet``: quiet windows since the last of them; ``is_open``: the alarm holds.

    Of each stage: ``most``: lines of its largest window; ``windows``: their number; ``visits``: how
    often it began.
    """

    began_at: Moment | msgspec.UnsetType = msgspec.field(name="began", default=msgspec.UNSET)
    count: Lines = 0
    stage: str = TRAINING
    last: Lines = 0
    hits: list[Moment] = []
    many: Count = 0
    waiting: dict[str, Lines] = msgspec.field(name="waits", default_factory=dict)
    quiet: Count = 0
    is_open: bool = False
    most: dict[str, Lines] = {}
    windows: dict[str, Count] = {}
    visits: dict[str, Count] = {}

    def begin_again(self, now: float) -> None:
        """Open the first window; what is known of the stages stays."""
        self.began_at, self.count, self.stage = now, 0, TRAINING
        self.forget_hits()
        self.quiet = 0

    def forget_hits(self) -> None:
        """Forget the windows with many lines."""
        self.hits = []
        self.waiting = {}
        self.many = 0


class Rate(msgspec.Struct, frozen=True):
    """A watch over one tally of the ranges.

    ``tally``: the number of such lines in a range; ``window_s``: seconds of a window;
    ``min_lines``: lines in it from which it may be an alarm; ``factor``: how many times the largest
    window so far; ``windows_in_turn``: such windows in turn that are an alarm; ``text``: what the
    lines are.
    """

    id: str
    why: str
    category: str
    tally: Callable[[LineTallies], int]
    window_s: float
    min_lines: int
    factor: float
    windows_in_turn: int
    text: str
    record: type[RateState] = RateState

    def learn(self, state: RateState, job: JobState, effect: RangeEffect) -> None:
        """Count; a window that is over is judged and joins the history of its stage."""
        is_late = is_catching_up(job, effect.now)
        if is_late or state.began_at is msgspec.UNSET:  # an hour of lines in one window is none
            state.begin_again(effect.now)
        elif effect.now - state.began_at >= self.window_s:
            self._close(state, state.began_at, effect.now)
        if is_late:
            return
        state.count += self.tally(effect.observation.tallies)
        begun = begun_stages(job, effect)
        touched = [state.stage, job.stage_now, effect.observation.stage or TRAINING, *begun]
        state.stage = _stage_of_window(touched)
        for stage in begun:
            state.visits[stage] = state.visits.get(stage, 0) + 1

    def find_alarm(self, state: RateState, job: JobState, now: float) -> Alarm | None:
        """The alarm since the first of the windows."""
        if state.began_at is msgspec.UNSET or not self._is_alarm(state):
            return None
        since = state.hits[0] if state.hits else state.began_at
        count = max(state.count, state.last)
        usual = state.most.get(state.stage, 0)
        window = f"within {self.window_s:.0f} s"
        text = f"{count:,} {self.text} {window}; at most {usual:,} before."
        return Alarm(self.id, text, since, self.category)

    def _is_alarm(self, state: RateState) -> bool:
        """Whether the alarm holds, or the window that is not over decides it."""
        if state.is_open:
            return True
        return len(state.hits) == self.windows_in_turn - 1 and self._has_many(state)

    def _close(self, state: RateState, began_at: float, now: float) -> None:
        """Judge the window that is over, and open the next one."""
        if self._has_many(state):
            self._add_hit(state, began_at)
        else:
            self._add_quiet(state)
        stage, count = state.stage, state.count
        if not state.hits:
            state.most[stage] = max(state.most.get(stage, 0), count)
            state.windows[stage] = state.windows.get(stage, 0) + 1
        state.began_at, state.last = now, count
        state.count, state.stage = 0, TRAINING

    def _add_hit(self, state: RateState, began_at: float) -> None:
        state.hits = [*state.hits, began_at][-self.windows_in_turn :]
        state.is_open |= len(state.hits) >= self.windows_in_turn
        state.many += 1
        state.quiet = 0
        state.waiting[state.stage] = max(state.count, state.waiting.get(state.stage, 0))

    def _add_quiet(self, state: RateState) -> None:
        if state.quiet + 1 < THRESHOLDS.quiet:
            state.quiet += 1
            return
        if state.many <= self.windows_in_turn:  # what passed at once is usual in this job
            state.most |= state.waiting
        state.is_open = False
        state.forget_hits()

    def _has_many(self, state: RateState) -> bool:
        """Whether the window has many more lines than those of its stage before."""
        stage = state.stage
        if state.windows.get(stage, 0) < THRESHOLDS.windows:
            return False
        least = float(self.min_lines)
        if stage != TRAINING:
            visits = max(state.visits.get(stage, 0), 1)
            least *= max(1.0, THRESHOLDS.often / visits)
        return state.count >= max(least, self.factor * state.most.get(stage, 0))


def begun_stages(job: JobState, effect: RangeEffect) -> list[str]:
    """The stages that begin in a range."""
    observation = effect.observation
    begun = []
    for rows in observation.counters.values():
        for row in rows:
            begun += [mark.stage for mark in row.announced]
    begun += [mark.stage for mark in observation.announced]
    last = observation.stage
    if last and last not in (*begun, job.stage):
        begun.append(last)
    return begun


def _stage_of_window(touched: list[str]) -> str:
    """The stage of a window that touches these: a launch, else the first but training."""
    if LAUNCH in touched:
        return LAUNCH
    return next((stage for stage in touched if stage != TRAINING), TRAINING)


BURST: Final = Rate(
    id="burst",
    why="a job in trouble prints errors that no rule knows, many times more than it ever did",
    category="unknown",
    tally=lambda tallies: tallies.errors,
    **THRESHOLDS.burst,
    text="error lines",
)
RETRIES: Final = Rate(
    id="retries",
    why="storage and links that begin to fail are tried again before anything breaks",
    category="unknown",
    tally=lambda tallies: tallies.retries,
    **THRESHOLDS.retries,
    text="lines about retries",
)
