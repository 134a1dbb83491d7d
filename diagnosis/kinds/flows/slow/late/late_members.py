"""Phase 4, members of collectives: who begins its part late, step after step. O(members · steps)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from diagnosis.kinds.flows.capture.arrays import close_holes, runs
from diagnosis.kinds.flows.capture.capture import Bools, Capture, Floats, Ints
from diagnosis.kinds.flows.jobs.pairs import DP
from diagnosis.kinds.flows.layout.parallelism import Layout
from diagnosis.kinds.flows.slow.slowness import (
    THRESHOLDS,
    SlowReport,
    gather_spans,
    group_of,
    is_significant,
    lateness_by_step,
    names_of,
    running_median,
)
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.transfers import Transfers
from diagnosis.values import stats
from diagnosis.values.plain import duration
from diagnosis.values.stats import MAX_WEIGHT, median_and_spread


@dataclass(frozen=True, slots=True)
class _Lateness:
    """Seconds by which each of ``members`` began late in each step, as running medians: ``calm`` of
    a collective, and ``added`` for all of a step, each with its limit. ``is_seen``: before the
    medians. ``throughout``: collectives fill the step.
    """

    members: Ints
    calm: Floats
    added: Floats
    limit: Floats
    added_limit: Floats
    is_seen: Bools
    is_outstanding: Bools
    throughout: bool

    @property
    def is_late(self) -> Bools:
        """Which members are late in some step."""
        is_summed = self.throughout & (self.added > self.added_limit).any(axis=1)
        return np.asarray((self.calm > self.limit).any(axis=1) | is_summed)

    def runs_of(self, row: int) -> list[tuple[int, int]]:
        """The stretches in which a member is late: of single collectives, else of the sum.

        Small delays for each of many layers add up if all wait at each of them (weights gathered
        through the whole step). If this holds in nearly all steps, it is no change: then it must
        stand out among the members.
        """
        plain = runs(close_holes(self.calm[row] > self.limit))
        if plain or not self.throughout:
            return plain
        most = THRESHOLDS.most * self.calm.shape[1]
        summed = runs(close_holes(self.added[row] > self.added_limit))
        return [(a, b) for a, b in summed if b - a < most or self.is_outstanding[row]]


def late_members(
    transfers: Transfers, steps: Steps, layout: Layout, capture: Capture, usual: float
) -> list[SlowReport]:
    """Members that begin collectives late for several steps in a row. O(members · steps)."""
    if transfers.late.is_empty():
        return []
    table = _lateness(transfers, steps, capture, usual)
    spans: list[tuple[int, int, int]] = []
    for row in np.flatnonzero(table.is_late).tolist():
        for first, last in table.runs_of(row):
            is_long = table.is_seen[row, first : last + 1].sum() >= THRESHOLDS.steps
            if is_long and is_significant(steps, first, last):
                spans.append((first, last, row))
    replica = _replicas(layout, capture)
    gathered = gather_spans(spans, [replica.get(int(m), -1) for m in table.members])
    return [_late_report(span, table, steps, layout, capture, usual) for span in gathered]


def _lateness(transfers: Transfers, steps: Steps, capture: Capture, usual: float) -> _Lateness:
    late = transfers.late
    members = np.unique(late["src"].to_numpy())
    tables = [lateness_by_step(late, members, column, len(steps)) for column in ("behind", "added")]
    calm, added = (np.nan_to_num(running_median(table), nan=0.0) for table in tables)
    least = max(THRESHOLDS.late * usual, THRESHOLDS.stamps * capture.resolution_s)
    return _Lateness(
        members,
        calm,
        added,
        limit=np.maximum(least, THRESHOLDS.late_deviations * np.median(stats.spreads(calm, 1))),
        added_limit=np.maximum(least, THRESHOLDS.late_deviations * np.median(stats.spreads(added, 1))),
        is_seen=~np.isnan(tables[0]),
        is_outstanding=_stands_out(added, usual),
        throughout=_is_throughout(transfers, usual),
    )


def _late_report(
    span: tuple[int, int, list[int]], table: _Lateness, steps: Steps, layout: Layout, capture: Capture, usual: float
) -> SlowReport:
    first, last, rows = span
    delay = float(np.median(table.calm[rows, first : last + 1]))
    guilty = [int(table.members[row]) for row in rows]
    whole = last - first + 1 >= THRESHOLDS.whole * len(steps)
    nodes, who = names_of(guilty, capture)
    whose = "their" if len(nodes or guilty) > 1 else "its"
    when = "in every step" if whole else f"in steps {first + 1} to {last + 1}"
    return SlowReport(
        "slow_group",
        float(steps.start[first]),
        float(steps.end[last]),
        f"{who} began {whose} part of the gradient exchange {duration(delay)} after the others {when}; "
        "they waited for it.",
        members=group_of(guilty[0], layout),
        culprits=guilty,
        nodes=nodes,
        factor=1.0 + delay / usual,
        measure="late",
        confidence=min(MAX_WEIGHT, THRESHOLDS.sure + THRESHOLDS.surer * delay / float(np.max(table.limit))),
    )


def _stands_out(added: Floats, usual: float) -> Bools:
    """Which members lose clearly more in the usual step than the members differ from each other."""
    typical = np.median(added, axis=1)
    middle, apart = median_and_spread(typical)
    least = max(THRESHOLDS.outstanding * usual, THRESHOLDS.outstanding_deviations * apart)
    return np.asarray((typical - middle > least) & (len(typical) >= THRESHOLDS.compared))


def _replicas(layout: Layout, capture: Capture) -> dict[int, int]:
    """Pipelines by number, if any: those on the same machines (of its tensor ranks) are one."""
    known: dict[frozenset[str], int] = {}
    replica: dict[int, int] = {}
    for number, group in enumerate(layout.pp_groups):
        nodes = frozenset(capture.places[int(m)].node for m in group if int(m) in capture.places) - {""}
        own = known.setdefault(nodes, number) if nodes else number
        replica |= {int(m): own for m in group}
    return replica


def _is_throughout(transfers: Transfers, usual: float) -> bool:
    """Whether a unit's collectives are spread over the step, not gathered at its end."""
    spread = transfers.cells.filter(pl.col("kind") == DP).select(pl.col("last") - pl.col("first"))["last"].median()
    return isinstance(spread, float) and spread > THRESHOLDS.throughout * usual
