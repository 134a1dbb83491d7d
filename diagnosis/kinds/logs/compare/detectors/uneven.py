"""Nodes of a slow job that compute longer than their peers, or never wait for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from diagnosis import thresholds
from diagnosis.facts import unevenness
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.compare import rank_measures
from diagnosis.kinds.logs.compare.clues import THRESHOLDS as WEIGHTS
from diagnosis.kinds.logs.compare.clues import Clue

THRESHOLDS: Final = thresholds.of("uneven")

id: Final = "uneven"
why: Final = "the late rank works longer or waits for nobody"
needs: Final = "a slow job, and lines of one message with durations or rates on most nodes"


def find_clues(case: Case) -> Iterator[Clue]:
    """The nodes that :mod:`diagnosis.facts.unevenness` finds slow in a job that became slow."""
    if case.pace.slow_from is None or case.total < THRESHOLDS.nodes:
        return
    for result in unevenness.compare_places(rank_measures.measured(case)):
        if result.is_fault and result.kind == "node" and result.target:
            yield Clue(result.target, WEIGHTS.likely, result.sentence)
