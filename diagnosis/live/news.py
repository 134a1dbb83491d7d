"""What a new range adds to the state of a running job, and the alarms that follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Alarm(NamedTuple):
    """One current problem. ``since``: seconds on the site's clock; ``category``: of the incident that it opens.

    ``text`` does not say how long it holds: pages show ``since``, and a stored text would soon disagree with them.
    """

    kind: str
    text: str
    since: float
    category: str


class Pause(NamedTuple):
    """The time between two counts. ``stage``: the last one that a line announced in between, ``training`` if none did;
    ``parts``: each announced stage with the seconds until the next announcement or count.
    """

    after: int
    seconds: float
    stage: str
    parts: tuple[tuple[str, float], ...] = ()


class News(NamedTuple):
    """The ``observation`` of one range of ``source``, and its effect on the job's progress."""

    source: str
    observation: Mapping[str, Any]
    now: float
    has_advanced: bool
    #: of the counter that leads: seconds of an iteration, without announced stages in between; all times between counts
    steps: tuple[float, ...]
    pauses: tuple[Pause, ...]
    has_restarted: bool


def empty_observation() -> dict[str, Any]:
    """The observation of a range without lines."""
    return {
        "lines": 0,
        "counters": {},
        "losses": [],
        "stage": None,
        "stage_at": None,
        "announced": [],
        "errors": [],
        "tallies": {"errors": 0, "retries": 0},
        "disks": [],
        "writers": [],
    }
