"""The machine of the one rank that consequences say is waited for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.compare.clues import THRESHOLDS as WEIGHTS
from diagnosis.kinds.logs.compare.clues import Clue
from diagnosis.kinds.logs.meaning import words
from diagnosis.kinds.logs.read import raw_lines

LIMITS: Final = thresholds.limits("spoken")

id: Final = "awaited"
why: Final = "a barrier that prints who is missing names the rank that stands still"
needs: Final = "consequences that name one awaited rank, and the machine of that rank"

#: The category if the machine still writes while others wait for one of its ranks.
STUCK_HOST: Final = "hardware.host.stuck"
_AWAITED: Final = words.regex("phrases", "awaited_rank")


def look(case: Case) -> Iterator[Clue]:
    """The machine, if all consequences that name an awaited rank name the same one. Reads at most ``LIMITS.lines``
    lines.
    """
    events = case.consequences()
    named = events.filter(pl.col("example").str.contains(_AWAITED.pattern)).sort("event")
    rows = case.table.rows(case.catalogue.masked(*named["event"]), limit=LIMITS.lines)
    node = awaited_node(case, raw_lines.read_lines(rows, case.table.files, case.read, LIMITS.chars))
    if node is not None:
        reason = f"the others wait for a rank on {node}: {case.in_words(case.event(named['event'][0]))}"
        # a machine that writes once others wait for it is not lost
        since = case.catalogue.cells.filter((pl.col("node") == node) & (pl.col("last_at") >= named["first_at"].min()))
        yield Clue(node, WEIGHTS.sure, reason, STUCK_HOST if since.height else "")


def awaited_node(case: Case, texts: Iterable[str]) -> str | None:
    """The machine of the one rank that these texts say is waited for, or is slowest."""
    ranks = {int(found) for text in texts for found in _AWAITED.findall(text)}
    return case.home(ranks.pop()) if len(ranks) == 1 else None
