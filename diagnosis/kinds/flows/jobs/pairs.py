"""Phase 2a: the traffic of each pair of addresses: data-parallel (DP), pipeline (PP), expert (EP) or other traffic.

Three observations decide, in this order:

* **Distinct recurring sizes.** Gradient buckets have several sizes that recur every step; a pipeline stage sends one
  (LLMPrism's rule). Whole transfers of all steps count: split and merged records and varying lengths do not recur.
* **Together or in turn.** In a collective the receiver forwards while it receives; in a pipeline it computes first (two
  neighbours may exchange both ways at once). This decides if sizes do not: a single bucket, or no byte counts.
* **Fan-out.** A sender that sends to all members of a clique at once is in an all-to-all (EP).

DP pairs then form components, and the pairs inside one component take its majority's type (transitivity).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.arrays import Load, components, idle_gaps
from diagnosis.kinds.flows.capture.capture import Bools, Capture, Floats, Flows, Ints, Ints32, pair_key
from diagnosis.kinds.flows.capture.packing import packable
from diagnosis.kinds.flows.capture.partitions import partition
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.one_clock import hands_on, has_one_clock, middle_rows
from diagnosis.kinds.flows.jobs.pair_shapes import find_chords, in_clique, rarely_sent
from diagnosis.kinds.flows.jobs.sizes import Sizes, count_sizes, recurring_sizes

THRESHOLDS: Final = thresholds.of("pairs")

DP, PP, EP, OTHER = "DP", "PP", "EP", "other"
#: Number of records analysed for timing; sizes are counted over all of them.
SAMPLE_RECORDS = 300_000
#: With this time resolution (seconds) or a coarser one all transfers of a step seem simultaneous.
BLIND_RESOLUTION_S = 0.5
#: Less than this share of the bytes in one direction counts as nothing.
MAX_ONE_WAY_SHARE = 0.02


@packable
@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs a < b of one job with their type and the evidence for it; columns of equal length. ``extra_size``: the size
    that a DP pair exchanges many times a step and that is no gradient, 0 if there is none. ``one_clock``: transfers and
    their acknowledgements carry the same times, so the collectors' clocks agree. ``exact_clock``: to the microsecond,
    as most records begin when one of another machine ends. ``numbered``: the job's records, and
    the pair number of each.
    """

    a: Ints
    b: Ints
    type: list[str]
    sizes: Ints
    together: Floats
    records: Ints
    main: Floats
    extra_size: Floats
    one_clock: bool = False
    exact_clock: bool = False
    numbered: tuple[Flows, Ints32] | None = field(default=None, compare=False, repr=False)
    _carried: dict[tuple[str, ...], Flows] = field(default_factory=dict, init=False, compare=False, repr=False)

    def of(self, *types: str) -> Bools:
        """Mask of the pairs of these types."""
        return np.array([t in types for t in self.type], dtype=bool)

    def index(self, flows: Flows, count: int) -> Ints32:
        """The pair number of each record."""
        if self.numbered is not None and flows is self.numbered[0]:
            return self.numbered[1]
        return flows.column(np.int32, _pair_numbers, self.a * count + self.b, count)

    def carried(self, flows: Flows, count: int, *types: str) -> Flows:
        """The records that :meth:`carries` chooses; of the job's own they are kept for the next who asks."""
        if self.numbered is None or flows is not self.numbered[0]:
            return flows.take(self.carries(flows, count, *types))
        if types not in self._carried:
            self._carried[types] = flows.take(self.carries(flows, count, *types))
        return self._carried[types]

    def carries(self, flows: Flows, count: int, *types: str) -> Bools:
        """Mask of the records on pairs of these types; of mixed pairs only the gradients'."""
        is_beside = DP in types and OTHER not in types and bool(self.extra_size.any())
        extra = self.extra_size if is_beside else None
        mask = flows.column(np.bool_, _is_carried, self.of(*types), extra, beside=[self.index(flows, count)])
        expert = self.of(EP)
        if DP not in types or EP in types or not expert.any():
            return np.asarray(mask)
        tokens = np.unique(np.round(self.main[expert & (self.main > 0)], -3))
        if not len(tokens):  # experts of uneven load: sizes that never recur, below the gradients'
            share = flows.size[expert[self.index(flows, count)]]
            most = float(np.quantile(share, 0.999)) if len(share) else 0.0
            least = self.main[self.of(DP) & (self.main > 0)].min(initial=np.inf)
            return np.asarray(mask & (flows.size > 1.02 * most) if 1.5 * most < least < np.inf else mask)
        mask = mask.copy()
        for size in tokens:
            mask &= ~(np.abs(flows.size / size - 1) < 0.01)
        larger = flows.size[mask & (flows.size > 1.05 * tokens.max(initial=0.0))]
        if len(larger) and len(tokens) and np.median(larger) > 5 * tokens.max():
            mask &= flows.size > 3.1 * tokens.max()  # split and merged pieces of the experts' exchange
        return np.asarray(mask)


