"""Two machines that are slow at the same time, as one more hypothesis beside each machine and path.

Each of the two is late for a part of the lost time, so neither explains all of it, and each speaks
against the other. What both show counts twice, what one of them alone shows not at all: beside one
slow machine the second has little to add. How late a third one was is counted off: where everybody
is late, two are not to blame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Floats
from diagnosis.kinds.flows.slow.delays import EVIDENCE, Candidate

THRESHOLDS: Final = thresholds.of("two_at_once")

_LATE, _ELSEWHERE, _OTHERS, _LOST = map(EVIDENCE.index, ("late", "elsewhere", "others", "lost"))


def with_two(candidates: Sequence[Candidate], evidence: Floats) -> tuple[list[Candidate], Floats]:
    """The candidates and their evidence, and last the two machines that were late most; unchanged
    where these are no small part of all.
    """
    machines = [at for at, candidate in enumerate(candidates) if candidate.kind == "node"]
    if len(machines) < THRESHOLDS.machines:
        return list(candidates), evidence
    late = evidence[machines, _LATE]
    first, second, *others = (machines[at] for at in np.argsort(-late, kind="stable"))
    both = evidence[[first, second]]
    row = 2.0 * both.min(axis=0)
    row[_LOST] = both[:, _LOST].min()
    row[_ELSEWHERE] = both[:, _ELSEWHERE].max()
    third = evidence[others, _LATE].max()
    row[_LATE] = max(0.0, row[_LATE] - third)
    row[_OTHERS] = -third
    one, other = sorted((candidates[first], candidates[second]), key=lambda one: one.names)
    is_machine = one.is_machine and other.is_machine
    two = Candidate("two", (*one.names, *other.names), (*one.members, *other.members), is_machine)
    return [*candidates, two], np.vstack([evidence, row])
