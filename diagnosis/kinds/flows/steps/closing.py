"""Moves the end of each step from the last gradient to the small messages that close it.

Gradients end a step for the network, but not for the program: it sums the gradient norm, runs the optimizer and
averages the loss. The last small messages on the gradients' own connections end within milliseconds of the step. They
lie before the longest pause of their connection, in which the next step computes; what follows that pause announces
the next gradients. Sharded weights are fetched before the next step computes, and the loss may be averaged by other
connections of the same machines: there all small messages close the step that come soon after its gradients, on most
pairs. O(n log n) in small records on these connections.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.capture import Bools, Capture, Floats, Flows, Ints32, pair_key
from diagnosis.kinds.flows.capture.partitions import partition
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.pairs import DP, Pairs, clocks_disagree
from diagnosis.kinds.flows.steps.steps import Steps

THRESHOLDS: Final = thresholds.of("closing")

#: All connections of a pair of machines that carry no gradients, as one.
OTHER_CONNECTIONS: Final = -1


def close_steps(steps: Steps, job: JobFlows, pairs: Pairs, capture: Capture) -> Steps:
    """The steps with ends at their closing messages; unchanged if the capture has none. ``edges`` stay: they assign
    records to steps by the gradients. O(n log n) in small messages.
    """
    if (
        steps.pace != DP
        or len(steps) < THRESHOLDS.min_steps
        or capture.resolution_s > THRESHOLDS.fine_s
        or clocks_disagree(pairs)
    ):
        return steps
    words = _small_messages(job, capture)
    if not len(words):
        return steps
    count = len(capture.names)
    data = pairs.carried(job.flows, count, DP)
    if not len(data):
        return steps
    # Some connections at a time, each whole.
    groups = 1 + (len(data) + len(words)) // pieces.PIECE_ROWS
    parts = [flows.split(flows.column(np.int32, _group, count, groups), groups) for flows in (data, words)]
    last_s = THRESHOLDS.last_step_share * float(np.median(steps.seconds))
    found = [_closing_ends(_table(big, small, steps), len(steps), last_s) for big, small in zip(*parts, strict=True)]
    each = pl.concat(found)
    is_beside = pl.col("port") == OTHER_CONNECTIONS
    paired = len(np.unique(np.concatenate([pair_key(part, count) for _, part in data.parts()])))
    if each.filter(is_beside).select("a", "b").n_unique() <= THRESHOLDS.min_habit_share * paired:
        each = each.filter(~is_beside)  # of a single machine: the launcher's store, a monitor
    ends = _ends_by_step(each, len(steps))
    later = np.fmax(steps.end, ends)
    # A step cannot end after the next one's gradients.
    later[:-1] = np.minimum(later[:-1], steps.end[1:])
    start = np.where(np.isclose(steps.start[1:], steps.end[:-1]), later[:-1], steps.start[1:])
    return replace(steps, start=np.append(steps.start[:1], start), end=later)


def _small_messages(job: JobFlows, capture: Capture) -> Flows:
    """The small records with payload among the members."""
    flows = capture.flows
    inside = np.zeros(len(capture.names), dtype=bool)
    inside[job.members] = True
    return flows.take(flows.column(np.bool_, _are_small_messages, inside))


@partition
def _are_small_messages(part: Flows, inside: Bools) -> Bools:
    return np.asarray(part.control & ~part.empty & inside[part.src] & inside[part.dst])


@partition
def _group(part: Flows, count: int, groups: int) -> Ints32:
    """A group of each record's pair."""
    return np.asarray(pair_key(part, count) % groups, np.int32)


