"""The machine of a writer, if its own lines and its path do not name it or name something else.

A directory named after a machine outranks a file name ("worker_6.log" below "cn17/" counts ranks, not machines). The
name of files or of a directory with many machines is the job's. A rank that once named its machine stays there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

import polars as pl

from diagnosis import thresholds

THRESHOLDS: Final = thresholds.of("homes")

#: A file numbered within the directory of a machine.
_NUMBERED: Final = re.compile(r"(?i)(worker|rank|task|proc|process|local|gpu|npu)[-_.]?\d+(\.\w+)*")

_MARK: Final = re.compile(r"[^A-Za-z0-9]")
#: A machine's name behind other words.
_NAME: Final = re.compile(r"(?=.*\d)(?=.*[A-Za-z]).{4,}")

type _Row = tuple[int, str | None, int | None]


def settle_homes(
    sources: pl.DataFrame, paths: Sequence[str], nodes: Sequence[str], node_of: Mapping[int, str]
) -> pl.DataFrame:
    """``sources`` (``source``, ``file``, ``node``, ``rank``) with machines put right. O(sources + files × nodes).

    Args:
        paths: of the files, in order of their numbers.
        nodes: machines that an inventory knows.
        node_of: rank to machine, from a description; used unless the lines contradict it.
    """
    rows: list[_Row] = list(sources.select("file", "node", "rank").iter_rows())
    rows = _with_inventory(rows, paths, set(nodes)) if nodes else _without_inventory(rows, paths)
    place = _node_by_rank(rows, node_of)
    settled = [node or (place.get(rank) if rank is not None else None) for _, node, rank in rows]
    return sources.with_columns(node=pl.Series(settled, dtype=pl.String))


def _with_inventory(rows: list[_Row], paths: Sequence[str], known: set[str]) -> list[_Row]:
    """With an inventory: a machine of the inventory in a path outranks a name that the inventory lacks."""
    own = [component(path, known) for path in paths]
    if not any(own) and not any(node in known for _, node, _ in rows):
        return rows
    ranks_of: dict[int, set[str]] = defaultdict(set)
    for f, node, _ in rows:
        ranks_of[f] |= {node} & known if node else set()
    # lines without a machine, in a file named after one that no other machine writes to
    alone = {f: own[f] for f, nodes in ranks_of.items() if own[f] and nodes <= {own[f]}}
    return [
        (f, alone.get(f) if node is None else node if node in known or not _is_of(node, paths[f]) else own[f], rank)
        for f, node, rank in rows
    ]


def component(path: str, known: set[str]) -> str | None:
    """The name of a known machine that the innermost part of a path is, begins with, or holds behind a dot; behind
    another mark ("node_gpu7.log") it must look like a name, with a digit.
    """
    for part in reversed(PurePosixPath(path).parts):
        marks = [found.start() for found in _MARK.finditer(part)]
        named = []
        for first in [0, *(mark + 1 for mark in marks)]:
            for end in [*(mark for mark in marks if mark > first), len(part)]:
                is_plain = first == 0 or part[first - 1] == "."
                if part[first:end] in known and (is_plain or _NAME.fullmatch(part[first:end])):
                    named.append(part[first:end])
        if named:
            return max(named, key=len)
    return None


def _without_inventory(rows: list[_Row], paths: Sequence[str]) -> list[_Row]:
    stated: dict[int, set[str]] = defaultdict(set)
    others: dict[str, set[str]] = defaultdict(set)
    for f, node, _ in rows:
        if node is not None and _is_of(node, paths[f]):
            stated[f].add(node)
    for f, node, _ in rows:
        if node is not None and not _is_of(node, paths[f]):
            for name in stated[f]:
                others[name].add(node)
    below = {
        f: PurePosixPath(path).parts[-2]
        for f, path in enumerate(paths)
        if "/" in path and _NUMBERED.fullmatch(PurePosixPath(path).name)
    }
    if len(set(below.values())) < THRESHOLDS.shared:
        below = {}  # one directory for all is the job's
    out = []
    for f, node, rank in rows:
        if node is not None and _is_of(node, paths[f]):
            node = None if len(others[node]) >= THRESHOLDS.shared else below.get(f, node)  # noqa: PLW2901
        out.append((f, node, rank))
    return out


def _is_of(node: str, path: str) -> bool:
    """Whether the name comes from the path."""
    return f"/{node}" in f"/{path}"


def _node_by_rank(rows: Iterable[_Row], node_of: Mapping[int, str]) -> dict[int, str]:
    """Rank to machine: from writers that state both, which outrank a description."""
    nodes_of_rank: dict[int, set[str]] = defaultdict(set)
    for _, node, rank in rows:
        if node is not None and rank is not None:
            nodes_of_rank[rank].add(node)
    learnt = {rank: next(iter(names)) for rank, names in nodes_of_rank.items() if len(names) == 1}
    both = [rank for rank in learnt if rank in node_of]
    is_right = sum(node_of[r] == learnt[r] for r in both) >= THRESHOLDS.agree * len(both)
    return (dict(node_of) if is_right else {}) | learnt
