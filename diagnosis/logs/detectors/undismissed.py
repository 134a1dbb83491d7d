"""The nodes whose launcher did not end its workers as nearly all others did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from diagnosis import stats
from diagnosis.logs.case import Case
from diagnosis.logs.clues import Clue

id: Final = "undismissed"
why: Final = "a launcher that still runs ends its workers"
needs: Final = "four nodes, and launchers that print the end of their workers"


def look(case: Case) -> Iterator[Clue]:
    """The few nodes without an end of their workers."""
    total = len(case.catalogue.nodes)
    missing = sorted(set(case.catalogue.nodes) - case.torn_down())
    if total >= 4 and stats.minority(len(missing), total):
        they = f"as those of {total - len(missing)} nodes did"
        yield from (Clue(n, 0.55, f"the launcher on {n} did not end its workers {they}") for n in missing)