def _table(data: Flows, words: Flows, steps: Steps) -> pl.DataFrame:
    """Records of the gradients' connections, in order of time on each: ``hop`` columns, start, end, is_data, step (of
    the last gradient until then), until (the latest end until then), paced (the end of the step's gradients). A pair's
    other connections are one more (:data:`OTHER_CONNECTIONS`), with its gradients.
    """

    def rows(flows: Flows, *, is_data: bool) -> pl.DataFrame:
        return pl.DataFrame(
            {
                "a": np.minimum(flows.src, flows.dst),
                "b": np.maximum(flows.src, flows.dst),
                "port": flows.port,
                "start": flows.start,
                "end": flows.end,
            }
        ).with_columns(is_data=pl.lit(is_data))

    hop = ["a", "b", "port"]
    big = rows(data, is_data=True)
    big = big.with_columns(step=pl.Series(steps.of(data.start)))
    small = rows(words, is_data=False).with_columns(step=pl.lit(None, dtype=big["step"].dtype))
    other = small.join(big, on=hop, how="anti").with_columns(port=pl.lit(OTHER_CONNECTIONS, dtype=big["port"].dtype))
    other = other.join(big, on=["a", "b"], how="semi")
    gradients = big.join(other, on=["a", "b"], how="semi").with_columns(
        port=pl.lit(OTHER_CONNECTIONS, dtype=big["port"].dtype)
    )
    table = pl.concat([big, small.join(big, on=hop, how="semi"), gradients, other]).sort(*hop, "start")
    table = table.with_columns(
        pl.col("step").forward_fill().over(hop),
        until=pl.col("end").cum_max().over(hop),
    ).filter(pl.col("step").is_between(0, len(steps) - 1))
    return table.with_columns(paced=pl.Series(steps.end[table["step"].to_numpy()]))


def _closing_ends(table: pl.DataFrame, count: int, last_s: float) -> pl.DataFrame:
    """For each connection and step the end of its last closing message, in the last step no later than ``last_s`` after
    its gradients.
    """
    hop = ["a", "b", "port"]
    table = table.with_columns(
        pause=(pl.col("start").shift(-1).over(hop) - pl.col("until")).fill_null(np.inf),
        last=pl.col("start").filter("is_data").max().over([*hop, "step"]),
    )
    # From the last gradient of the step on this connection to the first of the next.
    tail = table.filter(pl.col("start") >= pl.col("last"))
    tail = tail.with_columns(lag=(pl.col("end") - pl.col("paced")).clip(0.0))
    lags = _before_longest(tail).filter(pl.col("step") < count - 1).group_by(*hop, "step").agg(pl.col("lag").max())
    low, high = pl.col("lag").quantile(0.25), pl.col("lag").quantile(0.75)
    usual = lags.group_by(hop).agg(
        closes=(pl.col("lag") > 0).sum(),
        most=high + THRESHOLDS.max_quartile_ranges * (high - low),
        typical=pl.col("lag").median(),
    )
    is_soon = (pl.col("port") != OTHER_CONNECTIONS) | (pl.col("typical") <= last_s)
    usual = usual.filter((pl.col("closes") >= THRESHOLDS.min_habit_share * (count - 1)) & is_soon)
    # A rank that waits for another announces its gradients long before them; and after the last step a job closes. The
    # optimizer's first step takes longer than any other.
    is_last, is_beside = pl.col("step") == count - 1, pl.col("port") == OTHER_CONNECTIONS
    most = pl.when(is_last & ~is_beside).then(pl.max_horizontal("most", pl.lit(last_s))).otherwise("most")
    # Connections that carry no gradients are those that a job closes with.
    most = pl.when(is_beside).then(pl.min_horizontal("most", pl.lit(last_s))).otherwise(most)
    most = pl.when(is_last & is_beside).then(2.0 * pl.col("typical")).otherwise(most)
    known = pl.col("is_data") | (pl.col("lag") <= most) | (pl.col("step") == 0)
    near = tail.join(usual, on=hop).filter(known)
    return _before_longest(near).filter(~pl.col("is_data")).group_by(*hop, "step").agg(pl.col("end").max())


def _ends_by_step(ends: pl.DataFrame, count: int) -> Floats:
    """For each step the end of its last closing message on any connection; NaN without one."""
    # The latest but one: on one connection, what is announced to a slow rank waits longer than a step's pause.
    which = pl.when(pl.col("step").first() == count - 1).then(0).otherwise(pl.min_horizontal(1, pl.len() // 3))
    ends = ends.group_by("step").agg(pl.col("end").sort(descending=True).gather(which).first())
    out = np.full(count, np.nan)
    out[ends["step"].to_numpy()] = ends["end"].to_numpy()
    return out


def _before_longest(tail: pl.DataFrame) -> pl.DataFrame:
    """The records of each connection and step before their longest pause; all of the connections beside."""
    part = ["a", "b", "port", "step"]
    longest = pl.col("pause") == pl.col("pause").max().over(part)
    before = pl.col("start") <= pl.col("start").filter(longest).min().over(part)
    return tail.filter(before | (pl.col("port") == OTHER_CONNECTIONS))
