"""Members that begin the exchanges of experts late, step after step: they compute longer.

In an all-to-all everybody waits for everybody, many times a step. A member's own part is the time
from the end of its last exchange to the begin of the next one. What it computes before it hands
tokens out (attention) is equal work; what it computes before it hands them back follows the tokens
that its experts got. So only what is long before both kinds of exchange counts: a busy expert is
late before the second alone, and that is nobody's fault. O(records of experts).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.arrays import close_holes, components, runs
from diagnosis.kinds.flows.capture.capture import Capture
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.pairs import EP, Pairs
from diagnosis.kinds.flows.slow.slowness import (
    SlowReport,
    is_significant,
    lateness_by_step,
    names_of,
    running_median,
)
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.values import stats
from diagnosis.values.plain import duration
from diagnosis.values.stats import MAX_WEIGHT, spread

THRESHOLDS: Final = thresholds.of("late_in_exchange")


def late_in_exchanges(job: JobFlows, pairs: Pairs, steps: Steps, capture: Capture, usual: float) -> list[SlowReport]:
    """One finding for each member that begins late in a stretch of steps, or in all of them."""
    late = _lateness(job, pairs, steps, capture)
    members = np.unique(late["src"].to_numpy())
    if len(members) < THRESHOLDS.members:
        return []
    calm = running_median(lateness_by_step(late, members, "behind", len(steps)))
    calm = np.nan_to_num(calm, nan=0.0)
    apart = spread(np.median(calm, axis=1))
    noise = float(np.median(stats.spreads(calm, 1)))
    deviation = THRESHOLDS.deviations * max(noise, apart)
    limit = max(THRESHOLDS.late * usual, THRESHOLDS.stamps * capture.resolution_s, deviation)
    is_late = calm > limit
    found = []
    for row in np.flatnonzero(is_late.any(axis=1)).tolist():
        for first, last in runs(close_holes(is_late[row])):
            if last - first + 1 >= THRESHOLDS.steps and is_significant(steps, first, last):
                delay = float(np.median(calm[row, first : last + 1]))
                stretch = (first, last)
                found.append(_report(int(members[row]), stretch, delay, steps, capture, usual))
    return found


def _lateness(job: JobFlows, pairs: Pairs, steps: Steps, capture: Capture) -> pl.DataFrame:
    """Seconds by which each member began the exchanges of each step after the usual member: src,
    step, ``behind``.
    """
    part = pairs.carried(job.flows, len(capture.names), EP)
    group = components(pairs.a[pairs.of(EP)], pairs.b[pairs.of(EP)], len(capture.names))
    table = pl.DataFrame(
        {
            "src": part.src,
            "dst": part.dst,
            "group": group[part.src],
            "start": part.start,
            "end": part.end,
            "step": steps.of(part.start),
        }
    ).filter(pl.col("step").is_between(0, len(steps) - 1))
    # The k-th message to each of the others belongs to the k-th exchange.
    number = pl.int_range(pl.len()).over("step", "src", "dst")
    table = table.sort("start").with_columns(number=number)
    exchange = ("step", "group", "number")
    begun = table.group_by(*exchange, "src").agg(pl.col("start").min()).sort("start")
    begun = begun.join_asof(
        _ends(job, steps), left_on="start", right_on="ready", by=["src", "step"], check_sortedness=False
    )
    # How long it computed since it had all that was under way before, gradients of the same pairs included.
    computed = pl.col("start") - pl.col("ready")
    begun = begun.with_columns(computed=computed).drop_nulls("computed")
    size = pl.col("src").n_unique().over("group")
    whole = begun.filter(pl.len().over(exchange) == size)
    # Nobody computes less than no time: there other messages were counted as exchanges.
    is_possible = (pl.col("computed") > 0).mean().over("group", "step") >= THRESHOLDS.possible
    behind = pl.col("computed") - pl.col("computed").median().over(exchange)
    whole = whole.filter(is_possible).with_columns(behind=behind)
    is_first = pl.col("number") % 2 == 0
    either = whole.group_by("src", "step").agg(
        first=pl.col("behind").filter(is_first).mean(),
        second=pl.col("behind").filter(~is_first).mean(),
        exchanges=pl.len(),
    )
    least = pl.min_horizontal("first", "second")
    both = either.with_columns(behind=pl.col("exchanges") * least)
    return both.select("src", "step", "behind").sort("src", "step")


def _ends(job: JobFlows, steps: Steps) -> pl.DataFrame:
    """When a transfer of each member ended that it sent or got: src, step, ready, in order."""
    flows = job.flows
    step = steps.of(flows.start)
    ends = [pl.DataFrame({"src": who, "step": step, "ready": flows.end}) for who in (flows.src, flows.dst)]
    return pl.concat(ends).sort("ready")


def _report(
    member: int,
    stretch: tuple[int, int],
    delay: float,
    steps: Steps,
    capture: Capture,
    usual: float,
) -> SlowReport:
    first, last = stretch
    nodes, who = names_of([member], capture)
    is_always = last - first + 1 >= THRESHOLDS.whole * len(steps)
    when = "in every step" if is_always else f"in steps {first + 1} to {last + 1}"
    return SlowReport(
        "slow_group",
        float(steps.start[first]),
        float(steps.end[last]),
        f"{who} began its part of the experts' exchanges late {when}, by {duration(delay)} in all; they waited for it.",
        members=[member],
        culprits=[member],
        nodes=nodes,
        factor=1.0 + delay / usual,
        measure="late",
        confidence=min(MAX_WEIGHT, THRESHOLDS.sure + THRESHOLDS.surer * delay / usual),
    )
