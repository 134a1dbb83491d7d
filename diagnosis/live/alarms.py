"""Alarms: what holds now, and the rows that the state of a job keeps of them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from diagnosis.live.site_time import Moment


class Alarm(NamedTuple):
    """One current problem. ``since``: seconds on the site's clock; ``category``: of the incident
    that it opens.

    ``text`` does not say how long it holds: pages show ``since``, and a stored text would soon
    disagree with them.
    """

    kind: str
    text: str
    since: float
    category: str


class AlarmRow(msgspec.Struct):
    """An alarm that is kept. ``until``: when it ended, None while it holds; ``raised_at``: when it
    was told first, later than ``since``; ``ages_reported``: how many of the ages at which its
    incident is written again it has passed, -1 before the first writing.
    """

    kind: str
    text: str
    since: Moment
    category: str = "unknown"
    until: Moment | None = None
    ages_reported: int = msgspec.field(name="said", default=-1)
    raised_at: Moment | None = None

    @property
    def is_open(self) -> bool:
        """Whether it holds."""
        return self.until is None
