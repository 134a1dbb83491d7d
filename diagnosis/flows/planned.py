"""Pauses that recur every so many steps: evaluations and checkpoints. They are no part of a step, and nobody's fault.

In such a pause nobody sends. If one rank is late, the others have sent their part already, so it is no such pause.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from diagnosis.flows.capture import Floats, Ints
from diagnosis.flows.jobs import JobFlows
from diagnosis.flows.steps import Steps

#: The measure of the findings about such pauses.
PLANNED: Final = "planned"
#: A pause before a step is longer than the usual time until something is sent by this share of a usual step.
PAUSE: Final = 0.5
#: So many pauses at even distances prove a plan.
RECURS: Final = 3
#: Numbers of steps that a sentence names.
SHOWN: Final = 6
#: Steps between two of them, at least.
EVERY: Final = 3


def without_planned(steps: Steps, job: JobFlows) -> tuple[Steps, str]:
    """The steps, begun after the planned pauses before them, and a sentence about these (empty: none). O(records +
    pauses²).
    """
    if len(steps) < RECURS * EVERY or not len(job.flows):
        return steps, ""
    first = np.minimum(np.searchsorted(job.flows.start, steps.start), len(job.flows) - 1)
    silent = np.clip(job.flows.start[first] - steps.start, 0.0, steps.seconds)
    beyond = silent - float(np.median(silent))
    planned = recurring(np.flatnonzero(beyond > PAUSE * float(np.median(steps.seconds))), len(steps))
    if not len(planned):
        return steps, ""
    start: Floats = steps.start.copy()
    start[planned] += beyond[planned]
    shown = ", ".join(str(k + 1) for k in planned[:SHOWN]) + (", …" if len(planned) > SHOWN else "")
    said = (
        f"Nobody sent for {float(np.median(beyond[planned])):.1f} s before each of {len(planned)} steps at even "
        f"distances ({shown}): an evaluation or a checkpoint, no part of these steps."
    )
    return replace(steps, start=start, planned=tuple(planned.tolist())), said


def recurring(found: Ints, count: int) -> Ints:
    """Those of the found numbers below ``count`` that recur at one distance without an exception, each alone, for every
    such distance. Pauses of steps that follow each other are no plan.
    """
    known = {int(k) for k in found}
    out: set[int] = set()
    for a in sorted(known):
        for b in sorted(k for k in known if k >= a + EVERY):
            series = range(b - (b - a) * (b // (b - a)), count, b - a)
            held = [k for k in series if k >= min(known & set(series))]
            is_alone = not any({k - 1, k + 1} & known for k in held)
            if len(held) >= RECURS and is_alone and known.issuperset(held):
                out.update(held)
    return np.array(sorted(out), dtype=np.int64)
