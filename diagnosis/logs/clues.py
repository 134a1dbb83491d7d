"""Clues at nodes and what they add up to (L4, section 3.3: which node is at fault).

Each clue gives a node a weight in [0, 1] and a reason; weights join as independent hints (noisy or).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from diagnosis import stats
from diagnosis.result import NodeSuspect

#: From this joined weight on a node is accused.
ACCUSED: Final = 0.5
#: Nodes with less than this share of the leader's weight are not accused beside it.
BESIDE: Final = 0.85
#: Joined weights below this are not worth a line; nodes listed in a report.
LEAST: Final = 0.01
LISTED: Final = 16


@dataclass(frozen=True, slots=True)
class Clue:
    """One hint at one node: ``weight`` in (0, 1]; ``tells`` the category that it alone tells, if it does; ``detector``
    which one saw it."""

    node: str
    weight: float
    reason: str
    tells: str = ""
    detector: str = ""


def fuse(clues: Iterable[Clue]) -> list[tuple[str, float, tuple[str, ...]]]:
    """Nodes with joined weight and reasons, heaviest first. O(n log n)."""
    mine: dict[str, list[Clue]] = {}
    for clue in clues:
        mine.setdefault(clue.node, []).append(clue)
    scores = {node: stats.fuse(c.weight for c in found) for node, found in mine.items()}
    ranked = sorted(mine, key=lambda node: (-round(scores[node], 6), node))
    return [(node, scores[node], _reasons(mine[node])) for node in ranked]


def _reasons(found: Iterable[Clue]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(c.reason for c in sorted(found, key=lambda c: (-c.weight, c.reason))))


def rank(clues: Iterable[Clue], *, may_accuse: bool) -> tuple[NodeSuspect, ...]:
    """The ranked nodes; those near the top and above :data:`ACCUSED` are accused, if anybody may be. One scale: who is
    accused has :data:`ACCUSED` or more, who is only ranked has less."""
    ranked = fuse(clues)
    if not ranked:
        return ()
    top = ranked[0][1]
    found = []
    for node, score, reasons in ranked[:LISTED]:
        is_suspect = may_accuse and score >= ACCUSED and score >= BESIDE * top
        if score > LEAST:
            found.append(NodeSuspect(node, score if is_suspect else ACCUSED * score, is_suspect, reasons))
    return tuple(found)


def shared_leaf(nodes: Iterable[str], leaf_of: Mapping[str, str]) -> str | None:
    """The one switch that all these nodes, and most below it, hang on."""
    mine = set(nodes)
    leaves = {leaf_of.get(n) for n in mine}
    leaf = leaves.pop() if len(mine) >= 2 and len(leaves) == 1 else None
    below = sum(where == leaf for where in leaf_of.values())
    return leaf if leaf is not None and 2 * len(mine) > below else None
