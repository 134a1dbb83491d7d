"""What the lines of a log state of their node's set-up, as facts: versions, networks, adapters
(``setup.toml``).
"""

from __future__ import annotations

from itertools import chain
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.evidence import Fact, Place
from diagnosis.facts import setups
from diagnosis.kinds.logs.causes.failure_facts import Facts
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.kinds.logs.rows.events import Groups, LogTable
from diagnosis.model import ReadRange

LIMITS: Final = thresholds.limits("stated")


def messages(facts: Facts) -> list[list[int]]:
    """The messages that state a property, as one group. O(messages × properties)."""
    patterns = [row.pattern for row in setups.properties() if row.pattern]
    states_any = pl.any_horizontal(facts.table.says(pattern) for pattern in patterns)
    masked = facts.table.messages.filter(states_any)["masked"].to_list()
    return [masked] if masked else []


def setup_in(table: LogTable, groups: Groups, read: ReadRange) -> tuple[tuple[str, Fact], ...]:
    """The set-up that each node states in the lines of these messages, with the path. Reads a few
    of each writer and message. O(lines that state one).
    """
    masked = list(chain.from_iterable(groups))
    lines = table.placed(table.rows(masked, limit=LIMITS.lines))
    lines = lines.group_by("source", "masked", maintain_order=True).tail(LIMITS.of_writer)
    found: dict[tuple[str, Fact], None] = {}
    texts = raw_lines.read_lines(lines, table.files, read, LIMITS.line_bytes)
    for text, node, file, line in zip(texts, lines["node"], lines["file"], lines["line"], strict=True):
        for name, value in setups.stated_in(text):
            fact = Fact.of(Place("node", node or ""), (name,), value, line)
            found.setdefault((table.files[file], fact))
    return tuple(found)
