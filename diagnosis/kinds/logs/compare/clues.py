"""Clues about nodes and their sum (L4, section 3.3: which node is at fault).

Each clue gives a node a weight in [0, 1] and a reason; weights join as independent hints (noisy or).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from diagnosis import thresholds
from diagnosis.records.result import NodeSuspect
from diagnosis.values import stats

LIMITS: Final = thresholds.limits("clues")

THRESHOLDS: Final = thresholds.of("clues")


class Clue(msgspec.Struct, frozen=True):
    """One hint at one node: ``weight`` in (0, 1]; ``tells``: the category that this clue alone shows, if any;
    ``detector``: its source.
    """

    node: str
    weight: float
    reason: str
    tells: str = ""
    detector: str = ""


def fuse(clues: Iterable[Clue]) -> list[tuple[str, float, tuple[str, ...]]]:
    """Nodes with joined weight and reasons, heaviest first. Of clues with the same words the heaviest counts: two lines
    of one fault prove no more than one. O(n log n).
    """
    weights_of: dict[str, dict[str, float]] = {}
    for clue in sorted(clues, key=lambda clue: clue.weight):
        weights_of.setdefault(clue.node, {})[clue.reason] = clue.weight
    scores = {node: stats.fuse(weights.values()) for node, weights in weights_of.items()}
    ranked = sorted(scores, key=lambda node: (-round(scores[node], 6), node))
    return [(node, scores[node], _heaviest_first(weights_of[node])) for node in ranked]


def _heaviest_first(weights: Mapping[str, float]) -> tuple[str, ...]:
    """Reasons by their weight, those of one weight in the order of their words."""
    return tuple(sorted(weights, key=lambda reason: (-weights[reason], reason)))


def rank(clues: Iterable[Clue], *, may_accuse: bool) -> tuple[NodeSuspect, ...]:
    """The ranked nodes; those near the top and above ``accused`` are accused, if accusing is allowed. One scale:
    accused nodes have at least ``accused``, nodes that are only ranked have less.
    """
    ranked = fuse(clues)
    if not ranked:
        return ()
    top = ranked[0][1]
    found = []
    for node, score, reasons in ranked[: LIMITS.listed]:
        is_suspect = may_accuse and score >= THRESHOLDS.accused and score >= THRESHOLDS.beside * top
        if score > THRESHOLDS.least:
            found.append(NodeSuspect(node, score if is_suspect else THRESHOLDS.accused * score, is_suspect, reasons))
    return tuple(found)


def shared_leaf(nodes: Iterable[str], leaf_of: Mapping[str, str]) -> str | None:
    """The one switch above all these nodes, if they are most of the nodes below it."""
    accused = set(nodes)
    leaves = {leaf_of.get(n) for n in accused}
    leaf = leaves.pop() if len(accused) >= 2 and len(leaves) == 1 else None
    below = sum(where == leaf for where in leaf_of.values())
    return leaf if leaf is not None and 2 * len(accused) > below else None
