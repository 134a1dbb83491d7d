"""How many took part at once, where some came in the place of others while the capture ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diagnosis.flows.capture import Floats, Flows, Ints

#: Moments at which those present are counted.
MOMENTS = 64


@dataclass(frozen=True, slots=True)
class AtOnce:
    """How many of some addresses took part at once: one that ends where another begins (a spare machine, a second
    adapter) took its place. ``first`` and ``last``: when each address was seen.
    """

    first: Floats
    last: Floats

    @classmethod
    def of(cls, flows: Flows, count: int) -> AtOnce:
        first, last = np.full(count, np.inf), np.full(count, -np.inf)
        for end in (flows.src, flows.dst):
            np.minimum.at(first, end, flows.start)
            np.maximum.at(last, end, flows.start)
        return cls(first, last)

    def __call__(self, members: Ints) -> int:
        begin, end = np.sort(self.first[members]), np.sort(self.last[members])
        if not len(members) or begin[-1] <= end[0]:
            return len(members)
        moment = np.linspace(begin[0], end[-1], MOMENTS)
        present = np.searchsorted(begin, moment, side="right") - np.searchsorted(end, moment)
        return int(np.quantile(present, 0.9))
