"""The watches of a running job: each has one kind of alarm, a reason, and a history of its own.

One table, the most severe first. A new watch is one module (or one more :class:`~diagnosis.live.watches.rates.Rate`)
with ``id``, ``why``, ``category``, ``learn`` and ``look``, its test, and a row here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from diagnosis.live.news import Alarm, News
from diagnosis.live.watches import disk, error, hang, losses, rates, silent, slow


class Watch(Protocol):
    """``id``: the kind of its alarms. ``why``: why it works, a clause. ``category``: of the incident that it opens.

    ``learn`` adds one range to ``own``, the JSON object of this watch; ``look`` gives its alarm at ``now``. Both see
    the job's state, which only :mod:`diagnosis.live.state` changes, and cost at most a pass over ``own``.
    """

    @property
    def id(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def category(self) -> str: ...
    def learn(self, own: dict[str, Any], state: Mapping[str, Any], news: News) -> None: ...
    def look(self, own: Mapping[str, Any], state: Mapping[str, Any], now: float) -> Alarm | None: ...


TABLE: Final[Sequence[Watch]] = (error, hang, losses, silent, slow, rates.BURST, rates.RETRIES, disk)
