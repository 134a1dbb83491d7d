"""Nodes of the job whose training wrote nothing at all."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from diagnosis import stats, thresholds
from diagnosis.kinds.logs.causes.case import LOST_HOST, Case
from diagnosis.kinds.logs.compare.clues import THRESHOLDS as WEIGHTS
from diagnosis.kinds.logs.compare.clues import Clue

THRESHOLDS: Final = thresholds.of("absent")
_NUMBER: Final = re.compile(r"\d+")

id: Final = "absent"
why: Final = "a lost machine sends no log"
needs: Final = "an inventory, or logs other than a kernel's"


def look(case: Case) -> Iterator[Clue]:
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
    expected = {*known, *case.catalogue.nodes, *_assigned_nodes(case, wrote)}
    missing = sorted(expected - wrote)
    return missing if stats.is_minority(len(missing), len(expected)) else []


def _assigned_nodes(case: Case, wrote: Collection[str]) -> set[str]:
    """Nodes that got a pod whose name differs only in numbers from one that wrote: events tell of other jobs, too."""
    kinds = {_NUMBER.sub("#", pod) for pod, node in case.roster.home_of_pod.items() if node in wrote}
    return {node for pod, node in case.roster.home_of_pod.items() if _NUMBER.sub("#", pod) in kinds}
