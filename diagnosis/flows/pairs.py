"""Phase 2a: what each pair of addresses exchanges: data-parallel (DP), pipeline (PP), expert (EP) or other traffic.

Three observations decide, in this order:

* **Distinct recurring sizes.** Gradient buckets come in several sizes that return every step; a pipeline stage hands on one size
  (LLMPrism's rule). Sizes are counted on whole transfers, over all steps, so that split and merged records, whose sizes do not
  recur, do not count; a sequence length that varies gives sizes that do not recur either.
* **Together or in turn.** In a collective the receiver is itself sending while it receives; along a pipeline it is not, since it must
  compute first. This decides where sizes say nothing: a single bucket, or no byte counts at all.
* **Fan-out.** A sender that feeds all members of a clique at once is in an all-to-all (EP).

DP pairs then form components, and the pairs inside one component take its majority's type (transitivity).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from diagnosis.flows.arrays import Activity, components
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
    together, fan = _timing(flows.take(part), pair[part], len(keys), count, capture.resolution_s)
    types = _types(a, b, sizes, recurring, together, fan, count)
    types = _transitive(a, b, types, records, count)
    return Pairs(a, b, types, sizes, together, records.astype(np.int64))


def _window(flows: Flows) -> Bools:
    """All records, or a stretch of ``SAMPLE`` from the middle of a long capture."""
    chosen = np.zeros(len(flows), dtype=bool)
    first = max(0, (len(flows) - SAMPLE) // 2)
    chosen[first : first + SAMPLE] = True
    return chosen


def _recurring_sizes(flows: Flows, pair: Ints, pairs: int, has_bytes: bool) -> tuple[Ints, Floats]:
    """For each pair: how many different sizes return again and again, and what share of its records has one of them."""
    if not has_bytes:
        return np.zeros(pairs, dtype=np.int64), np.zeros(pairs)
    exact = _frequent(pair, flows.size, pairs)
    with np.errstate(divide="ignore", invalid="ignore"):
        rough = _frequent(pair, np.round(np.log(np.maximum(flows.size, 1.0)) / 0.03), pairs)
    # Headers and retransmissions blur byte counts: then sizes within 3 % are one size.
    blurred = (exact[1] < 0.3) & (rough[1] > 0.6)
    return np.where(blurred, rough[0], exact[0]), np.where(blurred, rough[1], exact[1])


def _frequent(pair: Ints, size: Floats, pairs: int) -> tuple[Ints, Floats]:
    table = pl.DataFrame({"pair": pair, "size": size}).group_by("pair", "size").len()
    top = pl.col("len").max().over("pair")
    often = table.filter((pl.col("len") >= 0.2 * top) & (pl.col("len") >= 3))
    grouped = often.group_by("pair").agg(pl.len().alias("sizes"), pl.col("len").sum().alias("covered"))
    sizes = np.zeros(pairs, dtype=np.int64)
    covered = np.zeros(pairs)
    sizes[grouped["pair"].to_numpy()] = grouped["sizes"].to_numpy()
    covered[grouped["pair"].to_numpy()] = grouped["covered"].to_numpy()
    return sizes, covered / np.maximum(np.bincount(pair, minlength=pairs), 1)


def _timing(flows: Flows, pair: Ints, pairs: int, count: int, resolution: float) -> tuple[Floats, Floats]:
    """For each pair: the typical share of a transfer during which its receiver sends too, and to how many peers its sender sends at once."""
    slack = resolution if resolution >= 1e-3 else 0.0
    sending = Activity(flows.src, flows.start, flows.end + slack, float(flows.end.max()) if len(flows) else 0.0)
    covered = sending.covered(flows.dst, flows.start, flows.end + slack)
    order = np.lexsort((flows.start, flows.src))
    src, dst, start = flows.src[order], flows.dst[order], flows.start[order]
    length = np.maximum(flows.end - flows.start, resolution)[order]
    near = np.zeros(len(flows))
    for step in (-2, -1, 1, 2):
        same = np.roll(src, step) == src
        close = np.abs(np.roll(start, step) - start) <= np.maximum(0.1 * length, resolution)
        near += same & close & (np.roll(dst, step) != dst)
    fan = np.empty(len(flows))
    fan[order] = near
    table = (
        pl.DataFrame({"pair": pair, "covered": covered, "fan": fan})
        .group_by("pair")
        .agg(pl.col("covered", "fan").median())
    )
    together, fans = np.zeros(pairs), np.zeros(pairs)
    together[table["pair"].to_numpy()] = table["covered"].to_numpy()
    fans[table["pair"].to_numpy()] = table["fan"].to_numpy()
    return together, fans


def _types(a: Ints, b: Ints, sizes: Ints, recurring: Floats, together: Floats, fan: Floats, count: int) -> list[str]:
    """The three observations joined; see the module's text."""
    collective = together >= 0.5
    many = (sizes >= 2) & (recurring >= 0.3)
    clique = collective & (fan >= 1) & _in_clique(a, b, collective & (fan >= 1), count)
    others_dp = bool((many & ~clique).any())
    types: list[str] = []
    for i in range(len(a)):
        if clique[i]:
            types.append(EP)
        elif many[i] and (collective[i] or sizes[i] >= 3):
            types.append(DP)
        elif collective[i]:
            types.append(OTHER if others_dp and sizes[i] == 1 else DP)
        else:
            types.append(DP if many[i] and together[i] > 0.3 else PP)
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
