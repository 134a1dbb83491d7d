"""Nodes of the job whose training wrote nothing at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from diagnosis import thresholds
from diagnosis.kinds.logs.causes.case import LOST_HOST, Case
from diagnosis.kinds.logs.compare.clues import THRESHOLDS as WEIGHTS
from diagnosis.kinds.logs.compare.clues import Clue
from diagnosis.values import stats

THRESHOLDS: Final = thresholds.of("absent")

id: Final = "absent"
why: Final = "a lost machine sends no log"
needs: Final = "an inventory, or logs other than a kernel's"


def find_clues(case: Case) -> Iterator[Clue]:
    """A node without a log of its training (a kernel's does not count), if only few nodes have none."""
    if case.ending.outcome != "failed":
        return
    missing = absent_nodes(case)
    weight = WEIGHTS.sure if len(missing) <= THRESHOLDS.few else WEIGHTS.hint
    for node in missing:
        yield Clue(node, weight, f"{node} belongs to the job but wrote no log at all", LOST_HOST)


def absent_nodes(case: Case) -> list[str]:
    """The nodes without a log; half a log tree is an incomplete upload, not half a cluster of dead nodes."""
    wrote = case.table.trainers or set(case.catalogue.nodes)
    # a stated list of nodes is the job's if all that wrote are in it
    listed = next((nodes for nodes in case.roster.lists if wrote <= set(nodes)), ())
    known = case.inventory.nodes or case.hints.nodes or listed
    expected = {*known, *case.catalogue.nodes}
    missing = sorted(expected - wrote)
    return missing if stats.is_minority(len(missing), len(expected)) else []
