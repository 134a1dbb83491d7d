"""The wait-for graph between ranks that all communicate.

A rank in a collective waits for the members of its group that are not in it; a rank in a point-to-point call waits
for its pipeline neighbour. The chains of waits end in the strongly connected components without an outgoing edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from diagnosis.kinds.stacks.ranks.cluster import Group, group_of_rank
from diagnosis.kinds.stacks.ranks.layout import Layout
from diagnosis.kinds.stacks.ranks.waits import COMM

#: Groups with more distinct stacks than this are no collective with a missing rank.
_MAX_KEYS = 64


@dataclass(slots=True)
class ChainEnds:
    """``ranks``: small sets that wait for nobody outside; ``unread``: failed dumps in whose groups the chain ends;
    ``separate``: groups within a circle of waits that no pipeline neighbour explains."""

    ranks: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    separate: list[Group] = field(default_factory=list)


def blocking_ranks(groups: Sequence[Group], layout: Layout, ranks: Iterable[int]) -> set[int]:
    """The members of ``ranks`` for which a rank of their own tensor group waits in a collective. Empty without a
    layout.
    """
    of = group_of_rank(groups)
    wanted = set(ranks)
    found: set[int] = set()
    for group in layout.groups("tp"):
        waiting = [r for r in group if r in of and of[r].activity.kind == COMM and of[r].activity.dim in {"tp", ""}]
        if waiting:
            found |= {r for r in group if r in wanted}
    return found


def find_chain_ends(
    groups: Sequence[Group], layout: Layout, outliers: Sequence[int], failed: Sequence[int]
) -> ChainEnds:
    """The ends of the chains of waits. O(ranks × distinct stacks per group)."""
    of = group_of_rank(groups)
    ranks = sorted(of)
    total = len(ranks)
    edges = _edges(of, layout)
    if not edges:
        return ChainEnds()
    label, is_end = components(edges, max(total, 1 + max(max(e) for e in edges)))
    members: dict[int, list[int]] = {}
    for at, rank in enumerate(ranks):
        if is_end[label[at]]:
            members.setdefault(label[at], []).append(rank)
    odd = set(outliers)
    small = sorted(r for m in members.values() if len(m) <= 0.5 * total for r in m if r in odd)
    if small and len(small) <= 0.5 * total:
        unread = _failed_peers(small, of, layout, failed)
        return ChainEnds(unread=unread) if unread else ChainEnds(ranks=small)
    large = [set(m) for m in members.values() if len(m) > 0.5 * total]
    separate = [
        g for g in groups if not g.dominant and g.activity.dim != "pp" and any(set(g.ranks) <= m for m in large)
    ]
    return ChainEnds(separate=separate)


def components(edges: Iterable[tuple[int, int]], size: int) -> tuple[list[int], list[bool]]:
    """Strongly connected components: the component of each vertex, and whether no edge leaves a component.

    Tarjan's algorithm without recursion (a pipeline of thousands of ranks is a path as long); O(vertices + edges).
    """
    after: list[list[int]] = [[] for _ in range(size)]
    for a, b in edges:
        after[a].append(b)
    order, low, label = [-1] * size, [0] * size, [-1] * size
    is_end: list[bool] = []
    open_ones: list[int] = []
    clock = 0
    for root in range(size):
        work = [(root, 0)] if order[root] < 0 else []
        while work:
            at, nth = work.pop()
            if nth == 0:
                order[at] = low[at] = clock
                clock += 1
                open_ones.append(at)
            elif label[after[at][nth - 1]] < 0:
                low[at] = min(low[at], low[after[at][nth - 1]])
            for i in range(nth, len(after[at])):
                to = after[at][i]
                if order[to] < 0:
                    work += [(at, i + 1), (to, 0)]
                    break
                if label[to] < 0:
                    low[at] = min(low[at], order[to])
            else:
                if low[at] == order[at]:
                    own = len(is_end)
                    is_end.append(True)
                    while label[at] < 0:
                        label[open_ones.pop()] = own
    for at, targets in enumerate(after):
        if any(label[to] != label[at] for to in targets):
            is_end[label[at]] = False
    return label, is_end


def _failed_peers(ends: Sequence[int], of: Mapping[int, Group], layout: Layout, failed: Sequence[int]) -> list[int]:
    """Failed dumps in the groups where the ends wait: such a group may be incomplete."""
    if not failed or not layout.is_known:
        return []
    found: set[int] = set()
    for rank in ends:
        dim = of[rank].activity.dim or "tp"
        group = next((g for g in layout.groups(dim) if rank in g), ())
        missing = set(group) & set(failed)
        if not missing:
            return []
        found |= missing
    return sorted(found)


def _edges(of: Mapping[int, Group], layout: Layout) -> list[tuple[int, int]]:
    """Edges between positions in the sorted ranks; beyond them, one vertex a (group, stack) keeps the graph linear."""
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
    complete = {g.key for g in {id(g): g for g in of.values()}.values() if not g.activity.dim and _is_whole(g, layout)}
    for rank in ranks:
        own = of[rank]
        if own.activity.kind != COMM:
            continue
        if own.activity.dim == "pp" and layout.is_known:
            chain = members("pp").get(rank, ())
            peers = _neighbours(rank, own.activity.to, chain)
            edges += [(index[rank], index[p]) for p in peers if p in index]
            continue
        if own.key in complete:
            continue
        group = members(own.activity.dim).get(rank, everyone) if own.activity.dim and layout.is_known else everyone
        if (group, own.key) not in helpers:
            others = [index[q] for q in group if q in index and of[q].key != own.key]
            is_few = len({of[q].key for q in group if q in of}) <= _MAX_KEYS
            helpers[group, own.key] = after if others and is_few else None
            if others and is_few:
                edges += [(after, q) for q in others]
                after += 1
        helper = helpers[group, own.key]
        if helper is not None:
            edges.append((index[rank], helper))
    return edges


def _is_whole(group: Group, layout: Layout) -> bool:
    """Whether a call of unknown dimension was reached by whole tensor or context groups: then nobody is awaited
    within them."""
    ranks = set(group.ranks)
    for dim in ("tp", "cp"):
        touched = [g for g in layout.groups(dim) if not ranks.isdisjoint(g)]
        if touched and len(touched[0]) > 1 and all(ranks.issuperset(g) for g in touched):
            return True
    return False


def _neighbours(rank: int, to: str, chain: tuple[int, ...]) -> list[int]:
    """The previous and the next stage; the schedule with virtual stages wraps around."""
    if len(chain) < 2 or rank not in chain:
        return []
    at = chain.index(rank)
    if not to:
        return [*chain[max(0, at - 1) : at], *chain[at + 1 : at + 2]]
    return [chain[(at - 1) % len(chain)]] if to == "prev" else [chain[(at + 1) % len(chain)]]
