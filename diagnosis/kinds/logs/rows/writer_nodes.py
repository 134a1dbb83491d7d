"""The machine of a writer, if its own lines and its path do not name it or name something else.

A directory named after a machine outranks a file name ("worker_6.log" below "cn17/" counts ranks, not machines). The
name of files or of a directory with many machines is the job's. A rank that once named its machine stays there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

import polars as pl

from diagnosis import thresholds

THRESHOLDS: Final = thresholds.of("writer_nodes")

#: A file numbered within the directory of a machine.
_NUMBERED: Final = re.compile(r"(?i)(worker|rank|task|proc|process|local|gpu|npu)[-_.]?\d+(\.\w+)*")

_MARK: Final = re.compile(r"[^A-Za-z0-9]")
#: A machine's name behind other words.
_NAME: Final = re.compile(r"(?=.*\d)(?=.*[A-Za-z]).{2,}")


class _Row(NamedTuple):
    """A writer: the number of its file, and the machine and the rank that it states."""

    file: int
    node: str | None
    rank: int | None


def settle_nodes(
    sources: pl.DataFrame, paths: Sequence[str], nodes: Sequence[str], node_of: Mapping[int, str]
) -> pl.DataFrame:
    """``sources`` (``source``, ``file``, ``node``, ``rank``) with machines put right. O(sources + files × nodes).

    Args:
        paths: of the files, in order of their numbers.
        nodes: machines that an inventory knows.
        node_of: rank to machine, from a description; used unless the lines contradict it.
    """
    stated = [_Row(*row) for row in sources.select("file", "node", "rank").iter_rows()]
    rows = (
        _with_inventory(stated, paths, set(nodes))
        if nodes
        else _without_inventory(_with_named_paths(stated, paths), paths)
    )
    place = _node_by_rank(rows, node_of)
    settled = [row.node or place.get(row.rank) for row in rows]
    return sources.with_columns(node=pl.Series(settled, dtype=pl.String))


def _with_inventory(rows: list[_Row], paths: Sequence[str], known: set[str]) -> list[_Row]:
    """With an inventory: a machine of the inventory in a path outranks a name that the inventory lacks."""
    of_path = [component(path, known) for path in paths]
    stated: dict[int, set[str]] = defaultdict(set)
    for row in rows:
        if row.node in known:
            stated[row.file].add(row.node or "")
    if not stated and not any(of_path):
        return rows
    return [row._replace(node=_known_node(row, paths[row.file], of_path[row.file], stated)) for row in rows]


def _known_node(row: _Row, path: str, of_path: str | None, stated: Mapping[int, set[str]]) -> str | None:
    """The machine of one writer. ``of_path``: the known machine in its path; ``stated``: the known machines that write
    to each file.
    """
    writers = stated.get(row.file, set())
    if row.node is None:
        # lines without a machine, in a file named after one that no other machine writes to
        return of_path if of_path and writers <= {of_path} else None
    is_unknown_path = row.node not in writers and _is_of(row.node, path)
    return of_path if is_unknown_path else row.node


def component(path: str, known: set[str]) -> str | None:
    """The name of a known machine that the innermost part of a path is, begins with, or holds behind a dot; behind
    another mark ("node_gpu7.log") it must look like a name, with a digit.
    """
    for part in reversed(PurePosixPath(path).parts):
        named = [name for name in _pieces(part) if name in known]
        if named:
            return max(named, key=len)
    return None


def _pieces(part: str) -> Iterator[str]:
    """What may be a machine's name in a part of a path: from a mark on, and up to one."""
    marks = [found.start() for found in _MARK.finditer(part)]
    for first in (0, *(mark + 1 for mark in marks)):
        is_plain = first == 0 or part[first - 1] == "."
        for end in (*marks, len(part)):
            piece = part[first:end]
            if is_plain or _NAME.fullmatch(piece):
                yield piece


def _without_inventory(rows: list[_Row], paths: Sequence[str]) -> list[_Row]:
    """A name in the path of several machines' lines is the job's; numbered files: their folder."""
    is_of_path = {row: row.node is not None and _is_of(row.node, paths[row.file]) for row in rows}
    others = _named_beside(rows, is_of_path)
    below = _directories(paths)
    settled = []
    for row in rows:
        node = row.node
        if is_of_path[row]:
            is_of_job = len(others[node]) >= THRESHOLDS.shared
            node = None if is_of_job else below.get(row.file, node)
        settled.append(row._replace(node=node))
    return settled


def _named_beside(rows: list[_Row], is_of_path: Mapping[_Row, bool]) -> Mapping[str | None, set[str]]:
    """Of each name in a path, the machines that lines of its files name."""
    stated: dict[int, set[str]] = defaultdict(set)
    for row in rows:
        if is_of_path[row]:
            stated[row.file].add(row.node or "")
    others: dict[str | None, set[str]] = defaultdict(set)
    for row in rows:
        if row.node is not None and not is_of_path[row]:
            for name in stated[row.file]:
                others[name].add(row.node)
    return others


def _with_named_paths(rows: list[_Row], paths: Sequence[str]) -> list[_Row]:
    """Puts writers of a nameless file on the one in its path that other files' lines name."""
    told = {row.node for row in rows if row.node is not None and not _is_of(row.node, paths[row.file])}
    silent = set(range(len(paths))) - {row.file for row in rows if row.node is not None}
    of_path = {file: component(paths[file], told) for file in silent}
    return [row._replace(node=row.node or of_path.get(row.file)) for row in rows]


def _directories(paths: Sequence[str]) -> dict[int, str]:
    """The directory of each numbered file; empty if it is the same for all, the job's."""
    split = [PurePosixPath(path) for path in paths]
    found = {file: path.parent.name for file, path in enumerate(split) if _NUMBERED.fullmatch(path.name)}
    named = {file: name for file, name in found.items() if name}
    return named if len(set(named.values())) >= THRESHOLDS.shared else {}


def _is_of(node: str, path: str) -> bool:
    """Whether the name comes from the path."""
    return f"/{node}" in f"/{path}"


def _node_by_rank(rows: Iterable[_Row], node_of: Mapping[int, str]) -> dict[int | None, str]:
    """Rank to machine: from writers that state both, which outrank a description."""
    nodes_of_rank: dict[int, set[str]] = defaultdict(set)
    for row in rows:
        if row.node is not None and row.rank is not None:
            nodes_of_rank[row.rank].add(row.node)
    learnt: dict[int | None, str] = {rank: min(names) for rank, names in nodes_of_rank.items() if len(names) == 1}
    both = [rank for rank in node_of if rank in learnt]
    agreeing = sum(node_of[rank] == learnt[rank] for rank in both)
    if agreeing < THRESHOLDS.agree * len(both):
        return learnt
    return {rank: node for rank, node in node_of.items() if rank not in learnt} | learnt
