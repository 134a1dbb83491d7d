"""Which node is at fault: where the root was seen, who fell silent, whom the peers name, who counts differently (L4,
section 3.3).

Each clue gives a node a weight in [0, 1] and a reason; weights join as independent hints (noisy or). Isolation Forest
alone never accuses: it ranks, since on unfiltered counts two seeds hardly agree (see docs/log-engine.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from diagnosis.logs.catalogue import Catalogue
from diagnosis.logs.clocks import SECOND
from diagnosis.result import NodeSuspect

TREES: Final = 1_000
#: From this joined weight on a node is accused.
ACCUSED: Final = 0.5
#: Nodes with less than this share of the leader's weight are not accused beside it.
BESIDE: Final = 0.85
#: Joined weights below this are not worth a line.
LEAST: Final = 0.01
#: Nodes listed in a report.
LISTED: Final = 16
PEER: Final = re.compile(
    r"(?i)(?:closed by (?:remote )?peer|reset by (?:remote )?peer|remote(?: node| host| peer)?|peer"
    r"|connect(?:ion)? to|from|host)[ :=]+\[?([A-Za-z0-9][\w.:-]*?)\]?(?:[<:]\d+|>|\]|,|\s|$)"
)


@dataclass(frozen=True, slots=True)
class Clue:
    """One hint at one node: ``weight`` in (0, 1]."""

    node: str
    weight: float
    reason: str


def fuse(clues: Iterable[Clue]) -> list[tuple[str, float, tuple[str, ...]]]:
    """Nodes with joined weight and reasons, heaviest first."""
    missed: dict[str, float] = {}
    reasons: dict[str, list[tuple[float, str]]] = {}
    for clue in clues:
        missed[clue.node] = missed.get(clue.node, 1.0) * (1.0 - min(max(clue.weight, 0.0), 0.97))
        reasons.setdefault(clue.node, []).append((-clue.weight, clue.reason))
    ranked = sorted(
        ((node, 1.0 - left) for node, left in missed.items()), key=lambda item: (-round(item[1], 6), item[0])
    )
    return [(node, score, tuple(dict.fromkeys(text for _, text in sorted(reasons[node])))) for node, score in ranked]


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


def forest(catalogue: Catalogue, events: Iterable[int]) -> dict[str, tuple[float, int | None]]:
    """Isolation Forest over log counts, node × event: anomaly in [0, 1] above the median node, and the event that
    sets it apart most.

    Fixed seed and :data:`TREES` trees; O(trees × nodes × log nodes) after a pass over the cells.
    """
    wanted = sorted(set(events))
    counts = (
        catalogue.cells.filter(pl.col("event").is_in(wanted))
        .drop_nulls("node")
        .group_by("node", "event")
        .agg(pl.col("n").sum())
    )
    nodes = catalogue.nodes
    if len(nodes) < 4 or counts.is_empty():
        return {}
    row = {node: i for i, node in enumerate(nodes)}
    column = {event: i for i, event in enumerate(wanted)}
    matrix = np.zeros((len(nodes), len(wanted)))
    for node, event, n in counts.iter_rows():
        matrix[row[node], column[event]] = np.log1p(n)
    if not np.ptp(matrix, axis=0).any():
        return {}
    # most diagnoses need no forest, and its library takes as long to load as everything else together
    from sklearn.ensemble import IsolationForest  # noqa: PLC0415

    model = IsolationForest(n_estimators=TREES, random_state=0, max_samples=min(256, len(nodes)), n_jobs=1).fit(matrix)
    score = -model.score_samples(matrix)
    low, high = float(np.median(score)), float(score.max())
    if high - low < 1e-9:
        return {}
    apart = np.abs(matrix - np.median(matrix, axis=0))
    out = {}
    for node, i in row.items():
        anomaly = (float(score[i]) - low) / (high - low) if score[i] > low else 0.0
        out[node] = (
            anomaly * min(1.0, (high - low) / 0.15),
            wanted[int(apart[i].argmax())] if apart[i].any() else None,
        )
    return out


def absent(
    catalogue: Catalogue,
    expected: Iterable[str],
    trainers: frozenset[str],
    system_files: frozenset[int],
    consequence_at: int | None,
    beat_s: float,
) -> list[Clue]:
    """Nodes whose training wrote nothing (a kernel log does not count), and nodes whose log ends well before those of
    their peers.

    ``trainers``: nodes with a log of their training; ``system_files``: those that kernels wrote.
    """
    clues = []
    seen = set(trainers) or set(catalogue.nodes)
    expected = tuple(dict.fromkeys((*expected, *catalogue.nodes)))
    missing = sorted(set(expected) - seen)
    # half a log tree is an incomplete upload, not half a cluster of dead nodes
    if missing and len(missing) <= max(1, 0.2 * len(expected)):
        clues += [
            Clue(n, 0.75 if len(missing) <= 2 else 0.4, f"{n} belongs to the job but wrote no log at all")
            for n in missing
        ]
    last = (
        catalogue.cells.filter(~pl.col("file").is_in(sorted(system_files) if trainers else []))
        .drop_nulls(["node", "last_at"])
        .group_by("node")
        .agg(at=pl.col("last_at").max())
        .sort("at", "node")
    )
    if last.height < 3:
        return clues
    typical = float(last["at"].median())  # type: ignore[arg-type]
    limit = max(30.0, 3 * beat_s) * SECOND
    early = last.filter(pl.col("at") < typical - limit)
    if 0 < early.height <= max(1, 0.2 * last.height):
        for node, at in early.iter_rows():
            gap = (typical - at) / SECOND
            # a log that is merely cut misses its end too: silence alone is half a proof
            clues.append(
                Clue(
                    node,
                    0.55 if consequence_at is not None else 0.3,
                    f"{node} wrote its last line {gap:,.0f} s before its peers",
                )
            )
    return clues


def lacking(catalogue: Catalogue, wide: Iterable[int], names: Mapping[int, str]) -> list[Clue]:
    """Nodes that do not print what nearly all their peers print in the failure: the ones that did not report the
    time-out."""
    total = len(catalogue.nodes)
    if total < 4:
        return []
    clues = []
    for event in sorted(set(wide)):
        have = set(catalogue.cells.filter(pl.col("event") == event)["node"].drop_nulls().unique().to_list())
        without = sorted(set(catalogue.nodes) - have)
        if have and without and len(without) <= max(1, 0.15 * total):
            weight = 0.3 / len(without) ** 0.5
            they = f"what {len(have)} of {total} nodes print: {names[event]}"
            clues += [Clue(node, weight, f"{node} did not print {they}") for node in without]
    return clues


def named_by_peers(lines: Iterable[tuple[str, str | None]], nodes: Mapping[str, str]) -> list[Clue]:
    """Nodes that peers name in complaints about a connection: (raw line, node that wrote it). Only a clear favourite
    is a clue."""
    votes: dict[str, set[str]] = {}
    for text, writer in lines:
        for match in PEER.finditer(text):
            target = (
                nodes.get(match.group(1))
                or nodes.get(match.group(1).partition(":")[0])
                or nodes.get(match.group(1).partition(".")[0])
            )
            if target and target != writer:
                votes.setdefault(target, set()).add(writer or "?")
    if not votes:
        return []
    ranked = sorted(votes.items(), key=lambda item: (-len(item[1]), item[0]))
    top = len(ranked[0][1])
    second = len(ranked[1][1]) if len(ranked) > 1 else 0
    if top < 2 or top < 2 * second:
        return []
    node = ranked[0][0]
    return [Clue(node, min(0.6, 0.25 + 0.1 * top), f"{top} nodes complain about their connection to {node}")]


def shared_leaf(nodes: Iterable[str], leaf_of: Mapping[str, str]) -> str | None:
    """The one switch that all these nodes, and hardly others, hang on."""
    mine = set(nodes)
    leaves = {leaf_of.get(n) for n in mine}
    if len(mine) < 2 or len(leaves) != 1:
        return None
    leaf = leaves.pop()
    if leaf is None:
        return None
    below = {n for n, where in leaf_of.items() if where == leaf}
    return leaf if len(mine) >= 0.6 * len(below) else None
