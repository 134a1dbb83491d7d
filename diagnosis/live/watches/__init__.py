"""The watches of a running job: each has one kind of alarm, a reason, and a state of its own.

One table, the most severe first. A new watch is one module (or one more
:class:`~diagnosis.live.watches.rates.Rate`) with what :class:`Watch` lists, its test, and a row
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from diagnosis.live.alarms import Alarm
from diagnosis.live.job_state import JobState
from diagnosis.live.range_effect import RangeEffect
from diagnosis.live.watches import disk, ended, error, hang, losses, rates, silent, slow


class Watch[State: msgspec.Struct](Protocol):
    """``id``: the kind of its alarms. ``why``: why it works, a clause. ``category``: of the
    incident that it opens.

    ``record``: the type of its state. ``learn`` adds one range to ``state``; ``find_alarm`` gives
    its alarm at ``now``. Both read the state of the job, which only
    :mod:`diagnosis.live.job_learning` changes, and cost at most a pass over ``state``.
    """

    @property
    def id(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def category(self) -> str: ...
    @property
    def record(self) -> type[State]: ...
    def learn(self, state: State, job: JobState, effect: RangeEffect) -> None: ...
    def find_alarm(self, state: State, job: JobState, now: float) -> Alarm | None: ...


TABLE: Final[Sequence[Watch[Any]]] = (
    error,
    ended,
    hang,
    losses,
    silent,
    slow,
    rates.BURST,
    rates.RETRIES,
    disk,
)
