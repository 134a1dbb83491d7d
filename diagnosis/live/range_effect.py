"""What a new range of a log adds to the state of a running job."""

from __future__ import annotations

from typing import NamedTuple

from diagnosis.live.observation import Observation


class Pause(NamedTuple):
    """The time between two counts. ``after``: the first of them; ``stage``: the last one that a
    line announced in between, ``training`` if none did; ``parts``: each announced stage with the
    seconds until the next announcement or count.
    """

    after: int
    seconds: float
    stage: str
    parts: tuple[tuple[str, float], ...] = ()


class RangeEffect(NamedTuple):
    """The observation of one range of ``source``, and its effect on the job's progress.

    ``has_advanced``: some counter grew. The others are of the counter that leads: ``steps``:
    seconds of an iteration, without announced stages in between; ``pauses``: all times between
    counts; ``has_restarted``: it counts again from an earlier number.
    """

    source: str
    observation: Observation
    now: float
    has_advanced: bool = False
    steps: tuple[float, ...] = ()
    pauses: tuple[Pause, ...] = ()
    has_restarted: bool = False
