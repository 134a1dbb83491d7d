"""Phase 4, the workers of pipelines: which one computes longer than the same stage of the other
replicas.

A stage's time is the time of its stage, which all replicas share, times the work of its replica in
this step, which all of its stages share, times its own. Uneven work is in the second factor and
changes from step to step; a slow worker is in the third and stays. What all do alike (longer
sequences, slow clocks) is in neither. O(stages · replicas · steps).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.arrays import close_holes, runs
from diagnosis.kinds.flows.capture.capture import Bools, Capture, Floats, Ints
from diagnosis.kinds.flows.layout.parallelism import Layout
from diagnosis.kinds.flows.slow.slowness import (
    SlowReport,
    gather_spans,
    group_of,
    is_significant,
    names_of,
    running_median,
)
from diagnosis.kinds.flows.steps.stage_times import StageTimes
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.values import stats
from diagnosis.values.plain import duration, times_as_long
from diagnosis.values.stats import MAX_WEIGHT, spread

THRESHOLDS: Final = thresholds.of("slow_workers")


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Slow steps of some rows; ``height``: the logarithm of how many times as long they took."""

    first: int
    last: int
    rows: list[int]
    height: float


@dataclass(frozen=True, slots=True)
class _Job:
    """What findings of one job need; ``late[chain, step]``: seconds after the other replicas."""

    times: StageTimes
    steps: Steps
    layout: Layout
    capture: Capture
    usual: float
    late: Floats


def slow_workers(times: StageTimes, steps: Steps, layout: Layout, capture: Capture, usual: float) -> list[SlowReport]:
    """Workers, else whole replicas, that computed longer than their peers for several steps and
    that the others waited for. Nothing for a single pipeline, whose stages have no peers.
    O(n log n) in workers and steps.
    """
    late = times.ended - _median_of_others(times.ended)
    job = _Job(times, steps, layout, capture, usual, late)
    against_peers = _against_others(np.log(times.seconds), times.stage)
    own = _against_others(against_peers, times.chain)
    found = list(_of_workers(own, against_peers, job))
    return [*found, *_of_replicas(against_peers, found, job)]


def shared_share(times: StageTimes) -> float:
    """The share of the stages' variation from step to step that all stages of a replica have in
    common: 1 if the work varies, 0 if each machine varies by itself. 0 if there are no peers.
    """
    against_peers = _against_others(np.log(times.seconds), times.stage)
    varying = against_peers - _median(against_peers.T)[:, None]
    replicas = [varying[times.chain == chain] for chain in np.unique(times.chain)]
    stages = min(len(rows) for rows in replicas)
    means = [_middle_rows(rows) for rows in replicas]
    own = spread(varying[~np.isnan(varying)]) ** 2
    common = spread(np.concatenate(means)) ** 2
    if stages < 2 or own <= 0:
        return 0.0
    return (common * stages / own - 1.0) / (stages - 1)


def _of_workers(own: Floats, against_peers: Floats, job: _Job) -> Iterator[SlowReport]:
    """Workers that are slow within their replica and against their peers: of two replicas with two
    stages, the sound worker beside the slow one is slower than the rest of its replica, too.
    """
    replica = [int(chain) for chain in job.times.chain]
    for stretch in _stretches(own, replica, job.steps, len(set(replica))):
        span = slice(stretch.first, stretch.last + 1)
        heights = {row: _middle(against_peers[row, span]) for row in stretch.rows}
        least = THRESHOLDS.peers_part * stretch.height
        rows = _without_waiting([row for row in stretch.rows if heights[row] > least], heights, job)
        if rows:
            members = [int(member) for member in job.times.nodes[rows]]
            others = "the same stage of the other replicas"
            yield from _reported(stretch, job.times.chain[rows], members, others, job)


def _without_waiting(rows: list[int], heights: Mapping[int, float], job: _Job) -> list[int]:
    """Of slow workers, those that wait for no slower one of their replica: where a transfer begins
    when both ends are ready, who sends to a slow worker seems to compute longer, too.
    """
    worst: dict[int, float] = {}
    for row in rows:
        chain = int(job.times.chain[row])
        worst[chain] = max(worst.get(chain, 0.0), heights[row])
    return [row for row in rows if heights[row] >= THRESHOLDS.alike * worst[int(job.times.chain[row])]]


def _of_replicas(against_peers: Floats, found: Sequence[SlowReport], job: _Job) -> Iterator[SlowReport]:
    """Replicas of which all stages are slow alike, where none of their workers explains it."""
    chains = np.unique(job.times.chain)
    table = np.array([_median(against_peers[job.times.chain == chain]) for chain in chains])
    explained = {member for slow in found for member in slow.culprits}
    for stretch in _stretches(table, [-1] * len(chains), job.steps, len(chains)):
        slow_chains = chains[stretch.rows]
        members = [int(member) for member in job.times.nodes[np.isin(job.times.chain, slow_chains)]]
        if len(members) > len(slow_chains) and explained.isdisjoint(members):
            yield from _reported(stretch, slow_chains, members, "the other replicas", job)


