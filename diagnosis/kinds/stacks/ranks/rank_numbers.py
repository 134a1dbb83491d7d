"""Numbers ranks that no name states: by the parent process, by the place within a node, by the order
of a bundle; and the rounds in which one process was dumped again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from typing import Final

from diagnosis import thresholds
from diagnosis.kinds.stacks.ranks.dumped_processes import TRAINER, Process, stem_of, with_ranks
from diagnosis.kinds.stacks.ranks.layout import Layout
from diagnosis.kinds.stacks.read.stack_frames import FAILED, OK
from diagnosis.values import numbers

THRESHOLDS: Final = thresholds.of("rank_numbers")

#: Where a name or a command states the rank.
_HOW_BY_NAME = frozenset({"path", "heading", "local rank"})
#: How much of a dump is there: the most first.
_STATUS_ORDER = {OK: 0, "truncated": 1, FAILED: 2, "empty": 3}


def inherit_ranks(found: list[Process]) -> None:
    """Children (data-loader workers) belong to their parent's rank."""
    by_pid: dict[tuple[str, int | None], Process] = {(p.path, p.dump.pid): p for p in found if p.dump.pid is not None}
    for p in found:
        parent = by_pid.get((p.path, p.dump.parent))
        if parent is not None and p.rank is None and parent.rank is not None:
            p.rank, p.node = parent.rank, p.node or parent.node


def make_local_ranks_global(found: list[Process], layout: Layout, notes: list[str]) -> None:
    """Names that count ranks per node (``node-a/rank0 … node-b/rank0``) are local ranks."""
    local_rank_of = _ranks_by_name(found)
    if not _are_local_ranks(local_rank_of):
        return
    per_node = max(rank for _, _, rank in local_rank_of) + 1
    nodes = sorted({node for _, node, _ in local_rank_of}, key=numbers.natural_key)
    slots_of = _slots(layout, nodes, per_node)
    for p in found:
        if p.rank is not None and p.node in slots_of:
            p.rank = _global_rank(p.rank, slots_of[p.node])
    order = "of the layout" if layout.node_of else "of their names"
    notes.append(
        f"File names count ranks per node; with {per_node} a node and nodes in the order {order} they were made global."
    )


def _ranks_by_name(found: Iterable[Process]) -> list[tuple[int, str, int]]:
    """Round, node and rank of each trainer whose rank stands in a name or a command."""
    by_name = [p for p in found if p.role == TRAINER and p.how in _HOW_BY_NAME]
    return [(p.round, p.node, rank) for rank, p in with_ranks(by_name) if p.node]


def _are_local_ranks(named: Sequence[tuple[int, str, int]]) -> bool:
    """Whether a rank is on several nodes at once, and nearly all nodes count from 0. Ranks on two nodes that do not
    count from 0 are two jobs, or a job that moved, which is reported elsewhere.
    """
    holders: dict[tuple[int, int], set[str]] = defaultdict(set)
    lowest: dict[str, int] = {}
    for round_number, node, rank in named:
        holders[round_number, rank].add(node)
        lowest[node] = min(rank, lowest.get(node, rank))
    most_holders = max(map(len, holders.values()), default=0)
    from_zero = sum(rank == 0 for rank in lowest.values())
    return most_holders > 1 and from_zero >= THRESHOLDS.from_zero * len(lowest)


def _global_rank(local: int, slots: Sequence[int]) -> int | None:
    """The rank with this number on a node; None for one that no job has."""
    rank = slots[local] if local < len(slots) else local
    return rank if rank < numbers.MAX_RANKS else None


def _slots(layout: Layout, nodes: Sequence[str], per_node: int) -> dict[str, Sequence[int]]:
    """Each node's ranks: from the layout, else ``per_node`` in order of nodes. O(nodes)."""
    stated: dict[str, list[int]] = defaultdict(list)
    for rank, node in sorted(layout.node_of.items()):
        stated[node].append(rank)
    return {n: stated.get(n) or range(i * per_node, (i + 1) * per_node) for i, n in enumerate(nodes)}


