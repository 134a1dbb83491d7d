"""How much work each step has: steps of sequences of other lengths take another time, and none of them is slow."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import polars as pl

from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.capture import Capture, Flows
from diagnosis.kinds.flows.capture.partitions import partition, run_parts
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.pairs import PP, Pairs
from diagnosis.kinds.flows.steps.steps import Steps


def whole_steps(flows: Flows, steps: Steps) -> list[Flows]:
    """The records of all steps, some whole steps at a time, as many as give about a piece of records."""
    rows = np.searchsorted(flows.start, steps.edges)
    group = (rows[:-1] - rows[0]) // pieces.PIECE_ROWS
    first = np.append(rows[:-1][np.append(True, np.diff(group) > 0)], rows[-1])
    return [flows.take(slice(low, high)) for low, high in itertools.pairwise(first.tolist())]


@partition
def _usual_sizes(part: Flows, steps: Steps) -> pl.DataFrame:
    """The median size in each of some whole steps."""
    table = pl.DataFrame({"step": steps.of(part.start), "size": part.size})
    return table.group_by("step").agg(pl.col("size").median())


def with_work(steps: Steps, job: JobFlows, pairs: Pairs, capture: Capture) -> Steps:
    """The steps with ``work``, if the pipeline transfers more in some steps than in others: sequences of varying length
    are the usual false alarm. The expected time of a step is a linear function of the transferred size.
    O(records between stages).
    """
    if not capture.has_bytes or len(steps) < 8:
        return steps
    handed = pairs.carried(job.flows, len(capture.names), PP)
    found: list[pl.DataFrame] = list(
        run_parts(handed.disk, _usual_sizes, [(part, steps) for part in whole_steps(handed, steps)])
    )
    sizes = pl.concat(found).sort("step")
    if sizes.height < len(steps):
        return steps
    size = sizes["size"].to_numpy() / float(np.median(sizes["size"].to_numpy()))
    if float(np.median(np.abs(size - 1))) < 0.02:
        return steps
    seconds = steps.seconds
    i, j = np.triu_indices(min(len(size), 1500), 1)
    is_different = np.abs(size[i] - size[j]) > 0.05
    i, j = i[is_different], j[is_different]
    if not len(i):
        return steps
    slope = float(np.median((seconds[i] - seconds[j]) / (size[i] - size[j])))
    rest = seconds - slope * size
    level = float(np.median(rest))
    explained = np.median(np.abs(rest - level)) < 0.5 * np.median(np.abs(seconds - np.median(seconds)))
    ought = level + slope * size
    if slope <= 0 or not explained or ought.min() <= 0:
        return steps
    return replace(steps, work=ought / float(np.median(ought)))
