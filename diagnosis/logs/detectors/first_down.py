"""The node whose launcher gave up first, clearly before the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from diagnosis import thresholds
from diagnosis.logs.case import Case
from diagnosis.logs.clocks import SECOND
from diagnosis.logs.clues import Clue

AT: Final = thresholds.of("first_down")

id: Final = "first_down"
why: Final = "the launcher beside a dead worker notices it first"
needs: Final = "three nodes with times, all of whose launchers ended their workers"


def look(case: Case) -> Iterator[Clue]:
    """The first one, the surer the longer it was ahead."""
    ends = case.torn_down()
    timed = ends.drop_nulls("at")
    if timed.height < 3 or ends.height < len(case.catalogue.nodes):
        return
    node, ahead = timed["node"][0], (int(timed["at"][1]) - int(timed["at"][0])) / SECOND
    if ahead >= AT.ahead_s:
        reason = f"{node} was torn down first, {ahead:.1f} s before the next node"
        yield Clue(node, min(0.55, 0.3 + 0.1 * ahead), reason)
