"""From groups to culprits: who is everybody waiting for?

A hung job is a wait-for graph. A rank in a collective waits for the members of its group that are not in it; a rank
that receives waits for its pipeline neighbour. Ranks that wait for nobody are where the hang begins:

1. outliers that do not communicate at all (data loader, storage, kernel, user code);
2. ranks that have no process although their peers have one;
3. outliers that wait for their own GPU;
4. where all communicate, the sinks of the graph: a small set waiting for nobody outside itself, or, in a circle of
   waits, the minority that entered another collective than its peers.

ByteRobust stops at the outliers and evicts their group; this step orders them, and the group is still evicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from diagnosis.stacks.cluster import Group, by_rank, fold
from diagnosis.stacks.layout import Layout
from diagnosis.stacks.waits import COMM, COMPUTE, DEVICE, HOST, LOCAL

_TIER_SCORE = {HOST: 0.92, COMPUTE: 0.88, LOCAL: 0.82}
#: Missing ranks are named only while most of the job is there; beyond this share the upload is incomplete instead.
MISSING_SHARE = 0.34
_MAX_KEYS = 64


@dataclass(frozen=True, slots=True)
class Blame:
    """``ranks`` accused, best first, with score in [0, 1] and reason; ``outliers`` all that differ; ``reason`` the
    sentence."""

    ranks: tuple[int, ...]
    scores: Mapping[int, float]
    reasons: Mapping[int, str]
    outliers: tuple[int, ...]
    reason: str
    rule: str


def _waited_for(group: Group, layout: Layout, groups: Sequence[Group]) -> str:
    """Which of the others' waits end at this group, in words."""
    waiting = [g for g in groups if g.activity.kind == COMM and g is not group]
    if not waiting:
        return ""
    parts = [
        f"rank {fold(g.ranks)} {g.activity.what}" + (f" ({g.activity.dim} group)" if g.activity.dim else "")
        for g in waiting[:3]
    ]
    return "; meanwhile " + ", ".join(parts) + (" wait" if sum(len(g.ranks) for g in waiting) > 1 else " waits")


def blame(
    groups: Sequence[Group],
    layout: Layout,
    *,
    missing: Sequence[int] = (),
    empty: Sequence[int] = (),
    expected: int = 0,
) -> Blame:
    """Name the culprits among the ranks of one round. O(ranks × kinds × distinct stacks per group)."""
    total = sum(len(g.ranks) for g in groups)
    absent = [] if expected and len(missing) > MISSING_SHARE * expected else sorted(missing)
    communicating = sum(len(g.ranks) for g in groups if g.activity.kind == COMM)
    if total < 2 and not absent:
        return Blame(
            (),
            {},
            {},
            (),
            "Only one rank could be read; with nothing to compare it with, no rank is named."
            if total
            else "No rank's stack could be read.",
            "too_few",
        )
    if total > 2 and len(groups) == total:
        return Blame(
            (),
            {},
            {},
            (),
            f"All {total} ranks are in different places: this is no hang at one point (or frames are cut). "
            "Take several rounds of dumps.",
            "all_differ",
        )
    odd = [g for g in groups if not g.dominant]
    # Two ranks in a data loader of four are half the job, yet they are not what the others wait in.
    odd += [
        g
        for g in groups
        if g.dominant and g.activity.kind == HOST and communicating >= 0.25 * total and len(g.ranks) <= 0.5 * total
    ]
    if total <= 4 and communicating:
        odd += [g for g in groups if g.dominant and g.activity.kind in {COMPUTE, LOCAL} and g not in odd]
    outliers = tuple(sorted({r for g in odd for r in g.ranks} | set(absent)))
    active = [g for g in odd if g.activity.kind in _TIER_SCORE]
    if active:
        return _tier(active, groups, layout, outliers, "busy", dict(_TIER_SCORE.items()))
    if absent:
        told = f"No process of rank {fold(absent)} was dumped although its peers were"
        reason = f"{told}: it is gone, or was not reachable{_waited_for(Group((), (), groups[0].activity), layout, groups) if groups else ''}."
        return Blame(
            tuple(absent), dict.fromkeys(absent, 0.85), dict.fromkeys(absent, told), outliers, reason, "missing"
        )
    device = [g for g in odd if g.activity.kind == DEVICE]
    if device:
        return _tier(device, groups, layout, outliers, "device", {DEVICE: 0.75})
    if empty and not odd and len(empty) <= MISSING_SHARE * max(1, total):
        return Blame(
            tuple(empty),
            dict.fromkeys(empty, 0.5),
            dict.fromkeys(empty, "its dump is empty"),
            tuple(empty),
            f"All other ranks are alike; the dump of rank {fold(empty)} is empty, so its process may be gone.",
            "empty",
        )
    if len(groups) == 1:
        only = groups[0]
        where = (
            "in the same collective: the network or a device under it, or too few frames"
            if only.activity.kind == COMM
            else "at the same place: a cause common to all (storage, input, code), or too few frames"
        )
        return Blame(
            (),
            {},
            {},
            (),
            f"All {total} ranks are {where} ({only.activity.what}). No outlier can be named.",
            "all_equal",
        )
    return _sinks(groups, layout, outliers)


def _tier(
    chosen: list[Group],
    groups: Sequence[Group],
    layout: Layout,
    outliers: tuple[int, ...],
    rule: str,
    score: Mapping[str, float],
) -> Blame:
    chosen.sort(key=lambda g: (-score[g.activity.kind], len(g.ranks), g.ranks))
    scores, reasons = {}, {}
    for g in chosen:
        for rank in g.ranks:
            scores[rank] = score[g.activity.kind]
            reasons[rank] = (
                f"{g.activity.what} ({g.activity.frame}), where it waits for no peer"
                if rule == "busy"
                else f"{g.activity.what} while its peers have gone on"
            )
    first = chosen[0]
    reason = (
        f"Rank {fold(r for g in chosen for r in g.ranks)} is {first.activity.what}{_waited_for(first, layout, groups)}."
    )
    return Blame(tuple(scores), scores, reasons, outliers, reason, rule)


