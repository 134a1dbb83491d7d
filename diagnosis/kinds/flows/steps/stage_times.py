"""The compute time of each pipeline stage, from the times when it receives and sends.

Receiving and sending alone mislead: in the middle of a step micro-batches queue up before a stage.
Under one-forward-one-backward (1F1B) the step's first micro-batch never queues on its way forward,
and its last on its way back only behind the one before it. So a stage's forward time is first-out
minus first-in; its backward time is last-out minus last-in, or minus the one before out if that was
later. The last stage turns the first micro-batch round at once (forward plus backward). The first
stage receives nothing. All replicas begin a step together, so how long it computes forward shows in
when it first sends: against the first stages of the other replicas, not against other stages.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Capture, Floats, Flows, Ints, sender_values
from diagnosis.kinds.flows.capture.packing import packable
from diagnosis.kinds.flows.capture.partitions import partition, run_parts
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.pairs import PP, Pairs
from diagnosis.kinds.flows.layout.parallelism import Layout
from diagnosis.kinds.flows.steps.step_work import whole_steps
from diagnosis.kinds.flows.steps.steps import Steps

THRESHOLDS: Final = thresholds.of("stage_times")


@packable
@dataclass(frozen=True, slots=True)
class StageTimes:
    """``seconds[node, step]`` a micro-batch's forward plus backward time, of a first stage forward
    alone (NaN unknown); ``stage[node]`` from 0; ``stages`` their number; ``chain[node]``: the
    number of its pipeline. ``ended[chain, step]``: the end of each pipeline's last transfer in a
    step.
    """

    nodes: Ints
    stage: Ints
    stages: int
    seconds: Floats
    chain: Ints
    ended: Floats


def stage_times(job: JobFlows, pairs: Pairs, layout: Layout, steps: Steps, capture: Capture) -> StageTimes | None:
    """Times of all stages of plain chains; None without one. O(n log n) in transfers."""
    count = len(capture.names)
    chosen = pairs.of(PP)
    place = np.full(count, -1, dtype=np.int64)
    chain = np.full(count, -1, dtype=np.int64)
    for number, group in enumerate(layout.pp_groups):
        path = _chain_order(group, pairs.a[chosen], pairs.b[chosen])
        if path is not None:
            place[path] = np.arange(len(path))
            chain[path] = number
    flows = pairs.carried(job.flows, count, PP)
    if (place[flows.different("src", count)] < 0).any():
        flows = flows.take(flows.column(np.bool_, sender_values, place >= 0))
    if not len(flows):
        return None

    parts = whole_steps(flows, steps)
    first = list(run_parts(flows.disk, _first_directions, [(part, steps, chain, place) for part in parts]))
    if not first:
        return None
    for number, up in pl.concat(first).group_by("chain").agg(pl.col("up").mean()).iter_rows():
        if up < 0.5:
            inside = chain == number
            place[inside] = place[inside].max() - place[inside]
    found = list(run_parts(flows.disk, _passage_times, [(part, steps, chain, place) for part in parts]))
    passages = pl.concat([seconds for seconds, _ in found])
    return _times(passages, pl.concat([ended for _, ended in found]), chain, place, len(steps))


def _table(part: Flows, steps: Steps, chain: Ints, place: Ints) -> pl.DataFrame:
    """The transfers with their chain and step, and whether they go up in it."""
    ends = {"chain": chain[part.src], "src": part.src, "dst": part.dst, "start": part.start, "end": part.end}
    return pl.DataFrame({**ends, "step": steps.of(part.start), "up": place[part.dst] > place[part.src]})


@partition
def _first_directions(part: Flows, steps: Steps, chain: Ints, place: Ints) -> pl.DataFrame:
    """The direction of the first transfer of each chain and step: a step begins with forward
    transfers, which show which end of each chain is the first stage.
    """
    table = _table(part, steps, chain, place).sort("start")
    return table.group_by("chain", "step", maintain_order=True).agg(pl.col("up").first())


def _chain_order(group: Ints, a: Ints, b: Ints) -> list[int] | None:
    """The nodes of a group in the order of their chain; None if it is no plain chain."""
    inside = {int(m) for m in group}
    near: dict[int, list[int]] = {m: [] for m in inside}
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        if x in inside and y in inside:
            near[x].append(y)
            near[y].append(x)
    ends = sorted(m for m, others in near.items() if len(others) == 1)
    if len(ends) != 2 or any(len(others) > 2 for others in near.values()):
        return None
    path = [ends[0]]
    while len(path) < len(inside):
        following = [m for m in near[path[-1]] if m not in path[-2:]]
        if not following:
            return None
        path.append(following[0])
    return path


@partition
def _passage_times(part: Flows, steps: Steps, chain: Ints, place: Ints) -> tuple[pl.DataFrame, pl.DataFrame]:
    """First-in to first-out forward, last-in (or the one before out) to last-out backward, and the
    turn at the last stage (``up``: forward); and the end of each chain's last transfer.
    """
    table = _table(part, steps, chain, place).rename({"up": "forward"})
    ended = table.group_by("chain", "step").agg(pl.col("end").max())
    came = table.group_by("dst", "step").agg(
        first_in=pl.col("end").filter("forward").min(), last_back_in=pl.col("end").filter(~pl.col("forward")).max()
    )
    went = table.group_by("src", "step").agg(
        first_out=pl.col("start").filter("forward").min(),
        last_back_out=pl.col("start").filter(~pl.col("forward")).max(),
        back_out_before=pl.col("start").filter(~pl.col("forward")).top_k(2).min(),
        first_back_out=pl.col("start").filter(~pl.col("forward")).min(),
    )
    both = came.join(went, left_on=["dst", "step"], right_on=["src", "step"]).rename({"dst": "node"})
    last = int(place.max())
    both = both.with_columns(stage=pl.Series(place[both["node"].to_numpy()]))
    is_second = pl.col("back_out_before") < pl.col("last_back_out")
    free_at = pl.when(is_second).then(pl.max_horizontal("last_back_in", "back_out_before")).otherwise("last_back_in")
    through = (pl.col("first_out") - pl.col("first_in")) + (pl.col("last_back_out") - free_at)
    turned = pl.col("first_back_out") - pl.col("first_in")
    both = both.with_columns(seconds=pl.when(pl.col("stage") == last).then(turned).otherwise(through))
    later = both.filter((pl.col("stage") > 0) & (pl.col("seconds") > 0)).select("node", "step", "seconds")
    return pl.concat([later, _first_stages(table, place)]), ended


def _first_stages(table: pl.DataFrame, place: Ints) -> pl.DataFrame:
    """The forward time of each first stage: the usual time between the first two transfers that it
    sends, and how much later than the usual first stage it sent the first. Nothing for a single
    pipeline.
    """
    first_nodes = np.flatnonzero(place == 0)
    sent = table.filter(pl.col("forward") & pl.col("src").is_in(first_nodes))
    sent = sent.group_by("src", "step").agg(pl.col("start").bottom_k(2).sort())
    sent = sent.with_columns(first=pl.col("start").list.get(0), second=pl.col("start").list.get(1, null_on_oob=True))
    usual = (pl.col("second") - pl.col("first")).median().over("step")
    later = pl.col("first") - pl.col("first").median().over("step")
    sent = sent.with_columns(seconds=usual + later, replicas=pl.len().over("step"))
    is_known = (pl.col("replicas") > 1) & (pl.col("seconds") > 0)
    return sent.filter(is_known).select(pl.col("src").alias("node"), "step", "seconds")


def _times(passages: pl.DataFrame, last: pl.DataFrame, chain: Ints, place: Ints, steps: int) -> StageTimes | None:
    """The seconds of all parts as nodes × steps, and the ends as chains × steps."""
    if passages.is_empty():
        return None
    nodes = np.unique(passages["node"].to_numpy()).astype(np.int64)
    seconds = np.full((len(nodes), steps), np.nan)
    row = np.searchsorted(nodes, passages["node"].to_numpy())
    seconds[row, passages["step"].to_numpy()] = passages["seconds"].to_numpy()
    ended = np.full((int(chain.max()) + 1, steps), np.nan)
    ended[last["chain"].to_numpy(), last["step"].to_numpy()] = last["end"].to_numpy()
    return StageTimes(nodes, place[nodes], int(place.max()) + 1, seconds, chain[nodes], ended)


def unbalanced_stages(times: StageTimes) -> list[tuple[int, float, float]]:
    """Stages that always compute longer: (stage from 0, its seconds, the others' seconds)."""
    usual = np.nanmedian(times.seconds, axis=1)
    later_stages = sorted(set(times.stage.tolist()) - {0})
    level = {s: float(np.nanmedian(usual[times.stage == s])) for s in later_stages}
    found = []
    for stage, seconds in level.items():
        others = [x for s, x in level.items() if s != stage and np.isfinite(x)]
        if others and seconds > THRESHOLDS.min_uneven_factor * float(np.median(others)):
            found.append((stage, seconds, float(np.median(others))))
    return found


def _factor_against_before(times: StageTimes, first: int, last: int) -> Floats:
    """How many times as long each node computed in steps first..last as otherwise; NaN if unknown."""
    inside = np.zeros(times.seconds.shape[1], dtype=bool)
    inside[first : last + 1] = True
    if inside.all() or not inside.any():
        return np.full(len(times.nodes), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a node unseen in all of the steps
        usual = np.nanmedian(times.seconds[:, ~inside], axis=1)
        return np.asarray(np.nanmedian(times.seconds[:, inside], axis=1) / usual)


def slower_than_before(times: StageTimes, first: int, last: int) -> list[tuple[int, float]]:
    """Nodes that computed longer in steps first..last than else, worst first, with factors."""
    ratio = _factor_against_before(times, first, last)
    worst = float(np.nanmax(ratio)) if np.isfinite(ratio).any() else 0.0
    if worst < THRESHOLDS.min_slow_factor:
        return []
    order = [
        int(i)
        for i in np.argsort(-np.nan_to_num(ratio))
        if ratio[i] >= max(THRESHOLDS.min_slow_factor, 1 + 0.7 * (worst - 1))
    ]
    return [(int(times.nodes[i]), float(ratio[i])) for i in order]