def classify_pairs(job: JobFlows, capture: Capture) -> Pairs:
    """Types every pair of a job. O(n log n) in records."""
    flows = job.flows
    count = len(capture.names)
    keys, records = pieces.add_counts(flows.each(_pairs, count))
    pair = flows.column(np.int32, _pair_numbers, keys, count)
    a, b = keys // count, keys % count
    tables = count_sizes(flows, pair, len(keys), capture.has_bytes)
    part = middle_rows(flows, max(SAMPLE_RECORDS, THRESHOLDS.sample_of_pair * len(keys)))
    timing = _timing(flows.take(part), pair[part], len(keys), count, capture.resolution_s)
    sizes = recurring_sizes(flows, pair, len(keys), capture.has_bytes, tables)
    timing = _share_evidence(timing, sizes)
    if capture.resolution_s >= BLIND_RESOLUTION_S:
        timing = (np.zeros(len(keys)), np.zeros(len(keys)), np.zeros(len(keys)))  # sizes alone decide

    def accompanies(gradients: Bools) -> Floats:
        return _gradient_time_share(flows, pair, gradients, sizes.main)

    telling = capture.has_bytes and bool((sizes.covered >= 0.3).any())  # sampled byte counts never recur
    types = _types(a, b, sizes, timing, records, count=count, has_bytes=telling, accompanies=accompanies)
    forth, moved = np.zeros((2, len(a)))
    for own_forth, own_moved in flows.each(_volumes, len(a), beside=[pair]):
        forth += own_forth
        moved += own_moved
    one_way = _one_way_pairs(forth, moved, a, b, count)
    circled = _closed_rings(forth, moved, a, b, count) & _beside_gradients(types, sizes, a, b, count)
    types = [
        DP if circle else OTHER if t == PP and alone else t
        for t, alone, circle in zip(types, one_way, circled, strict=True)
    ]
    if capture.resolution_s >= BLIND_RESOLUTION_S and DP not in types:
        types = [OTHER] * len(types)  # no sizes either: nothing is known
    types = _within_all_to_alls(a, b, types, count)
    types = _follow_component(a, b, types, records, count, fixed=sizes.guest)
    together = np.maximum(timing[0], timing[1])
    beside = np.where(_frequent_sizes(sizes) & np.array([t == DP for t in types]), sizes.main, 0.0)
    is_exact = hands_on(flows, capture)
    is_one, records = is_exact or has_one_clock(flows, capture), records.astype(np.int64)
    return Pairs(a, b, types, sizes.frequent, together, records, sizes.main, beside, is_one, is_exact, (flows, pair))


@partition
def _pairs(part: Flows, count: int) -> tuple[Ints, Ints]:
    """The pairs of the records (see :func:`pair_key`), sorted, and how many records each has."""
    return np.unique(pair_key(part, count), return_counts=True)


@partition
def _volumes(part: Flows, pair: Ints32, pairs: int) -> tuple[Floats, Floats]:
    """The bytes of each pair from its first to its second address, and both ways; a record without bytes counts 1."""
    volume = np.where(np.isfinite(part.size), part.size, 1.0)
    return np.bincount(pair, np.where(part.src < part.dst, volume, 0.0), pairs), np.bincount(pair, volume, pairs)


@partition
def _is_carried(part: Flows, index: Ints32, wanted: Bools, extra_size: Floats | None) -> Bools:
    """The records of the pairs that are wanted, without those of their ``extra_size``."""
    mask = wanted[index]
    if extra_size is not None:
        mask &= ~(np.abs(part.size - extra_size[index]) < 0.01 * extra_size[index])
    return mask


@partition
def _pair_numbers(part: Flows, keys: Ints, count: int) -> Ints32:
    """The place of each record's pair among ``keys``."""
    return np.searchsorted(keys, pair_key(part, count)).astype(np.int32)


def _one_way_pairs(forth: Floats, moved: Floats, a: Ints, b: Ints, count: int) -> Bools:
    """Pairs in which only one side sends although both send and receive elsewhere: no pipeline, which returns
    gradients, but a hop of a ring. ``forth``: bytes from a to b, of ``moved``.
    """
    back = moved - forth
    sent = np.bincount(a, forth, count) + np.bincount(b, back, count)
    received = np.bincount(b, forth, count) + np.bincount(a, back, count)
    both = np.minimum(sent, received) > MAX_ONE_WAY_SHARE * np.maximum(sent, received)
    return np.asarray((np.minimum(forth, back) <= MAX_ONE_WAY_SHARE * moved) & both[a] & both[b])