def _sinks(groups: Sequence[Group], layout: Layout, outliers: tuple[int, ...]) -> Blame:
    """Rule 4: everybody communicates."""
    of = by_rank(groups)
    ranks = sorted(of)
    total = len(ranks)
    edges = _edges(of, layout)
    index = {r: i for i, r in enumerate(ranks)}
    largest = max(groups, key=lambda g: len(g.ranks))
    if edges:
        extra = max((max(a, b) for a, b in edges), default=0)
        size = max(total, extra + 1)
        rows, cols = np.array([e[0] for e in edges]), np.array([e[1] for e in edges])
        count, label = connected_components(
            coo_matrix((np.ones(len(edges), dtype=np.int8), (rows, cols)), shape=(size, size)), connection="strong"
        )
        leaves = np.ones(count, dtype=bool)
        leaves[label[rows[label[rows] != label[cols]]]] = False
        members: dict[int, list[int]] = {}
        for r in ranks:
            if leaves[label[index[r]]]:
                members.setdefault(int(label[index[r]]), []).append(r)
        small = sorted(r for m in members.values() if len(m) <= 0.5 * total for r in m if r in outliers)
        if small and len(small) <= 0.5 * total:
            reason = {
                r: f"{of[r].activity.what}; it waits for no rank outside its own group, while others wait for it"
                for r in small
            }
            return Blame(
                tuple(small),
                dict.fromkeys(small, 0.7),
                reason,
                outliers,
                f"All ranks communicate; rank {fold(small)} is where the chain of waits ends: the collective itself "
                "does not finish there.",
                "sink",
            )
        circle = [
            g
            for g in groups
            if g is not largest and any(len(m) > 0.5 * total and set(g.ranks) <= set(m) for m in members.values())
        ]
        apart = [g for g in circle if not g.dominant and not _explained(g, of, layout)]
        if apart:
            return _minority(apart, largest, outliers)
    odd = [g for g in groups if not g.dominant]
    if not odd:
        parts = "; ".join(f"rank {fold(g.ranks)} {g.activity.what}" for g in groups[:4])
        return Blame(
            (),
            {},
            {},
            (),
            f"The ranks fall into {len(groups)} large groups and none stands out: {parts}.",
            "no_outlier",
        )
    return _minority(odd, largest, outliers)


def _minority(odd: Sequence[Group], largest: Group, outliers: tuple[int, ...]) -> Blame:
    ranks = tuple(r for g in sorted(odd, key=lambda g: (len(g.ranks), g.ranks)) for r in g.ranks)
    reasons = {r: f"{g.activity.what}, while most ranks are {largest.activity.what}" for g in odd for r in g.ranks}
    return Blame(
        ranks,
        dict.fromkeys(ranks, 0.68),
        reasons,
        outliers,
        f"Rank {fold(ranks)} entered another call ({odd[0].activity.what}) than the other ranks "
        f"({largest.activity.what}).",
        "mismatch",
    )


def _explained(group: Group, of: Mapping[int, Group], layout: Layout) -> bool:
    """Whether a pipeline neighbour's absence alone explains this group: it then is a victim within the circle."""
    return group.activity.dim == "pp" and bool(group.activity.to) and layout.known


def _edges(of: Mapping[int, Group], layout: Layout) -> list[tuple[int, int]]:
    """Wait-for edges between indices of sorted ranks; beyond them, one helper vertex a (group, stack) keeps the
    graph linear."""
    ranks = sorted(of)
    index = {r: i for i, r in enumerate(ranks)}
    after = len(ranks)
    edges: list[tuple[int, int]] = []
    cache: dict[str, dict[int, tuple[int, ...]]] = {}

    def members(dim: str) -> dict[int, tuple[int, ...]]:
        if dim not in cache:
            cache[dim] = {r: g for g in layout.groups(dim) for r in g} if dim else {}
        return cache[dim]

    helpers: dict[tuple[tuple[int, ...], tuple[str, ...]], int | None] = {}
    everyone = tuple(ranks)
    for rank in ranks:
        mine = of[rank]
        if mine.activity.kind != COMM:
            continue
        if mine.activity.dim == "pp" and layout.known:
            edges += [
                (index[rank], index[p])
                for p in _neighbours(rank, mine.activity.to, members("pp").get(rank, ()), layout)
                if p in index and of[p].key != mine.key
            ]
            continue
        group = members(mine.activity.dim).get(rank, everyone) if mine.activity.dim and layout.known else everyone
        if (group, mine.key) not in helpers:
            others = [index[q] for q in group if q in index and of[q].key != mine.key]
            few = len({of[q].key for q in group if q in of}) <= _MAX_KEYS
            helpers[group, mine.key] = after if others and few else None
            if others and few:
                edges += [(after, q) for q in others]
                after += 1
        helper = helpers[group, mine.key]
        if helper is not None:
            edges.append((index[rank], helper))
    return edges


def _neighbours(rank: int, to: str, group: tuple[int, ...], layout: Layout) -> list[int]:
    if len(group) < 2 or rank not in group:
        return []
    at = group.index(rank)
    before, behind = group[(at - 1) % len(group)], group[(at + 1) % len(group)]
    return [before] if to == "prev" else [behind] if to == "next" else [before, behind]