def number_by_position(found: list[Process], layout: Layout, notes: list[str]) -> None:
    """Bundles without any rank: a node's processes in the order of the file are its local ranks."""
    bundles: dict[tuple[int, str], list[Process]] = defaultdict(list)
    for p in found:
        if p.role == TRAINER and p.node:
            bundles[p.round, p.node].append(p)
    unnamed = {key: members for key, members in bundles.items() if _lacks_rank(members)}
    if not unnamed:
        return
    per_node = max(map(len, bundles.values()))
    names = {node for _, node in bundles} | set(layout.node_of.values())
    slots_of = _slots(layout, sorted(names, key=numbers.natural_key), per_node)
    unsure: list[str] = []
    for (_, node), members in unnamed.items():
        is_certain = _number_members(members, slots_of[node])
        if not is_certain:
            unsure.append(node)
    if not layout.node_of:
        notes.append(
            f"The bundles name no ranks: ranks were counted by position, {per_node} a node, "
            "nodes in the order of their names."
        )
    if unsure:
        notes.append(
            f"{', '.join(unsure[:4])}: fewer processes than expected, so which local rank is missing is not certain."
        )


def _lacks_rank(members: Iterable[Process]) -> bool:
    return any(p.rank is None for p in members)


def _number_members(members: list[Process], slots: Sequence[int]) -> bool:
    """Give a node's processes its ranks; whether it is certain which rank each one has."""
    if len(members) > len(slots):
        return True
    taken = {p.rank for p in members}
    if len(members) == len(slots):
        _give_ranks(members, slots, taken, "position")
        return True
    by_pid = _slots_by_pid(members, slots)
    if by_pid:
        with_pid = [p for p in members if p.dump.pid is not None]
        _give_ranks(with_pid, by_pid, set(), "process ids")
        return True
    left = [rank for rank in slots if rank not in taken]
    _give_ranks(members, left, set(), "position, unsure")
    return False


def _slots_by_pid(members: Iterable[Process], slots: Sequence[int]) -> list[int]:
    """The rank of each process with an id, if the ids span as many numbers as there are ranks: the gap in the ids is
    the missing process. Else nothing.
    """
    pids = [p.dump.pid for p in members if p.dump.pid is not None]
    first = min(pids, default=0)
    last = max(pids, default=-1)
    if last - first + 1 != len(slots):
        return []
    return [slots[pid - first] for pid in pids]


def _give_ranks(members: Iterable[Process], ranks: Sequence[int], taken: Container[int | None], how: str) -> None:
    """Give each process without a rank the one at its place, unless another process has it."""
    for p, rank in zip(members, ranks, strict=False):
        if p.rank is None and rank not in taken:
            p.rank = rank
            p.how = how


def without_repeats(found: list[Process]) -> tuple[list[Process], int]:
    """The same process dumped twice in one round (text and JSON) counts once; dumped again, it is another round."""
    same: dict[tuple[int, str, int | None, str | None, int | None], list[Process]] = defaultdict(list)
    for p in found:
        has_rank = p.role == TRAINER and p.rank is not None
        pid = None if has_rank else p.dump.pid
        same[p.round, p.role, p.rank, p.node, pid].append(p)
    kept: list[Process] = []
    for (_, _, rank, _, pid), members in same.items():
        is_known = rank is not None or pid is not None
        kept += _without_other_forms(members) if is_known else members
    rounds = sorted({p.round for p in kept})
    number_of = {number: place for place, number in enumerate(rounds)}
    for p in kept:
        p.round = number_of[p.round]
    return kept, len(rounds)


def _without_other_forms(members: Iterable[Process]) -> list[Process]:
    """The dumps of one process: of each in two forms the better one, and each later one in a later round."""
    best: dict[tuple[str, int], Process] = {}
    seen: Counter[str] = Counter()
    for p in members:
        nth = seen[p.path] if p.role == TRAINER else 0
        seen[p.path] += 1
        file = (p.path.rpartition("/")[0] + "/" + stem_of(p.path), nth)
        if file not in best or _lack(p) < _lack(best[file]):
            best[file] = p
    for later, p in enumerate(best.values()):
        p.round += later
    return list(best.values())


def _lack(p: Process) -> tuple[int, bool]:
    """How much a dump lacks."""
    return _STATUS_ORDER[p.dump.status], not p.dump.command
