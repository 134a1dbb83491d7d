"""Nodes whose counts of messages are unlike their peers' (L4, section 3.3, by Isolation Forest).

It never accuses: on unfiltered counts two seeds hardly agree (see docs/log-engine.md). It ranks nodes if no other
detector does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.logs.case import Case
from diagnosis.logs.clues import Clue
from diagnosis.model import Level

AT: Final = thresholds.of("unlike")

id: Final = "unlike"
why: Final = "a faulty node prints other messages, or others as often"
needs: Final = "four nodes"


def look(case: Case) -> Iterator[Clue]:
    """The odd nodes, each with the event that differs most."""
    for node, (score, event) in forest(case, _telling(case)).items():
        if score >= AT.odd and event is not None:
            yield Clue(node, AT.weight * score, f"{node} logs unlike its peers: {case.in_words(case.event(event))}")


def _telling(case: Case) -> list[int]:
    rows = case.catalogue.events.filter((pl.col("novelty") >= 0.5) & ~pl.col("event").is_in(sorted(case.survived)))
    if case.healthy == 0:
        # without history only presence or a large change is informative: drop events that all nodes print about equally
        rows = rows.filter(pl.col("role").is_not_null() | (pl.col("level") >= Level.WARNING.value))
    return sorted(rows["event"].to_list())


def forest(case: Case, wanted: list[int]) -> dict[str, tuple[float, int | None]]:
    """Anomaly in [0, 1] of each node above the median one, over log counts node × event. Fixed seed;
    O(trees × nodes × log nodes) after a pass over the cells."""
    nodes = case.catalogue.nodes
    counts = (
        case.catalogue.cells.filter(pl.col("event").is_in(wanted))
        .drop_nulls("node")
        .group_by("node", "event")
        .agg(pl.col("n").sum())
    )
    row, column = {n: i for i, n in enumerate(nodes)}, {e: i for i, e in enumerate(wanted)}
    matrix = np.zeros((len(nodes), len(wanted)))
    for node, event, n in counts.iter_rows():
        matrix[row[node], column[event]] = np.log1p(n)
    if len(nodes) < 4 or not np.ptp(matrix, axis=0).any():
        return {}
    # most diagnoses need no forest, and its library takes as long to load as everything else together
    from sklearn.ensemble import IsolationForest  # noqa: PLC0415

    model = IsolationForest(n_estimators=AT.trees, random_state=0, max_samples=min(256, len(nodes)), n_jobs=1).fit(
        matrix
    )
    score = -model.score_samples(matrix)
    low, high = float(np.median(score)), float(score.max())
    if high - low < 1e-9:
        return {}
    anomaly = np.clip((score - low) / (high - low), 0.0, 1.0) * min(1.0, (high - low) / AT.apart)
    apart = np.abs(matrix - np.median(matrix, axis=0))
    return {
        node: (float(anomaly[i]), wanted[int(apart[i].argmax())] if apart[i].any() else None) for node, i in row.items()
    }
