"""Phase 2a: what each pair of addresses exchanges: data-parallel (DP), pipeline (PP), expert (EP) or other traffic.

Three observations decide, in this order:

* **Distinct recurring sizes.** Gradient buckets come in several sizes that return every step; a pipeline stage hands on one size
  (LLMPrism's rule). Sizes are counted on whole transfers, over all steps, so that split and merged records, whose sizes do not
  recur, do not count; a sequence length that varies gives sizes that do not recur either.
* **Together or in turn.** In a collective the receiver passes on to a third party while it receives; along a pipeline it must compute
  first (two neighbours may exchange in both directions at once, which tells nothing). This decides where sizes say nothing: a single
  bucket, or no byte counts at all.
* **Fan-out.** A sender that feeds all members of a clique at once is in an all-to-all (EP).

DP pairs then form components, and the pairs inside one component take its majority's type (transitivity).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from diagnosis.flows.arrays import Load, components
from diagnosis.flows.capture import Bools, Capture, Floats, Flows, Ints
from diagnosis.flows.jobs import JobFlows

DP, PP, EP, OTHER = "DP", "PP", "EP", "other"
#: Records looked at for timing; sizes are counted over all of them.
SAMPLE = 1_500_000


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs a < b of one job with their type and the evidence for it; columns of equal length."""

    a: Ints
    b: Ints
    type: list[str]
    sizes: Ints
    together: Floats
    records: Ints

    def of(self, *types: str) -> Bools:
        """Mask of the pairs of these types."""
        return np.array([t in types for t in self.type], dtype=bool)

    def index(self, flows: Flows, count: int) -> Ints:
        """The pair number of each record."""
        key = np.minimum(flows.src, flows.dst).astype(np.int64) * count + np.maximum(flows.src, flows.dst)
        return np.searchsorted(self.a * count + self.b, key)


def classify(job: JobFlows, capture: Capture) -> Pairs:
    """Types every pair of a job. O(n log n) in records."""
    flows = job.flows
    count = len(capture.names)
    key = np.minimum(flows.src, flows.dst).astype(np.int64) * count + np.maximum(flows.src, flows.dst)
    keys, pair, records = np.unique(key, return_inverse=True, return_counts=True)
    a, b = keys // count, keys % count
    sizes, recurring = _recurring_sizes(flows, pair, len(keys), capture.has_bytes)
    part = _window(flows)
    timing = _timing(flows.take(part), pair[part], len(keys), count, capture.resolution_s)
    types = _types(a, b, sizes, recurring, timing, count, capture.has_bytes)
    types = _transitive(a, b, types, records, count)
    return Pairs(a, b, types, sizes, np.maximum(timing[0], timing[1]), records.astype(np.int64))


