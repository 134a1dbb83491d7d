"""Groups equal stacks and separates the dominant groups from the outliers (ByteRobust, section 5.1).

Under one silent fault most healthy machines show the same stacks. Two ranks are equal when their compared frames are
(function and base name of the file, see :func:`~diagnosis.kinds.stacks.read.stack_frames.comparable_frames`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from diagnosis.evidence.rank_names import fold_ranks
from diagnosis.kinds.stacks.ranks.dumped_processes import Process
from diagnosis.kinds.stacks.ranks.waits import COMM, Activity, activity, call_site
from diagnosis.kinds.stacks.read.stack_frames import FAILED, OK, Frame, comparable_frames

#: A group is dominant from this share of the compared ranks; the largest always is, if it has more than one rank.
MIN_DOMINANT_SHARE = 0.25


@dataclass(slots=True)
class Group:
    """Ranks whose stacks are equal; ``frames`` innermost first."""

    key: tuple[str, ...]
    frames: tuple[Frame, ...]
    activity: Activity
    ranks: list[int] = field(default_factory=list)
    dominant: bool = False


def key_of(frames: Sequence[Frame]) -> tuple[str, ...]:
    return tuple(f.label for f in call_site(comparable_frames(frames)))


def group_ranks(processes: Iterable[Process]) -> tuple[list[Group], list[int], list[int]]:
    """Groups (largest first), ranks whose dump failed, ranks whose dump is empty. Linear in frames.

    A truncated stack joins the largest group of which it is the innermost part (the outermost, where the tool prints
    that first).
    """
    groups: dict[tuple[str, ...], Group] = {}
    failed: list[int] = []
    empty: list[int] = []
    cut: list[tuple[int, tuple[str, ...], tuple[Frame, ...]]] = []
    keys: dict[tuple[Frame, ...], tuple[str, ...]] = {}
    for p in processes:
        if p.rank is None:
            continue
        working = p.dump.working() if p.dump.status not in {FAILED, "empty"} else ()
        key = keys.setdefault(working, key_of(working)) if working in keys or working else ()
        if not key:
            (failed if p.dump.status in (FAILED, OK) else empty).append(p.rank)
        elif p.dump.status == OK:
            if key not in groups:
                groups[key] = Group(key, working, activity(working))
            groups[key].ranks.append(p.rank)
        else:
            cut.append((p.rank, key, working))
    for rank, key, working in cut:
        part = _labels(working)
        is_outer = any(f.name == "<module>" for f in working[-2:])
        like = [g for g in groups.values() if _is_part(part, _labels(g.frames), is_outer=is_outer)]
        whole = max(like, key=lambda g: len(g.ranks), default=None)
        if whole is None and is_outer:
            failed.append(rank)  # its activity is in the missing part
        else:
            (whole or groups.setdefault(key, Group(key, working, activity(working)))).ranks.append(rank)
    ordered = sorted(_merge(groups), key=lambda g: (-len(g.ranks), min(g.ranks), g.key))
    total = sum(len(g.ranks) for g in ordered)
    for at, g in enumerate(ordered):
        g.ranks.sort()
        g.dominant = len(g.ranks) >= MIN_DOMINANT_SHARE * total or at == 0
        if len(g.ranks) == 1 and total > 2:
            g.dominant = False
    return ordered, sorted(failed), sorted(empty)


def _labels(frames: Sequence[Frame]) -> list[str]:
    return [frame.label for frame in comparable_frames(frames)]


def _is_part(part: list[str], whole: list[str], *, is_outer: bool) -> bool:
    return bool(part) and (whole[-len(part) :] == part if is_outer else whole[: len(part)] == part)


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


@dataclass(slots=True)
class Node:
    """One call of the icicle: ``ranks`` pass through it, its children are what they call there."""

    label: str
    ranks: list[int]
    children: dict[str, Node] = field(default_factory=dict)


def icicle(groups: Sequence[Group]) -> Node:
    """Stacks of all ranks merged from the outermost call inwards; O(distinct frames × groups)."""
    root = Node("all ranks", sorted(ranks_of(groups)))
    for g in groups:
        node = root
        for label in reversed(g.key):
            node = node.children.setdefault(label, Node(label, []))
            node.ranks = sorted({*node.ranks, *g.ranks})
    return root


def icicle_rows(root: Node, *, limit: int = 2000) -> list[dict[str, object]]:
    """The icicle as rows ``{id, parent, label, value, ranks, lacks}``, parents first, for a chart.

    ``ranks`` and ``lacks`` are folded (``0-2/5-7`` have the frame, ``3-4`` reached its parent but lack it).
    """
    rows: list[dict[str, object]] = []
    todo: list[tuple[Node, int | None, list[int]]] = [(root, None, root.ranks)]
    while todo and len(rows) < limit:
        node, parent, above = todo.pop(0)
        me = len(rows)
        rows.append(
            {
                "id": me,
                "parent": parent,
                "label": node.label,
                "value": len(node.ranks),
                "ranks": fold_ranks(node.ranks),
                "lacks": fold_ranks(set(above) - set(node.ranks)),
            }
        )
        todo += [
            (child, me, node.ranks) for child in sorted(node.children.values(), key=lambda c: (-len(c.ranks), c.label))
        ]
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
