"""Groups equal stacks and separates the dominant groups from the outliers (ByteRobust, section 5.1).

Under one silent fault most healthy machines show the same stacks. Two ranks are equal when their compared frames are
(function and base name of the file, see :func:`~diagnosis.kinds.stacks.read.stack_frames.comparable_frames`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import msgspec

from diagnosis import thresholds
from diagnosis.evidence.rank_names import fold_ranks
from diagnosis.kinds.stacks.ranks.dumped_processes import Process, with_ranks
from diagnosis.kinds.stacks.ranks.waits import COMM, Activity, activity, call_site
from diagnosis.kinds.stacks.read.stack_frames import EMPTY, FAILED, OK, Dump, Frame, comparable_frames

THRESHOLDS: Final = thresholds.of("cluster")


class Group(msgspec.Struct):
    """Ranks whose stacks are equal; ``frames`` innermost first."""

    key: tuple[str, ...]
    frames: tuple[Frame, ...]
    activity: Activity
    ranks: list[int] = msgspec.field(default_factory=list)
    dominant: bool = False


def key_of(frames: Sequence[Frame]) -> tuple[str, ...]:
    return tuple(f.label for f in call_site(comparable_frames(frames)))


class _CutStack(msgspec.Struct, frozen=True):
    """The stack of a rank whose dump breaks off. ``is_outer``: its outermost frames are there."""

    rank: int
    key: tuple[str, ...]
    frames: tuple[Frame, ...]
    is_outer: bool


class _Grouping(msgspec.Struct):
    """Ranks by their stacks, while they are read. ``keys``: the compared part of each distinct stack."""

    groups: dict[tuple[str, ...], Group] = msgspec.field(default_factory=dict)
    failed: list[int] = msgspec.field(default_factory=list)
    empty: list[int] = msgspec.field(default_factory=list)
    cut: list[_CutStack] = msgspec.field(default_factory=list)
    keys: dict[tuple[Frame, ...], tuple[str, ...]] = msgspec.field(default_factory=dict)

    def add(self, rank: int, dump: Dump) -> None:
        """Put a rank where its dump belongs."""
        frames = () if dump.status in {FAILED, EMPTY} else dump.working()
        key = self._key(frames)
        if key and dump.status == OK:
            self._join(rank, key, frames)
        elif key:
            is_outer = any(frame.name == "<module>" for frame in frames[-2:])
            self.cut.append(_CutStack(rank, key, frames, is_outer))
        elif dump.status in {FAILED, OK}:
            self.failed.append(rank)
        else:
            self.empty.append(rank)

    def add_cut(self, stack: _CutStack) -> None:
        """Put a rank to the largest group of which its stack is a part."""
        part = _labels(stack.frames)
        wholes = [group for group in self.groups.values() if _is_part(part, group, is_outer=stack.is_outer)]
        whole = max(wholes, key=lambda group: len(group.ranks), default=None)
        if whole is not None:
            whole.ranks.append(stack.rank)
        elif stack.is_outer:
            self.failed.append(stack.rank)  # its activity is in the missing part
        else:
            self._join(stack.rank, stack.key, stack.frames)

    def _key(self, frames: tuple[Frame, ...]) -> tuple[str, ...]:
        if not frames:
            return ()
        if frames not in self.keys:
            self.keys[frames] = key_of(frames)
        return self.keys[frames]

    def _join(self, rank: int, key: tuple[str, ...], frames: tuple[Frame, ...]) -> None:
        if key not in self.groups:
            self.groups[key] = Group(key, frames, activity(frames))
        self.groups[key].ranks.append(rank)


def group_ranks(processes: Iterable[Process]) -> tuple[list[Group], list[int], list[int]]:
    """Groups (largest first), ranks whose dump failed, ranks whose dump is empty. Linear in frames.

    A truncated stack joins the largest group of which it is the innermost part (the outermost, where the tool prints
    that first).
    """
    grouping = _Grouping()
    for rank, p in with_ranks(processes):
        grouping.add(rank, p.dump)
    for stack in grouping.cut:
        grouping.add_cut(stack)
    groups = sorted(_merge(grouping.groups), key=lambda group: (-len(group.ranks), min(group.ranks), group.key))
    _mark_dominant(groups)
    return groups, sorted(grouping.failed), sorted(grouping.empty)


def _mark_dominant(groups: Sequence[Group]) -> None:
    """Sort the ranks of each group, and mark the groups, largest first, that are dominant: the largest always is, if it
    has more than one rank.
    """
    total = sum(len(group.ranks) for group in groups)
    for at, group in enumerate(groups):
        group.ranks.sort()
        is_single = len(group.ranks) == 1 and total > 2
        is_large = len(group.ranks) >= THRESHOLDS.dominant * total
        group.dominant = not is_single and (is_large or at == 0)


def _labels(frames: Sequence[Frame]) -> list[str]:
    return [frame.label for frame in comparable_frames(frames)]


def _is_part(part: list[str], group: Group, *, is_outer: bool) -> bool:
    """Whether a group's stack ends, or begins, with these frames."""
    if not part:
        return False
    whole = _labels(group.frames)
    same_end = whole[-len(part) :] if is_outer else whole[: len(part)]
    return same_end == part


