"""Measures: what one place states of its own steps, in order, so that places can be compared step
by step.
"""

from __future__ import annotations

import msgspec

from diagnosis.evidence.place_names import Place

#: Values that are kept of one place.
MAX_VALUES = 4_096


class Measure(msgspec.Struct, frozen=True):
    """One measured quantity of one place.

    ``name`` in words, the same for all places that are compared; ``sense``: ``work`` (a time that
    the place itself took), ``wait`` (a time with or for others), ``rate``, ``size`` (of the work),
    ``stage`` (of a pipeline) or ``level``; ``unit``: ``s``, else as written; ``values`` in the order
    of the steps, ``steps`` their numbers, empty where the place states none. ``part``: the
    rank or the device of the node; ``line`` of the file ``path`` is 1-based, 0 if unknown.
    """

    place: Place
    name: str
    sense: str
    unit: str
    values: tuple[float, ...]
    part: str = ""
    path: str = ""
    line: int = 0
    steps: tuple[int, ...] = ()