def _closed_rings(forth: Floats, moved: Floats, a: Ints, b: Ints, count: int) -> Bools:
    """Pairs of a closed ring: each member sends to one and hears from one, all about the same."""
    chosen = np.minimum(forth, moved - forth) <= THRESHOLDS.max_ring_back_share * moved
    src, dst = np.where(2 * forth > moved, a, b), np.where(2 * forth > moved, b, a)
    out, into = np.bincount(src[chosen], minlength=count), np.bincount(dst[chosen], minlength=count)
    once = (out == 1) & (into == 1)
    label = components(a[chosen], b[chosen], count)
    whole = np.ones(count, dtype=bool)
    np.logical_and.at(whole, label, once)
    low, high = np.full(count, np.inf), np.zeros(count)
    np.minimum.at(low, label[a[chosen]], moved[chosen])
    np.maximum.at(high, label[a[chosen]], moved[chosen])
    even = high <= THRESHOLDS.max_ring_ratio * low
    return np.asarray(chosen & whole[label[a]] & even[label[a]] & (label[a] == label[b]))


def _beside_gradients(types: list[str], sizes: Sizes, a: Ints, b: Ints, count: int) -> Bools:
    """Pairs in a component in which some pair shows gradients: it is recognised as such, or has several sizes."""
    gradient = np.array([t == DP for t in types], dtype=bool) | (sizes.frequent >= 3)
    label = components(a, b, count)
    shown = np.zeros(count, dtype=bool)
    shown[label[a[gradient]]] = True
    return np.asarray(shown[label[a]])


def _frequent_sizes(sizes: Sizes) -> Bools:
    """Pairs with gradients and with another exchange many times a step (context parallelism, activations)."""
    return np.asarray((sizes.frequent == 1) & (sizes.kinds >= 3) & (sizes.rarer >= 0.2))


def clocks_disagree(pairs: Pairs) -> bool:
    """True if members of rings with recurring bucket sizes do not seem to send together: their clocks differ."""
    rings = pairs.of(DP) & (pairs.sizes >= 2)
    return not pairs.one_clock and bool(rings.any() and np.median(pairs.together[rings]) < 0.4)


def _timing(flows: Flows, pair: Ints32, pairs: int, count: int, resolution: float) -> tuple[Floats, Floats, Floats]:
    """For each pair, typical for its transfers: how busy the receiver is sending to third members meanwhile (1 = all
    the time), the share of transfers in which it sends back, and the number of other peers to which the sender begins
    to send at the same time.
    """
    slack = resolution if resolution >= 1e-3 else 0.0
    end = flows.end + slack
    span = float(end.max()) if len(flows) else 0.0
    src, dst = flows.src.astype(np.int64), flows.dst.astype(np.int64)
    way = src * count + dst
    _, ways = np.unique(np.concatenate([way, dst * count + src]), return_inverse=True)
    forth, back = ways[: len(way)], ways[len(way) :]
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


def _gradient_time_share(flows: Flows, pair: Ints32, gradients: Bools, main: Floats) -> Floats:
    """For each pair the share of its records that fall where gradients are exchanged. A ring of one size is a separate
    group (the experts' gradients) if it has the rhythm of the others, and context parallelism if it has another.
    """
    pace = gradients[pair]
    large = pace & (flows.size >= 0.5 * main[pair])  # not what experts exchange on the same pairs
    pace = large if large.any() else pace
    length = float(np.median((flows.end - flows.start)[pace]))
    stops, begins = idle_gaps(flows.start[pace], flows.end[pace])
    apart = begins - stops > 5 * length
    opened = np.concatenate([flows.start[pace][:1], begins[apart]])
    closed = np.concatenate([stops[apart], [float(flows.end[pace].max())]])
    at = np.maximum(np.searchsorted(opened, flows.end + length) - 1, 0)
    inside = (flows.start <= closed[at] + length) & (flows.end >= opened[at] - length)
    return np.bincount(pair, inside, len(gradients)) / np.maximum(np.bincount(pair, minlength=len(gradients)), 1)


def _share_evidence(timing: tuple[Floats, Floats, Floats], sizes: Sizes) -> tuple[Floats, Floats, Floats]:
    """Pairs of one and the same size share their evidence: lost records matter less."""
    own_key = -1.0 - np.arange(len(sizes.frequent))
    same = np.where(
        (sizes.frequent == 1) & (sizes.main > 0), np.round(np.log(np.maximum(sizes.main, 1.0)) / 0.02), own_key
    )
    _, group = np.unique(same, return_inverse=True)
    each = np.maximum(np.bincount(group), 1)
    chain, mutual, fan = (np.bincount(group, weights=value) / each for value in timing)
    return chain[group], mutual[group], fan[group]


