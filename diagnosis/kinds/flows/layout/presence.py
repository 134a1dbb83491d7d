"""The number of members at the same time, if some replaced others during the capture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diagnosis.kinds.flows.capture.capture import Floats, Flows, Ints

#: Number of times at which members are counted.
COUNTED_MOMENTS = 64


@dataclass(frozen=True, slots=True)
class Presence:
    """The number of addresses at the same time: an address that begins when another ends (a spare machine, a second
    adapter) replaced it. ``first`` and ``last``: first and last time of each address.
    """

    first: Floats
    last: Floats

    @classmethod
    def of(cls, flows: Flows, count: int) -> Presence:
        first, last = np.full(count, np.inf), np.full(count, -np.inf)
        for _, part in flows.parts():
            for end in (part.src, part.dst):
                np.minimum.at(first, end, part.start)
                np.maximum.at(last, end, part.start)
        return cls(first, last)

    def __call__(self, members: Ints) -> int:
        begin, end = np.sort(self.first[members]), np.sort(self.last[members])
        if not len(members) or begin[-1] <= end[0]:
            return len(members)
        moment = np.linspace(begin[0], end[-1], COUNTED_MOMENTS)
        present = np.searchsorted(begin, moment, side="right") - np.searchsorted(end, moment)
        return int(np.quantile(present, 0.9))