def _reported(stretch: _Stretch, chains: Ints, members: list[int], others: str, job: _Job) -> Iterator[SlowReport]:
    """The finding, if the others waited for these replicas."""
    first, last = stretch.first, stretch.last
    delays = job.late[np.unique(chains), first : last + 1]
    delay = _middle(delays)
    if delay < THRESHOLDS.waited * job.usual:
        return
    nodes, who = names_of(members, job.capture)
    is_always = last - first + 1 >= THRESHOLDS.whole * len(job.steps)
    when = "in every step" if is_always else f"in steps {first + 1} to {last + 1}"
    times = times_as_long(math.exp(stretch.height))
    yield SlowReport(
        "slow_group",
        float(job.steps.start[first]),
        float(job.steps.end[last]),
        f"{who} computed {times} as {others} {when}, and {duration(delay)} were lost to it.",
        members=group_of(members[0], job.layout),
        culprits=members,
        nodes=nodes,
        factor=1.0 + delay / job.usual,
        measure="late",
        confidence=min(MAX_WEIGHT, THRESHOLDS.sure + THRESHOLDS.surer * stretch.height / math.log(THRESHOLDS.least)),
    )


def _stretches(table: Floats, replica: list[int], steps: Steps, replicas: int) -> Iterator[_Stretch]:
    """Stretches in which rows are high: beyond the noise of the steps and beyond how much rows
    differ anyway. Rows of one ``replica`` that are high at the same time are one.
    """
    calm = np.nan_to_num(running_median(table), nan=0.0)
    noise = float(np.median(stats.spreads(calm, 1)))
    # two replicas differ by as much as one of them is slow
    usual_spread = spread(np.median(calm, axis=1)) if replicas > 2 else 0.0
    limit = max(math.log(THRESHOLDS.least), THRESHOLDS.deviations * noise, THRESHOLDS.peers * usual_spread)
    high: Bools = np.asarray(calm > limit)
    spans = []
    for row in np.flatnonzero(high.any(axis=1)).tolist():
        for first, last in runs(close_holes(high[row])):
            if last - first + 1 >= THRESHOLDS.steps and is_significant(steps, first, last):
                spans.append((first, last, row))
    for first, last, rows in gather_spans(spans, replica):
        yield _Stretch(first, last, rows, float(np.median(calm[rows, first : last + 1])))


def _against_others(table: Floats, label: Ints) -> Floats:
    """Each row less the median of the others of its label in the step; alone unchanged."""
    out = table.copy()
    for one in np.unique(label):
        own = label == one
        out[own] -= np.nan_to_num(_median_of_others(table[own]), nan=0.0) if own.sum() > 1 else 0.0
    return out


def _median_of_others(rows: Floats) -> Floats:
    """Of each row the median of the others in each step. Of many rows one more changes nothing."""
    if len(rows) > THRESHOLDS.few:
        return np.broadcast_to(_median(rows), rows.shape)
    order = np.argsort(rows, axis=0)  # unknown values come last
    return _median_sorted(np.take_along_axis(rows, order, axis=0), without=np.argsort(order, axis=0))


def _middle(values: Floats) -> float:
    """The median of the known values, 0 without any."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else 0.0


def _middle_rows(rows: Floats) -> Floats:
    """The mean of each step that all rows know."""
    mean = rows.mean(axis=0)
    return np.asarray(mean[~np.isnan(mean)])


def _median(rows: Floats) -> Floats:
    """The median of each step; NaN where nothing is known. NumPy's own takes twenty times as long for few rows."""
    if not len(rows):
        return np.full(rows.shape[1], np.nan)
    return _median_sorted(np.sort(rows, axis=0))


def _median_sorted(ordered: Floats, without: Ints | None = None) -> Floats:
    """The median of the known values of each column, which stand first and in order; or several of them: each
    ``without`` the value at one place.
    """
    known = np.count_nonzero(~np.isnan(ordered), axis=0)
    if without is None:
        low, high = (known - 1) // 2, known // 2
        places = np.stack([low, high])
    else:
        known = known - (without < known)
        low, high = (known - 1) // 2, known // 2
        places = np.concatenate([low + (low >= without), high + (high >= without)])
    values = np.take_along_axis(ordered, np.clip(places, 0, len(ordered) - 1), axis=0)
    first, second = np.split(values, 2)
    middle = (first + second) / 2.0
    found = np.where(known > 0, middle, np.nan)
    return found if without is not None else found[0]
