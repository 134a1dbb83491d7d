"""The node that its peers name when they complain about a connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.compare.clues import Clue
from diagnosis.kinds.logs.meaning import words
from diagnosis.kinds.logs.read import raw_lines

THRESHOLDS: Final = thresholds.of("peers")

LIMITS: Final = thresholds.limits("peers")

id: Final = "peers"
why: Final = "a node that several others cannot reach is at fault, not the others"
needs: Final = "consequences that name an address or a machine"

PEER: Final = words.regex("phrases", "peer")
STORE: Final = words.pattern("phrases", "store")


def look(case: Case) -> Iterator[Clue]:
    """The node that consequences name clearly more often than any other."""
    events = case.consequences().filter(~pl.col("example").str.contains(STORE))["event"]
    rows = case.placed(case.table.rows(case.catalogue.masked(*events), limit=LIMITS.lines))
    lines = raw_lines.read_lines(rows, case.table.files, case.read, LIMITS.chars)
    yield from most_named(zip(lines, rows["node"], strict=True), case.alias)


def most_named(lines: Iterable[tuple[str, str | None]], nodes: Mapping[str, str]) -> list[Clue]:
    """The clue of (raw line, node that wrote it); none if no node is clearly ahead."""
    votes: dict[str, set[str]] = {}
    for text, writer in lines:
        for match in PEER.finditer(text):
            word = match.group(1)
            target = next((nodes[n] for n in (word, word.partition(":")[0], word.partition(".")[0]) if n in nodes), "")
            if target and target != writer:
                votes.setdefault(target, set()).add(writer or "?")
    ranked = sorted(votes.items(), key=lambda item: (-len(item[1]), item[0]))
    counts = [len(by) for _, by in ranked] + [0, 0]
    if counts[0] < max(2, 2 * counts[1]):
        return []
    node, top = ranked[0][0], counts[0]
    weight = min(THRESHOLDS.most, THRESHOLDS.base + THRESHOLDS.each * top)
    return [Clue(node, weight, f"{top} nodes complain about their connection to {node}")]
