"""The loss of the job is not a number, or jumped far above its own noise."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

import msgspec

from diagnosis import thresholds
from diagnosis.live.alarms import Alarm
from diagnosis.live.job_state import JobState
from diagnosis.live.observation import Count, Loss, LossRow
from diagnosis.live.range_effect import RangeEffect
from diagnosis.live.site_time import Moment
from diagnosis.values.stats import MAD_TO_SIGMA

THRESHOLDS: Final = thresholds.of("losses")

id: Final = "loss"
why: Final = "a run that diverged wastes every further step, and its own loss says what is noise"
category: Final = "user.numerics"

#: Files whose losses are kept, and losses of each that give the usual one.
MAX_FILES: Final = 8
MAX_USUAL_LOSSES: Final = 64
#: After so many high losses they are the usual ones.
MAX_HIGH_LOSSES: Final = 400


class FileLosses(msgspec.Struct):
    """``usual``: the last usual losses; ``not_finite`` and ``high``: unusual ones in turn, the
    first of them at ``iteration`` and ``since``; ``value``: the last high one.
    """

    usual: list[Loss] = []
    not_finite: Count = msgspec.field(name="bad", default=0)
    high: Count = 0
    iteration: Count = msgspec.field(name="n", default=0)
    since: Moment = 0.0
    value: Loss = 0.0

    def forget(self) -> None:
        """Begin again: the losses of an earlier iteration are higher."""
        self.usual = []
        self.not_finite = self.high = 0

    def add(self, row: LossRow, now: float) -> None:
        """Add the loss of one line."""
        if row.loss is None:
            self.not_finite += 1
            self._note_first(self.not_finite, row.number, now)
        elif self._is_spike(row.loss):
            self.high += 1
            self.value = row.loss
            self._note_first(self.high, row.number, now)
        else:
            self._add_usual(row.loss)

    def _note_first(self, in_turn: int, iteration: int, now: float) -> None:
        if in_turn == 1:
            self.iteration, self.since = iteration, now

    def _is_spike(self, loss: float) -> bool:
        limit = _spike_limit(self.usual)
        return limit is not None and loss > limit and self.high < MAX_HIGH_LOSSES

    def _add_usual(self, loss: float) -> None:
        is_new_level = self.high >= MAX_HIGH_LOSSES
        former = [] if is_new_level else self.usual
        self.usual = [*former, loss][-MAX_USUAL_LOSSES:]
        self.not_finite = self.high = 0


class LossState(msgspec.Struct):
    """``files``: file -> its losses."""

    files: dict[str, FileLosses] = {}


record: Final = LossState


def learn(state: LossState, job: JobState, effect: RangeEffect) -> None:
    """Add the losses of a file's progress lines, in order."""
    losses = effect.observation.losses
    file = state.files.get(effect.source)
    if file is None:
        if not losses or len(state.files) >= MAX_FILES:
            return
        file = state.files[effect.source] = FileLosses()
    if effect.has_restarted:
        file.forget()
    for row in losses:
        file.add(row, effect.now)


def find_alarm(state: LossState, job: JobState, now: float) -> Alarm | None:
    """The first file with such losses."""
    for file in state.files.values():
        if file.not_finite >= THRESHOLDS.in_turn:
            text = f"The loss is not a finite number since iteration {file.iteration:,}."
            return Alarm(id, text, file.since, category)
        if file.high >= THRESHOLDS.in_turn and file.usual:
            usual = median(file.usual)
            jump = f"The loss jumped to {file.value:.4g} at iteration {file.iteration:,}"
            return Alarm(id, f"{jump}; before it was {usual:.4g}.", file.since, category)
    return None


def _spike_limit(usual: Sequence[float]) -> float | None:
    """The loss above which it is a spike; None while the usual one is not known."""
    if len(usual) < THRESHOLDS.usual:
        return None
    middle = median(usual)
    spread = MAD_TO_SIGMA * median(abs(value - middle) for value in usual)
    return float(middle + max(THRESHOLDS.spreads * spread, THRESHOLDS.share * abs(middle)))
