"""The wait-for graph between ranks that all communicate.

A rank in a collective waits for the members of its group that are not in it; a rank in a point-to-point call waits
for its pipeline neighbour. The chains of waits end in the strongly connected components without an outgoing edge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec
import numpy as np

from diagnosis import thresholds
from diagnosis.kinds.stacks.ranks.cluster import Group, group_of_rank
from diagnosis.kinds.stacks.ranks.layout import Layout
from diagnosis.kinds.stacks.ranks.waits import COMM

THRESHOLDS: Final = thresholds.of("waitgraph")
#: Groups with more distinct stacks than this are no collective with a missing rank.
_MAX_KEYS = 64


class ChainEnds(msgspec.Struct):
    """``ranks``: small sets that wait for nobody outside; ``unread``: failed dumps in whose groups the chain ends;
    ``separate``: groups within a circle of waits that no pipeline neighbour explains."""

    ranks: list[int] = msgspec.field(default_factory=list)
    unread: list[int] = msgspec.field(default_factory=list)
    separate: list[Group] = msgspec.field(default_factory=list)


def blocking_ranks(groups: Sequence[Group], layout: Layout, ranks: Iterable[int]) -> set[int]:
    """``ranks`` that a rank of their tensor group waits for; empty without a layout."""
    of = group_of_rank(groups)
    wanted = set(ranks)
    found: set[int] = set()
    for members in layout.groups("tp"):
        activities = [of[rank].activity for rank in members if rank in of]
        if any(activity.kind == COMM and activity.dim in {"tp", ""} for activity in activities):
            found |= wanted.intersection(members)
    return found


def find_chain_ends(
    groups: Sequence[Group], layout: Layout, outliers: Sequence[int], failed: Sequence[int]
) -> ChainEnds:
    """The ends of the chains of waits. O(ranks × distinct stacks per group)."""
    of = group_of_rank(groups)
    edges = _edges(of, layout)
    if not edges:
        return ChainEnds()
    ends = _ends(edges, sorted(of))
    half = THRESHOLDS.end_share * len(of)
    outlier_set = set(outliers)
    small = sorted(chain.from_iterable(ranks for ranks in ends if len(ranks) <= half))
    odd = [rank for rank in small if rank in outlier_set]
    if odd and len(odd) <= half:
        unread = _failed_peers(odd, of, layout, failed)
        return ChainEnds(unread=unread) if unread else ChainEnds(ranks=odd)
    large = [set(ranks) for ranks in ends if len(ranks) > half]
    return ChainEnds(separate=_minor_groups(groups, large))


def _minor_groups(groups: Iterable[Group], circles: Sequence[set[int]]) -> list[Group]:
    """The minorities within a circle of waits that no pipeline neighbour explains."""
    minor = [group for group in groups if not group.dominant and group.activity.dim != "pp"]
    return [group for group in minor if _is_within(group, circles)]


def _ends(edges: Sequence[tuple[int, int]], ranks: Sequence[int]) -> list[list[int]]:
    """The ranks of each component that waits for nobody outside. Vertices are places in ``ranks``, or beyond them."""
    highest = max(map(max, edges))
    label, is_end = components(edges, max(len(ranks), 1 + highest))
    members: dict[int, list[int]] = defaultdict(list)
    for at, rank in enumerate(ranks):
        if is_end[label[at]]:
            members[label[at]].append(rank)
    return list(members.values())


def _is_within(group: Group, sets: Iterable[set[int]]) -> bool:
    return any(ranks.issuperset(group.ranks) for ranks in sets)


def components(edges: Sequence[tuple[int, int]], size: int) -> tuple[list[int], list[bool]]:
    """Strongly connected components, and whether an edge leaves each. O(vertices + edges)."""
    from scipy.sparse import coo_array  # noqa: PLC0415 (heavy; web processes import this module)
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    begins, ends = np.array(edges, np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(len(edges), np.int8), (begins, ends)), shape=(size, size))
    count, label = connected_components(graph, connection="strong")
    is_leaving = label[begins] != label[ends]
    is_end = np.ones(count, np.bool_)
    is_end[label[begins[is_leaving]]] = False
    return label.tolist(), is_end.tolist()


def _failed_peers(ends: Sequence[int], of: Mapping[int, Group], layout: Layout, failed: Sequence[int]) -> list[int]:
    """Failed dumps in the groups where the ends wait: such a group may be incomplete."""
    found: set[int] = set()
    for rank in ends:
        dim = of[rank].activity.dim or "tp"
        group = next((members for members in layout.groups(dim) if rank in members), ())
        missing = set(group).intersection(failed)
        if not missing:
            return []
        found |= missing
    return sorted(found)


def _edges(of: Mapping[int, Group], layout: Layout) -> list[tuple[int, int]]:
    """Edges between positions in the sorted ranks; beyond them, one vertex a (group, stack) keeps the graph linear."""
    graph = _WaitGraph(of, layout)
    for rank, group in sorted(of.items()):
        if group.activity.kind == COMM:
            graph.add(rank, group)
    return graph.edges


class _WaitGraph:
    """Who waits for whom. A rank in a collective waits for all of its parallel group that are not in it: through one
    vertex for the group and the call.
    """

    def __init__(self, of: Mapping[int, Group], layout: Layout) -> None:
        self.edges: list[tuple[int, int]] = []
        self._of = of
        self._layout = layout
        self._everyone = tuple(sorted(of))
        self._vertex_of = {rank: at for at, rank in enumerate(self._everyone)}
        self._next_vertex = len(of)
        self._helper_of: dict[tuple[tuple[int, ...], tuple[str, ...]], int | None] = {}
        self._members_of: dict[str, dict[int, tuple[int, ...]]] = {}
        unknown = [group for group in of.values() if not group.activity.dim]
        self._complete = {group.key for group in _distinct(unknown) if _is_whole(group, layout)}

    def add(self, rank: int, group: Group) -> None:
        """The edges of a rank that communicates."""
        vertex = self._vertex_of[rank]
        dim = group.activity.dim
        if dim == "pp" and self._layout.is_known:
            stages = self._members("pp").get(rank, ())
            peers = _neighbours(rank, group.activity.to, stages)
            self.edges += [(vertex, self._vertex_of[peer]) for peer in peers if peer in self._vertex_of]
            return
        if group.key in self._complete:
            return
        members = self._members(dim).get(rank, self._everyone) if dim else self._everyone
        helper = self._helper(members, group.key)
        if helper is not None:
            self.edges.append((vertex, helper))

    def _helper(self, members: tuple[int, ...], key: tuple[str, ...]) -> int | None:
        """The vertex of a call of these ranks, which waits for those of them that are elsewhere; None if all are in it,
        or if they are in too many places.
        """
        call = (members, key)
        if call not in self._helper_of:
            self._helper_of[call] = self._new_helper(members, key)
        return self._helper_of[call]

    def _new_helper(self, members: tuple[int, ...], key: tuple[str, ...]) -> int | None:
        keys = {rank: self._of[rank].key for rank in members if rank in self._of}
        elsewhere = [rank for rank, other in keys.items() if other != key]
        if not elsewhere or len(set(keys.values())) > _MAX_KEYS:
            return None
        helper = self._next_vertex
        self._next_vertex += 1
        self.edges += [(helper, self._vertex_of[rank]) for rank in elsewhere]
        return helper

    def _members(self, dim: str) -> dict[int, tuple[int, ...]]:
        """The parallel group of each rank; nothing without a layout."""
        if dim not in self._members_of:
            found: dict[int, tuple[int, ...]] = {}
            for members in self._layout.groups(dim):
                found.update(dict.fromkeys(members, members))
            self._members_of[dim] = found
        return self._members_of[dim]


def _distinct(groups: Iterable[Group]) -> Iterable[Group]:
    return {id(group): group for group in groups}.values()


def _is_whole(group: Group, layout: Layout) -> bool:
    """Whether a call of unknown dimension was reached by whole tensor or context groups: then nobody is awaited
    within them."""
    ranks = set(group.ranks)
    return any(_holds_whole_groups(ranks, layout.groups(dim)) for dim in ("tp", "cp"))


def _holds_whole_groups(ranks: set[int], groups: Iterable[tuple[int, ...]]) -> bool:
    """Whether the groups that these ranks touch, of more than one rank each, are whole among them."""
    touched = [members for members in groups if not ranks.isdisjoint(members)]
    if not touched or len(touched[0]) == 1:
        return False
    return all(ranks.issuperset(members) for members in touched)


def _neighbours(rank: int, to: str, stages: tuple[int, ...]) -> list[int]:
    """The previous and the next stage; the schedule with virtual stages wraps around."""
    if len(stages) < 2:
        return []
    at = stages.index(rank)
    if to == "prev":
        return [stages[at - 1]]
    if to:
        return [stages[(at + 1) % len(stages)]]
    before = stages[max(0, at - 1) : at]
    after = stages[at + 1 : at + 2]
    return [*before, *after]
