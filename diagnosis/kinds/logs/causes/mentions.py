"""Nodes named in lines whose writer has no node: a scheduler's "node X is not ready", a launcher's "rank 7 exited"."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.causes.failure_facts import FailureFacts
from diagnosis.kinds.logs.causes.root_events import roots
from diagnosis.kinds.logs.meaning import hosts, roster
from diagnosis.kinds.logs.read import raw_lines

THRESHOLDS: Final = thresholds.of("mentions")

LIMITS: Final = thresholds.limits("mentions")


def mentioned_nodes(facts: FailureFacts, weights: pl.Series) -> dict[int, tuple[str, ...]]:
    """Nodes that the lines of events without a node name themselves, or whose ranks they name (a scheduler's "node X is
    not ready", a launcher's "rank 7 exited").
    O(events + characters of lines read), of which each event has few.
    """
    weighed = facts.events.with_columns(weight=weights)
    is_homeless = (pl.col("n_nodes") == 0) | facts.catalogue.says(roots.ENDED_ELSEWHERE)
    homeless = weighed.filter((pl.col("weight") >= roots.THRESHOLDS.least) & is_homeless)
    read = homeless.filter(~facts.catalogue.has("decision")).sort("weight", descending=True, maintain_order=True)
    out = {}
    shapes = {_shape(n) for n in facts.catalogue.nodes} - {""}
    # a job ended by a decision names the nodes that it runs on, and accuses none
    for event in read["event"].head(LIMITS.events).to_list():
        rows = facts.table.rows(facts.catalogue.masked(event), limit=LIMITS.lines)
        names: set[str] = set()
        for text in (
            roots.ENDED_ON.sub(" ", line) for line in raw_lines.read_lines(rows, facts.table.files, facts.read)
        ):
            ranks = {int(r) for r in roots.RANK.findall(text)}
            names |= (
                roster.named_in(text, facts.alias)
                or {node for rank in ranks if (node := facts.node_of_rank.get(rank))}
                or {word for word in hosts.WORD.findall(text) if _shape(word) in shapes}
            )
        out[event] = tuple(sorted(names))
    return out


def _shape(name: str) -> str:
    """The pattern of a machine's name, without its numbers: a name with the same pattern is a machine too. Empty for a
    word that does not contain both letters and digits.
    """
    shape = re.sub(r"\d+", "#", name)
    return shape if "#" in shape and any(map(str.isalpha, shape)) and len(name) >= THRESHOLDS.chars else ""
