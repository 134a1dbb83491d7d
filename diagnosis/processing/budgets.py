"""Budgets of processor time: each stage of a diagnosis has one, relative to the size of the evidence. A stage that goes
over is left out, with a sentence, and the rest of the diagnosis goes on.

The engine reads no clock: its caller gives an :class:`Alarm`, and :class:`CpuAlarm` is the one for processes. It stops
what Python runs, patterns too, but no other native code. For that there is ``left_out``: who ended the process from
outside diagnoses again without the stage that ran last.
"""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from typing import Any, Final, Protocol

from diagnosis import thresholds
from diagnosis.model import Parsed

LIMITS: Final = thresholds.limits("budgets")

_OVER: Final = (
    "One stage of the diagnosis was left out ({stage}): it took longer than the {seconds:,.0f} seconds of processor "
    "time that evidence of this size may take."
)
_LEFT_OUT: Final = (
    "One stage of the diagnosis was left out ({stage}): its process crashed, or took too long. Please report "
    "this evidence."
)


class Over(BaseException):
    """The alarm rings. No ``Exception``: what handles errors of evidence must not handle it."""


class Alarm(Protocol):
    """Raises :class:`Over` where the caller runs, once ``now()`` (seconds of processor time) passes the moment that was
    ``set``; infinity: never. ``tell`` gets the name of the stage that runs now.
    """

    def now(self) -> float: ...
    def set(self, moment: float) -> None: ...
    def tell(self, stage: str) -> None: ...


class NoAlarm:
    """Never rings."""

    def now(self) -> float:
        return 0.0

    def set(self, moment: float) -> None:
        """Nothing to do."""

    def tell(self, stage: str) -> None:
        """Nothing to do."""


def _tell_nobody(stage: str) -> None:
    """Nothing to do."""


class CpuAlarm:
    """Rings after processor time of this process, in the main thread; elsewhere never. ``told`` gets the stages."""

    _AGAIN_S: Final = 0.2  # it rings until it is heard: an error raised in a finaliser is lost

    def __init__(self, told: Callable[[str], None] = _tell_nobody) -> None:
        self._told = told
        self._holds = 0
        self._moment = math.inf
        self._can_ring = threading.current_thread() is threading.main_thread()

    def now(self) -> float:
        return time.process_time()

    def set(self, moment: float) -> None:
        self._moment = math.inf
        if not self._can_ring:
            return
        signal.signal(signal.SIGVTALRM, self._ring)
        if moment == math.inf:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
            return
        self._moment = moment
        wait = max(moment - self.now(), 0.001)
        signal.setitimer(signal.ITIMER_VIRTUAL, wait, self._AGAIN_S)

    def tell(self, stage: str) -> None:
        with self.held():
            self._told(stage)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Does not ring meanwhile: a message that is sent in part would break its connection."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    def _ring(self, *_: Any) -> None:
        if not self._holds and self.now() >= self._moment:
            raise Over


class Budgets:
    """The budgets of one diagnosis. ``left_out``: stages that are not done; ``told``: sentences about the stages
    without a result.
    """

    def __init__(
        self, parsed: Sequence[Parsed] = (), alarm: Alarm | None = None, left_out: Collection[str] = ()
    ) -> None:
        self.told: list[str] = []
        self._alarm = alarm or NoAlarm()
        self._left_out = left_out
        self._running: list[tuple[str, float]] = [("", math.inf)]  # stages within each other, and their ends
        mib = sum(p.bytes for p in parsed) / (1 << 20)
        self._sized_s = mib * LIMITS.mib_s + sum(p.lines for p in parsed) / 1e6 * LIMITS.million_rows_s

    def apart(self) -> Budgets:
        """The same budgets, for a stage that may run in another process."""
        other = copy(self)
        other.told, other._running = [], list(self._running)
        return other

    def run[R](self, stage: str, act: Callable[[], R], otherwise: R, *, is_part: bool = False) -> R:
        """The result of a stage; ``otherwise`` if it is left out or goes over. ``is_part``: it has stages of its own
        and the budget of a part. Raises :class:`Over` if the stage around it is over, too.
        """
        if stage in self._left_out:
            self.told.append(_LEFT_OUT.format(stage=stage))
            return otherwise
        outer, outer_end = self._running[-1]
        seconds = (LIMITS.part_s if is_part else LIMITS.stage_s) + self._sized_s
        end = min(outer_end, self._alarm.now() + seconds)
        self._running.append((stage, end))
        try:
            self._alarm.tell(stage)
            self._alarm.set(end)
            result = act()
            self._alarm.set(math.inf)  # here, where the alarm of the last moment is still handled
            return result
        except Over:
            self._alarm.set(math.inf)
            if self._alarm.now() >= outer_end:
                raise
            self.told.append(_OVER.format(stage=stage, seconds=seconds))
            return otherwise
        finally:
            self._running.pop()
            self._alarm.tell(outer)
            self._alarm.set(outer_end)
