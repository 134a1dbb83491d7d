"""The usual time of an iteration of a job, and how much it varies."""

from __future__ import annotations

import math
from statistics import median
from typing import Final

from diagnosis.live.job_state import JobState
from diagnosis.values.stats import MAD_TO_SIGMA

#: Maximum that :func:`spread` says: more is no noise.
MAX_SPREAD: Final = 0.5
#: Number of iterations that are read, the last ones, and from how many on.
MAX_STEPS: Final = 64
MIN_STEPS: Final = 5


def step_s(job: JobState) -> float | None:
    """The usual seconds of an iteration: the median of the last ones. None before five."""
    if len(job.steps) < MIN_STEPS:
        return None
    return median(job.steps[-MAX_STEPS:])


def count_interval_s(job: JobState) -> float | None:
    """The usual seconds between two printed counts; None before five."""
    usual = step_s(job)
    return None if usual is None else usual * job.interval


def spread(job: JobState) -> float:
    """How much the last iterations differ, as a share: the standard deviation of their logarithms,
    from the median of distances, which single slow ones do not move. 0 before five.
    """
    usual = step_s(job)
    if not usual:
        return 0.0
    distances = [abs(math.log(max(step, 1e-6) / usual)) for step in job.steps[-MAX_STEPS:]]
    return min(MAX_SPREAD, MAD_TO_SIGMA * median(distances))
