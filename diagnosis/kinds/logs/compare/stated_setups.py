"""What the lines of a log state of their node's set-up, as facts: versions, networks, adapters
(``setup.toml``).
"""

from __future__ import annotations

from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.evidence import Fact, Place
from diagnosis.facts import setups
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.read import raw_lines

LIMITS: Final = thresholds.limits("stated")


def stated_setup(case: Case) -> tuple[tuple[str, Fact], ...]:
    """The set-up that each node of a case states, with the path. Reads a few lines of each writer
    and message. O(messages × properties + lines that state one).
    """
    patterns = [row.pattern for row in setups.properties() if row.pattern]
    states_any = pl.any_horizontal(case.table.says(pattern) for pattern in patterns)
    masked = case.table.messages.filter(states_any)["masked"].to_list()
    if not masked:
        return ()
    lines = case.placed(case.table.rows(masked, limit=LIMITS.lines))
    lines = lines.group_by("source", "masked", maintain_order=True).tail(LIMITS.of_writer)
    found: dict[tuple[str, Fact], None] = {}
    texts = raw_lines.read_lines(lines, case.table.files, case.read, LIMITS.line_bytes)
    for text, node, file, line in zip(texts, lines["node"], lines["file"], lines["line"], strict=True):
        for name, value in setups.stated_in(text):
            fact = Fact.of(Place("node", node or ""), (name,), value, line)
            found.setdefault((case.table.files[file], fact))
    return tuple(found)