def _window(flows: Flows) -> Bools:
    """All records, or a stretch of ``SAMPLE`` from the middle of a long capture."""
    chosen = np.zeros(len(flows), dtype=bool)
    first = max(0, (len(flows) - SAMPLE) // 2)
    chosen[first : first + SAMPLE] = True
    return chosen


def _recurring_sizes(flows: Flows, pair: Ints, pairs: int, has_bytes: bool) -> tuple[Ints, Floats]:
    """For each pair: how many different sizes return again and again, and what share of its records has one of them.

    Sizes that follow each other within 1 % are one: headers and retransmissions blur byte counts, and a sequence length that varies
    gives a continuum.
    """
    sizes = np.zeros(pairs, dtype=np.int64)
    covered = np.zeros(pairs)
    if not has_bytes:
        return sizes, covered
    table = pl.DataFrame({"pair": pair, "size": flows.size}).group_by("pair", "size").len().sort("pair", "size")
    apart = (pl.col("size") > 1.01 * pl.col("size").shift(1)) | (pl.col("pair") != pl.col("pair").shift(1))
    table = (
        table.with_columns(group=apart.fill_null(True).cum_sum())
        .group_by("group")
        .agg(pl.col("pair").first(), pl.col("len").sum())
    )
    often = table.filter((pl.col("len") >= 0.2 * pl.col("len").max().over("pair")) & (pl.col("len") >= 3))
    grouped = often.group_by("pair").agg(pl.len().alias("sizes"), pl.col("len").sum().alias("covered"))
    sizes[grouped["pair"].to_numpy()] = grouped["sizes"].to_numpy()
    covered[grouped["pair"].to_numpy()] = grouped["covered"].to_numpy()
    return sizes, covered / np.maximum(np.bincount(pair, minlength=pairs), 1)


def _timing(flows: Flows, pair: Ints, pairs: int, count: int, resolution: float) -> tuple[Floats, Floats, Floats]:
    """For each pair, typical for its transfers: how busy the receiver is sending to third parties meanwhile (1 = all the time), how in what
    share of transfers it is sending back, and to how many other peers the sender begins to send at the same moment."""
    slack = resolution if resolution >= 1e-3 else 0.0
    end = flows.end + slack
    span = float(end.max()) if len(flows) else 0.0
    src, dst = flows.src.astype(np.int64), flows.dst.astype(np.int64)
    lane = src * count + dst
    _, lanes = np.unique(np.concatenate([lane, dst * count + src]), return_inverse=True)
    forth, back = lanes[: len(lane)], lanes[len(lane) :]
    returned = Load(forth, forth, flows.start, end, span).during(back, flows.start, end)
    sent = Load(src, forth, flows.start, end, span).during(dst, flows.start, end)
    order = np.lexsort((flows.start, flows.src))
    sender, to, start = src[order], dst[order], flows.start[order]
    length = np.maximum(flows.end - flows.start, resolution)[order]
    near = np.zeros(len(flows))
    for step in (-2, -1, 1, 2):
        close = np.abs(np.roll(start, step) - start) <= np.maximum(0.1 * length, resolution)
        near += (np.roll(sender, step) == sender) & close & (np.roll(to, step) != to)
    fan = np.empty(len(flows))
    fan[order] = near
    table = pl.DataFrame(
        {"pair": pair, "chain": np.minimum(sent - returned, 1.0), "mutual": returned > 0.5, "fan": fan}
    )
    typical = table.group_by("pair").agg(pl.col("chain").median(), pl.col("mutual").mean(), pl.col("fan").median())
    out = np.zeros((3, pairs))
    out[:, typical["pair"].to_numpy()] = typical.select("chain", "mutual", "fan").to_numpy().T
    return out[0], out[1], out[2]


def _types(
    a: Ints, b: Ints, sizes: Ints, recurring: Floats, timing: tuple[Floats, Floats, Floats], count: int, has_bytes: bool
) -> list[str]:
    """The three observations joined; see the module's text."""
    chain, mutual, fan = timing
    ring = chain >= 0.5
    fanned = ring & (fan >= 1)
    clique = fanned & _in_clique(a, b, fanned, count)
    many = (sizes >= 2) & (recurring >= 0.3)
    bucketed = many & ~clique & (ring | (mutual >= 0.5) | (sizes >= 3))
    others = bool(bucketed.any())
    # Two members exchange in both directions always; neighbours in a pipeline only between warm-up and drain.
    exchange = mutual >= max(0.8, 0.93 * float(mutual.max(initial=0.0)))
    types: list[str] = []
    for i in range(len(a)):
        if clique[i]:
            types.append(EP)
        elif bucketed[i]:
            types.append(DP)
        elif ring[i]:
            types.append(OTHER if others and sizes[i] == 1 and recurring[i] >= 0.5 else DP)
        elif exchange[i] and not (others and has_bytes):
            types.append(DP)
        else:
            types.append(PP)
    return types


def _in_clique(a: Ints, b: Ints, chosen: Bools, count: int) -> Bools:
    """Pairs whose component (of the chosen ones) is nearly complete and has at least four members."""
    if not chosen.any():
        return chosen
    label = components(a[chosen], b[chosen], count)
    edges = np.bincount(label[a[chosen]], minlength=label.max() + 1)
    nodes = np.bincount(label[np.unique(np.concatenate([a[chosen], b[chosen]]))], minlength=label.max() + 1)
    complete = (nodes >= 4) & (edges >= 0.7 * nodes * (nodes - 1) / 2)
    return np.asarray(chosen & complete[label[a]] & (label[a] == label[b]))


def _transitive(a: Ints, b: Ints, types: list[str], records: Ints, count: int) -> list[str]:
    """Within a component of DP pairs every pair is DP: a pair seen too rarely to judge follows its component's majority."""
    chosen = np.array([t == DP for t in types], dtype=bool)
    if not chosen.any():
        return types
    label = components(a[chosen], b[chosen], count)
    inside = (label[a] == label[b]) & ~chosen
    typical = np.median(records[chosen])
    return [DP if inside[i] and t != EP and records[i] < 0.5 * typical else t for i, t in enumerate(types)]