def _types(
    a: Ints,
    b: Ints,
    sizes: Sizes,
    timing: tuple[Floats, Floats, Floats],
    records: Ints,
    *,
    count: int,
    has_bytes: bool,
    accompanies: Callable[[Bools], Floats],
) -> list[str]:
    """The three observations joined; see the module's text. ``accompanies`` is asked about rings of one size only."""
    chain, mutual, fan = timing
    ring = chain >= 0.5
    fanned = (ring | (mutual >= 0.8)) & (fan >= 1)
    # In an all-to-all both ends send; the hop of a ring between two such cliques is no part of one.
    answered = fanned & (mutual > THRESHOLDS.min_answered)
    inside = answered & in_clique(a, b, answered, count)
    clique, bucketed = _with_buckets(inside, sizes, mutual, ring)
    others = bool(bucketed.any())
    # Two members exchange in both directions always; neighbours in a pipeline only between warm-up and
    # drain.
    exchange = mutual >= max(0.8, 0.93 * float(mutual.max(initial=0.0)))
    lonely = (sizes.frequent == 1) & (sizes.covered >= 0.5)
    beside = accompanies(bucketed) if others and (lonely & ring).any() else np.ones(len(a))
    # A size that is exchanged no more often than a bucket is a gradient too: the experts' own, before
    # or after the others'.
    is_rare = rarely_sent(sizes.rarest_count, mutual, bucketed if others else exchange)
    # A pipeline hands over several times for each exchange of gradients.
    once = is_rare & lonely
    exchange |= once & (mutual >= 0.75 * mutual.max(initial=0.0)) & (not is_rare.all()) & (exchange.any() or others)
    if not has_bytes:
        exchange &= rarely_sent(records, mutual, ring)
    chord = ring & ~fanned & find_chords(a, b, bucketed, sizes, count)
    is_apart = others & lonely & (beside < THRESHOLDS.min_beside) & ~is_rare
    exchange &= sizes.guest | (not (others and has_bytes)) | once
    cases = [chord, clique, bucketed, ring & is_apart, ring | exchange]
    return [str(kind) for kind in np.select(cases, [OTHER, EP, DP, OTHER, DP], PP)]


def _with_buckets(clique: Bools, sizes: Sizes, mutual: Floats, ring: Bools) -> tuple[Bools, Bools]:
    """Pairs of an all-to-all that exchange nothing else, and pairs with sizes of several buckets."""
    many = (sizes.frequent >= 2) & (sizes.covered >= 0.3)
    # Members of an all-to-all that exchange gradients as well have sizes beyond those that all pairs of the clique
    # have. If its own sizes do not recur (experts with uneven load), some of them agree by chance, but move few bytes.
    extra = clique & (sizes.kinds > np.quantile(sizes.kinds[clique], 0.25)) if clique.any() else clique
    by_chance = float(np.median(sizes.recurring_share[clique])) if clique.any() else 1.0
    if by_chance < 0.5:
        extra = clique & (sizes.recurring_share >= max(THRESHOLDS.min_size_share, 2.5 * by_chance))
    clique = clique & ~extra
    extra |= ~clique & _frequent_sizes(sizes)
    # Counting every thousandth packet turns one size into a dozen that cover half of the records.
    some = (sizes.frequent >= 3) & (sizes.frequent <= 8) & (sizes.covered >= 0.45)
    bucketed = extra | (many & ~clique & (ring | (mutual >= 0.5) | some | (sizes.covered >= 0.6)))
    if clique.any() and not bucketed.any():
        bucketed = clique & many
        clique = clique & ~bucketed
    return clique, bucketed


def _within_all_to_alls(a: Ints, b: Ints, types: list[str], count: int) -> list[str]:
    """The types, but what two members of one all-to-all exchange is part of it, and no pipeline: on a
    slow port they do not begin with all others at once.
    """
    expert = np.array([t == EP for t in types], dtype=bool)
    if not expert.any():
        return types
    label = components(a[expert], b[expert], count)
    is_part = np.array([t == PP for t in types], dtype=bool) & (label[a] == label[b])
    return [EP if part else own for own, part in zip(types, is_part, strict=True)]


def _follow_component(a: Ints, b: Ints, types: list[str], records: Ints, count: int, *, fixed: Bools) -> list[str]:
    """Within a component of DP pairs every pair is DP, but ``fixed`` ones: a pair seen too rarely to judge follows its
    component's majority.
    """
    chosen = np.array([t == DP for t in types], dtype=bool)
    if not chosen.any():
        return types
    label = components(a[chosen], b[chosen], count)
    inside = (label[a] == label[b]) & ~chosen & ~fixed
    typical = np.median(records[chosen])
    rare = records < 0.5 * typical
    return [DP if inside[i] and (t == OTHER or (t == PP and rare[i])) else t for i, t in enumerate(types)]