def _merge(groups: dict[tuple[str, ...], Group]) -> list[Group]:
    """Joins a stack to another one that communicates if it is only deeper: both are at the same point, slightly earlier
    or later. Looks only at the depths of other stacks: one may be 50,000 calls deep.
    """
    kept: dict[tuple[str, ...], Group] = {}
    depths: list[int] = []  # of those that are kept, from the smallest
    for key in sorted(groups, key=lambda k: (len(k), k)):
        group = groups[key]
        parts = (key[-depth:] for depth in reversed(depths))
        outer = next((kept[part] for part in parts if part in kept), None)
        if outer is not None and outer.activity.kind == COMM == group.activity.kind:
            outer.ranks += group.ranks
        else:
            kept[key] = group
            if len(key) not in depths[-1:]:
                depths.append(len(key))
    return list(kept.values())


class Node(msgspec.Struct):
    """One call of the icicle: ``ranks`` pass through it, its children are what they call there."""

    label: str
    ranks: list[int]
    children: dict[str, Node] = msgspec.field(default_factory=dict)


def icicle(groups: Sequence[Group]) -> Node:
    """Stacks of all ranks merged from the outermost call inwards; O(distinct frames × groups)."""
    root = Node("all ranks", sorted(ranks_of(groups)))
    for g in groups:
        node = root
        for label in reversed(g.key):
            node = node.children.setdefault(label, Node(label, []))
            node.ranks = sorted({*node.ranks, *g.ranks})
    return root


class IcicleRow(msgspec.Struct, frozen=True):
    """A call in a chart. ``parent``: its row's id, None of the root; ``value``: how many ranks; ``ranks`` and ``lacks``
    are folded (``0-2/5-7`` have the frame, ``3-4`` reached its parent but lack it).
    """

    id: int
    parent: int | None
    label: str
    value: int
    ranks: str
    lacks: str


def icicle_rows(root: Node, *, limit: int = 2000) -> list[IcicleRow]:
    """The icicle as rows, parents first."""
    rows: list[IcicleRow] = []
    todo: deque[tuple[Node, int | None, list[int]]] = deque([(root, None, root.ranks)])
    while todo and len(rows) < limit:
        node, parent, ranks_above = todo.popleft()
        lacks = fold_ranks(set(ranks_above).difference(node.ranks))
        row = IcicleRow(len(rows), parent, node.label, len(node.ranks), fold_ranks(node.ranks), lacks)
        rows.append(row)
        children = sorted(node.children.values(), key=lambda child: (-len(child.ranks), child.label))
        todo.extend((child, row.id, node.ranks) for child in children)
    return rows


def group_of_rank(groups: Iterable[Group]) -> dict[int, Group]:
    """Each rank's group."""
    found: dict[int, Group] = {}
    for group in groups:
        found.update(dict.fromkeys(group.ranks, group))
    return found


def ranks_of(groups: Iterable[Group]) -> list[int]:
    """The ranks of these groups, in their order."""
    return list(chain.from_iterable(group.ranks for group in groups))
