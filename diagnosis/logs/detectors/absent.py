"""Nodes of the job whose training wrote nothing at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from diagnosis import stats, thresholds
from diagnosis.logs.case import LOST, Case
from diagnosis.logs.clues import Clue

AT: Final = thresholds.of("absent")

id: Final = "absent"
why: Final = "a lost machine sends no log"
needs: Final = "an inventory, or logs other than a kernel's"


def look(case: Case) -> Iterator[Clue]:
    """A node without a log of its training (a kernel's does not count), if only few nodes have none."""
    if case.ending.outcome != "failed":
        return
    missing = names(case)
    weight = 0.75 if len(missing) <= AT.few else 0.4
    for node in missing:
        yield Clue(node, weight, f"{node} belongs to the job but wrote no log at all", LOST)


def names(case: Case) -> list[str]:
    """The nodes without a log; half a log tree is an incomplete upload, not half a cluster of dead nodes."""
    expected = {*(case.inventory.nodes or case.hints.nodes), *case.catalogue.nodes}
    missing = sorted(expected - (case.table.trainers or set(case.catalogue.nodes)))
    return missing if stats.minority(len(missing), len(expected)) else []
