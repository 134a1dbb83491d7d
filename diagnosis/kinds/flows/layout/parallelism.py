"""Phase 2b: groups and sizes of the parallel layout.

DP pairs give rings; a group that spans several GPUs of each machine shows as several rings on the same machines (one
a rail), because its hops inside a machine are not on the network. Two criteria separate rings of one group from rings
of different tensor-parallel ranks:

* **lockstep**: rings of one group end every collective together, as the hops of one ring do; rings of different
  groups drift;
* **divisibility**: in a ring collective over n ranks every hop carries n-1 equal chunks, so the sizes divide by n-1;
  if machines reduce among their GPUs first (hierarchical), n is the number of machines.

tp then follows from members = tp · pp · dp.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.arrays import components, members_of
from diagnosis.kinds.flows.capture.capture import Bools, Capture, Floats, Flows, Ints, distinct_sizes, sender_values
from diagnosis.kinds.flows.capture.packing import packable
from diagnosis.kinds.flows.capture.partitions import partition
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.pairs import DP, EP, PP, Pairs
from diagnosis.kinds.flows.layout.group_numbers import group_numbers
from diagnosis.kinds.flows.layout.lockstep import lockstep_evidence, ring_scatters
from diagnosis.kinds.flows.layout.presence import Presence
from diagnosis.kinds.flows.layout.stars import split_stars
from diagnosis.kinds.flows.layout.stated import may_be_stated
from diagnosis.values.numbers import whole

THRESHOLDS: Final = thresholds.of("parallelism")

#: Maximum number of families of rings that are compared; more would only agree.
MAX_FAMILIES = 8


@packable
@dataclass(slots=True)
class Layout:
    """Sizes (None if the flows do not show them) and groups as sorted member ids; ``how``: sentences with the
    decisions; ``ends``: number of ends from which each pipeline runs.
    """

    tp: int | None
    pp: int
    dp: int
    dp_groups: list[Ints] = field(default_factory=list)
    pp_groups: list[Ints] = field(default_factory=list)
    ep_groups: list[Ints] = field(default_factory=list)
    how: list[str] = field(default_factory=list)
    ends: int = 1


def find_layout(job: JobFlows, pairs: Pairs, capture: Capture, stated: Mapping[str, int] | None = None) -> Layout:
    """Groups and sizes of one job. O(n log n) in records, O(rings²) in rings of the same machines.

    ``stated``: the sizes that the job's own words state, and ``ranks``. They decide what flows show weakly.
    """
    count = len(capture.names)
    pp_groups = rings_of(pairs, PP, count)
    shared = pairs.carried(job.flows, count, DP)
    rings = split_stars(rings_of(pairs, DP, count), job.members, pp_groups, shared)
    ep_groups = rings_of(pairs, EP, count)
    how: list[str] = []
    at_once = Presence.of(job.flows, count)
    dp_groups = (
        _join_rings(rings, shared, job, pairs, capture, how, at_once=at_once, stated=stated or {}) if rings else []
    )
    dp_groups = [own for g in dp_groups if len(own := np.intersect1d(g, job.members)) > 1]
    pp = _most_common([at_once(g) for g in pp_groups]) if pp_groups else 1
    dp = _most_common([at_once(g) for g in dp_groups]) if dp_groups else 1
    world = _simultaneous_gpus(job, capture, at_once)
    tp: int | None = None
    ends = _pipeline_ends(dp_groups, pp_groups, at_once, how)
    if capture.places or world == pp * dp:
        tp = max(1, round(world / (pp * dp / ends)))
    elif stated and may_be_stated(stated, "pp", pp, 1) and "tp" in stated:
        tp = stated["tp"]
        how.append(f"The job states tp {tp}; without an inventory the flows do not show it.")
    else:
        how.append("Without an inventory the GPUs inside a machine are unknown; tp is not known.")
    return Layout(tp, pp, dp, dp_groups, pp_groups, ep_groups, how, ends)


def _simultaneous_gpus(job: JobFlows, capture: Capture, at_once: Presence) -> int:
    """Simultaneous GPUs of the job: its addresses, two ports of one GPU counted once."""
    own: dict[tuple[str, str] | int, int] = {}
    first, last = at_once.first.copy(), at_once.last.copy()
    for m in job.members.tolist():
        place = capture.places.get(m)
        one = own.setdefault((place.node, place.gpu) if place is not None and place.node and place.gpu else m, m)
        first[one], last[one] = min(first[one], first[m]), max(last[one], last[m])
    return Presence(first, last)(np.array(list(own.values()), dtype=np.int64))


def _pipeline_ends(dp_groups: list[Ints], pp_groups: list[Ints], at_once: Presence, how: list[str]) -> int:
    """The number of stages of one pipeline that exchange gradients with each other: 2 if it runs from both ends, with
    the first and the last stage's weights on the same GPUs (DualPipe), else 1.
    """
    chain = group_numbers(pp_groups)
    shared = []
    for group in dp_groups:
        own: dict[int, list[int]] = defaultdict(list)
        for m in group.tolist():
            if m in chain:
                own[chain[m]].append(m)
        shared.append(max((at_once(np.array(members)) for members in own.values()), default=1))
    ends = _most_common(shared) if shared else 1
    if ends > 1:
        how.append(f"{ends} members of each pipeline exchange gradients with each other: it is run from both ends.")
    return ends


def rings_of(pairs: Pairs, kind: str, count: int) -> list[Ints]:
    """Components of the pairs of one kind, largest first: rings for DP, pipelines for PP, experts for EP."""
    chosen = pairs.of(kind)
    if not chosen.any():
        return []
    a, b = pairs.a[chosen], pairs.b[chosen]
    return members_of(components(a, b, count), np.unique(np.concatenate([a, b])))


def _most_common(sizes: list[int]) -> int:
    most = Counter(sizes).most_common()
    return max(size for size, times in most if times == most[0][1])


def _join_rings(
    rings: list[Ints],
    flows: Flows,
    job: JobFlows,
    pairs: Pairs,
    capture: Capture,
    how: list[str],
    *,
    at_once: Presence,
    stated: Mapping[str, int],
) -> list[Ints]:
    """Joins rings to groups, one family after another (rings on the same machines that move the same). ``flows``: the
    collectives' records.
    """
    ring_of = np.full(len(capture.names), -1, dtype=np.int64)
    for number, ring in enumerate(rings):
        ring_of[ring] = number
    present = [at_once(ring) for ring in rings]
    if (ring_of < 0).any():
        flows = flows.take(flows.column(np.bool_, sender_values, ring_of >= 0))
    families = _families(rings, present, flows, ring_of, capture)
    strange = _strange_sizes(flows, rings, present, capture)
    if len(strange):
        flows = flows.take(flows.column(np.bool_, _has_other_size, strange))
    sizes = _recurring_sizes(flows, ring_of, len(rings), capture.has_bytes)
    circles = _true_rings(rings, present, pairs, ring_of)
    sizes = [own if circle else own[:0] for own, circle in zip(sizes, circles, strict=True)]
    fine = capture.resolution_s < THRESHOLDS.coarse_resolution_s

    def agrees(size: int) -> bool:
        return "dp" in stated and may_be_stated(stated, "dp", size, len(job.members))

    into_of: dict[int, int] = {1: 1}
    for total in sorted({len(family) for family in families} - {1}):
        alike = [family for family in families if len(family) == total]
        into_of[total] = _tensor_ranks(alike, present, sizes, flows, ring_of=ring_of, fine=fine, how=how, agrees=agrees)
    groups: list[Ints] = []
    for family in families:
        into = into_of[len(family)]
        groups.extend(np.sort(np.concatenate([rings[n] for n in family[r::into]])) for r in range(into))
    return sorted(groups, key=lambda g: (-len(g), int(g[0])))


def _true_rings(rings: list[Ints], present: list[int], pairs: Pairs, ring_of: Ints) -> list[bool]:
    """The components that are rings: every member has two neighbours (except replaced ones). Only there chunks show the
    number of ranks; a tree's do not.
    """
    chosen = pairs.of(DP)
    ends = np.concatenate([pairs.a[chosen], pairs.b[chosen]])
    members, degree = np.unique(ends, return_counts=True)
    members, degree = members[ring_of[members] >= 0], degree[ring_of[members] >= 0]  # without reduction points
    many = np.bincount(ring_of[members], degree > 2, len(rings))
    return [
        bool(n <= 0.1 * len(ring) + 2 * (len(ring) - here)) for n, ring, here in zip(many, rings, present, strict=True)
    ]


def _families(rings: list[Ints], present: list[int], flows: Flows, ring_of: Ints, capture: Capture) -> list[list[int]]:
    """Rings that may be one group or tensor-parallel peers: the same machines, the same number of members, about the
    same bytes; by GPU number.

    Stages of a pipeline that share machines differ in bytes unless they hold equal layers.
    """
    moved = np.zeros(len(rings))
    for own_moved in flows.each(_ring_bytes, ring_of, len(rings)):
        moved += own_moved
    rings_by_machines: dict[tuple[frozenset[str], int], list[int]] = defaultdict(list)
    for number, ring in enumerate(rings):
        nodes = frozenset(capture.places[int(m)].node for m in ring if int(m) in capture.places) - {""}
        rings_by_machines[(nodes, present[number])].append(number)
    families: list[list[int]] = []
    for (nodes, _), numbers in rings_by_machines.items():
        if not nodes:
            families.extend([n] for n in numbers)
            continue
        order = sorted(numbers, key=lambda n: float(moved[n]))
        part = [order[0]]
        for before, n in itertools.pairwise(order):
            if moved[n] > 1.1 * moved[before]:
                families.append(part)
                part = []
            part.append(n)
        families.append(part)
    for family in families:
        family.sort(key=lambda n: _rail_of(rings[n], capture))
    return families


@partition
def _ring_bytes(part: Flows, ring_of: Ints, rings: int) -> Floats:
    """The bytes of each ring."""
    return np.bincount(ring_of[part.src], np.nan_to_num(part.size), rings)


@partition
def _ring_sizes(part: Flows, ring_of: Ints) -> pl.DataFrame:
    """How often each ring moved each size."""
    table = pl.DataFrame({"ring": ring_of[part.src], "size": part.size}).filter(pl.col("size").is_finite())
    return table.group_by("ring", "size").len()


@partition
def _has_other_size(part: Flows, sizes: Floats) -> Bools:
    """The records of none of these sizes."""
    return np.asarray(~np.isin(part.size, sizes))


def _rail_of(ring: Ints, capture: Capture) -> tuple[float, int]:
    """Sorts rings by the GPU number they use in their machines."""
    names = [capture.places[int(m)].gpu for m in ring if int(m) in capture.places]
    usable = [number for name in names if (number := whole(name)) is not None]
    return (float(np.median(usable)) if usable else 0.0, int(ring[0]))


def _recurring_sizes(flows: Flows, ring_of: Ints, rings: int, has_bytes: bool) -> list[Ints]:
    """The exact sizes that recur in each ring."""
    if not has_bytes:
        return [np.empty(0, dtype=np.int64)] * rings
    each = list(flows.each(_ring_sizes, ring_of))
    table = pl.concat(each)
    table = table.group_by("ring", "size").agg(pl.col("len").sum()) if len(each) > 1 else table
    frequent = table.filter((pl.col("len") >= 0.2 * pl.col("len").max().over("ring")) & (pl.col("len") >= 3)).sort(
        "ring", "size"
    )
    ring, size = frequent["ring"].to_numpy(), frequent["size"].to_numpy().astype(np.int64)
    return [size[ring == r] for r in range(rings)] if rings <= 64 else _split_sizes(ring, size, rings)


def _strange_sizes(flows: Flows, rings: list[Ints], present: list[int], capture: Capture) -> Floats:
    """Sizes in rings that are no gradients: they are far more frequent than others and do not divide into a ring's
    chunks, as the others do (context parallelism between neighbours of the ring).
    """
    widest = max(range(len(rings)), key=present.__getitem__)
    largest, chunks = rings[widest], present[widest] - 1
    if not capture.has_bytes or chunks < 2:
        return np.empty(0)
    inside = np.zeros(len(capture.names), np.bool_)
    inside[largest] = True
    values, times = pieces.add_counts(flows.each(distinct_sizes, inside))
    hops = present[widest]
    steady = (times >= 3 * hops) & (times >= 0.01 * times.max(initial=0))
    fits = steady & (values % chunks == 0)
    if not fits.any():
        return np.empty(0)
    return np.asarray(values[steady & ~fits & (times > 4 * np.median(times[fits]))])


def _split_sizes(ring: Ints, size: Ints, rings: int) -> list[Ints]:
    cuts = np.searchsorted(ring, np.arange(rings + 1))
    return [size[cuts[r] : cuts[r + 1]] for r in range(rings)]


def _tensor_ranks(
    families: list[list[int]],
    present: list[int],
    sizes: list[Ints],
    flows: Flows,
    *,
    ring_of: Ints,
    fine: bool,
    how: list[str],
    agrees: Callable[[int], bool],
) -> int:
    """The number of groups of the rings of similar families: the divisor with the most evidence from lockstep and
    divisibility, over all of them. With coarse times (not ``fine``) everything is in lockstep, which proves little.
    ``agrees``: whether a group of so many members is what the job states.
    """
    total = len(families[0])
    options = [t for t in range(1, total + 1) if total % t == 0]
    all_members = sum(present[n] for n in families[0])
    score = {t: 0.3 if t == total else 0.0 for t in options}
    for t in options:
        score[t] += THRESHOLDS.stated_log_odds if agrees(all_members // t) else 0.0
    looked = families[:MAX_FAMILIES]
    for numbers, scatter in zip(looked, ring_scatters(looked, flows, ring_of), strict=True):
        own = [present[n] for n in numbers]
        values = np.unique(np.concatenate([sizes[n] for n in numbers]))
        for t in options:
            score[t] += _evidence_of_groups(t, own, values, scatter, fine=fine)
    best, runner = sorted(options, key=lambda t: -score[t])[:2]
    how.append(
        f"{total} rings on the same machines form {best} group{'s' if best > 1 else ''} of {all_members // best} "
        f"(score {score[best]:.1f} against {score[runner]:.1f} for {runner}"
        f"{'; the job states groups of this size' if agrees(all_members // best) else ''})."
    )
    return best


def _evidence_of_groups(groups: int, present: list[int], values: Ints, scatter: Floats, *, fine: bool) -> float:
    """The evidence, by lockstep and sizes, that rings of ``present`` members form ``groups``."""
    together, odds = 0.6, 3 * THRESHOLDS.inside_first_log_odds
    if fine:
        together, odds = 2.0, THRESHOLDS.inside_first_log_odds
    whole, near = _divisibility(values, sum(present) // groups), lockstep_evidence(scatter, groups, together)
    # machines that reduce first are in lockstep: without lockstep, it is just a ring
    if near > 0 and groups < len(present):
        whole = max(whole, _divisibility(values, present[0]) - odds)
    return near + whole


def _divisibility(values: Ints, ranks: int) -> float:
    """Log-likelihood ratio that the sizes are ranks-1 equal chunks rather than anything."""
    if ranks <= 2 or not len(values):
        return 0.0
    chance = 1.0 / (ranks - 1)
    fits = values % (ranks - 1) == 0
    yes = np.log((0.85 + 0.15 * chance) / chance)
    weight = 1.0 if len(values) > 1 else 0.3  # one size proves little: round numbers have many divisors
    return float(np.clip(weight * (fits.sum() * yes + (~fits).sum() * np.log(0.15)), -8.0, 8.0))
