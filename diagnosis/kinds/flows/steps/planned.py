"""Pauses that recur every so many steps: evaluations and checkpoints. They are no part of a step, and nobody's fault.

In such a pause nobody sends. If one rank is late, the others have sent their part already, so it is no such pause.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Floats, Ints
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.values.plain import duration

THRESHOLDS: Final = thresholds.of("planned")

#: The measure of the findings about such pauses.
PLANNED: Final = "planned"
#: Numbers of steps that a sentence names.
MAX_SHOWN: Final = 6
#: Steps between two of them, at least and at most.
MAX_STEPS_APART: Final = 2000


def without_planned(steps: Steps, job: JobFlows) -> tuple[Steps, str]:
    """The steps, begun after planned pauses, and a sentence on these. O(records + steps)."""
    if len(steps) < THRESHOLDS.min_pauses * THRESHOLDS.min_steps_apart or not len(job.flows):
        return steps, ""
    first = np.minimum(np.searchsorted(job.flows.start, steps.start), len(job.flows) - 1)
    silent = np.clip(job.flows.start[first] - steps.start, 0.0, steps.seconds)
    beyond = silent - float(np.median(silent))
    planned = recurring_steps(
        np.flatnonzero(beyond > THRESHOLDS.min_pause_share * float(np.median(steps.seconds))), len(steps)
    )
    if not len(planned):
        return steps, ""
    start: Floats = steps.start.copy()
    start[planned] += beyond[planned]
    shown = ", ".join(str(k + 1) for k in planned[:MAX_SHOWN]) + (", …" if len(planned) > MAX_SHOWN else "")
    sentence = (
        f"Nothing was sent for {duration(float(np.median(beyond[planned])))} before each of {len(planned)} steps at "
        f"even distances ({shown}). An evaluation or a checkpoint is likely, which is no part of these steps."
    )
    return replace(steps, start=start, planned=tuple(planned.tolist())), sentence


def recurring_steps(found: Ints, count: int) -> Ints:
    """Those of the found numbers below ``count`` that recur at one distance without an exception, each alone, for every
    such distance: from the first of the steps to the last, because a plan begins with the job. What is before step 0 is
    not seen. Pauses of steps that follow each other are no plan. O(count × :data:`MAX_STEPS_APART`).
    """
    if len(found) < THRESHOLDS.min_pauses:
        return np.empty(0, dtype=np.int64)
    padded = count + MAX_STEPS_APART
    is_found, near, out = (np.zeros(padded, dtype=np.bool_) for _ in range(3))
    is_found[found] = True
    near[1:] = is_found[:-1]
    near[:-1] |= is_found[1:]
    is_due = np.arange(padded) < count
    is_due[0] = False
    for distance in range(THRESHOLDS.min_steps_apart, min(MAX_STEPS_APART, count // (THRESHOLDS.min_pauses - 1)) + 1):
        rows = -(-count // distance)
        table, is_near, is_missing = (
            one[: rows * distance].reshape(rows, distance) for one in (is_found, near, is_due & ~is_found)
        )
        is_plan = ~is_missing.any(axis=0) & (table.sum(axis=0) >= THRESHOLDS.min_pauses)
        is_plan &= ~(table & is_near).any(axis=0)
        out[: rows * distance] |= (table & is_plan).ravel()
    return np.flatnonzero(out)
