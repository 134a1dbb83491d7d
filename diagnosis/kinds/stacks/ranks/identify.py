"""Identifies dumps: rank, node, role and round of each process, from names, headings, labels, command lines and the
layout. No tool writes the rank into its dump, so it comes from these sources; ``how`` records the source for the
reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from diagnosis import thresholds
from diagnosis.kinds.stacks.ranks.dumped_processes import TRAINER, Process, role_of, stem_of
from diagnosis.kinds.stacks.ranks.layout import Layout
from diagnosis.kinds.stacks.ranks.rank_numbers import (
    inherit_ranks,
    make_local_ranks_global,
    number_by_position,
    without_repeats,
)
from diagnosis.kinds.stacks.read.stack_frames import Dump
from diagnosis.values import numbers

THRESHOLDS: Final = thresholds.of("identify")

#: A file's name is a rank if it has so few characters.
_MAX_RANK_CHARS: Final = 6
_RANK = re.compile(r"(?:global[_-]?)?rank[_\-=.]?(\d+)", re.IGNORECASE)
_DUMP_RANK = re.compile(r"(?:^|_)(?:dump|trace|nccl_trace|fr)_(\d+)(?:\.\w+)?$", re.IGNORECASE)
_NAMED_RANK = re.compile(r"rank[_-]([A-Za-z][\w.\-]*)[_-](\d+)(?:\.\w+)?$", re.IGNORECASE)
_COMMAND_RANK = re.compile(r"(?<![\w-])(?:--(?:node[-_])?rank|RANK)[= ](\d+)")
_COMMAND_LOCAL = re.compile(r"(?:--local[-_]rank|LOCAL_RANK)[= ](\d+)")
_ROUND = re.compile(
    r"(?:^|[_\-.])(?:dump|round|pass|iter|sample|snapshot|sweep|poll|run|t|attempt)[_\-.]?(\d{1,4})$", re.IGNORECASE
)
_TIME_NAME = re.compile(r"^\d{4}-?\d\d-?\d\d[T_\- ]?\d\d[:_\-]?\d\d(?:[:_\-]?\d\d)?|^\d{10,13}$")
_GENERIC_NAME = re.compile(
    r"^(?:stacks?|py-?spy|traces?|dumps?|backtraces?|bt|logs?|out|tmp|data|evidence|fr|flight_?recorder|debug|hang"
    r"|artifacts?|stack_?dumps?)$",
    re.IGNORECASE,
)
_PREFIX = re.compile(
    r"^(?:stack_?)?(?:trace|py-?spy|stacks?|dump|bt|backtrace|gdb|pystack|faulthandler|hang)[-_.]", re.IGNORECASE
)
_RANK_AND_REST = re.compile(
    r"(?:[-_](?:global|local)[-_]?|(?<![.\w])(?:global|local)[-_]?|[-_.])?rank[-_=.]?\d+.*$", re.IGNORECASE
)
_DIGIT = re.compile(r"\d")
_SUFFIX = re.compile(r"(?:[-_.](?:stacks?|dump|trace|py-?spy|bt|agent|loader|worker))$", re.IGNORECASE)


class Census(msgspec.Struct):
    """All processes of one upload. ``notes`` are sentences about assumptions and errors."""

    processes: list[Process]
    rounds: int
    notes: list[str] = msgspec.field(default_factory=list)


def _node_from(path: str, known: dict[str, str]) -> tuple[str | None, str]:
    """A node's name in the path: one the inventory knows, else a directory or a file whose name has no other
    meaning; and which of these it is.
    """
    stem = stem_of(path)
    node = _known_node(path, known) or _node_before_rank(stem)
    if node is not None:
        return node, "path"
    node_of_file = _node_in_name(stem)
    if node_of_file is not None:
        return node_of_file, "file name"
    folders = path.split("/")[:-1]
    node_of_folder = _node_in_folders(folders)
    return node_of_folder, "" if node_of_folder is None else "directory"


def _known_node(path: str, known: dict[str, str]) -> str | None:
    """The node that the inventory knows, in the last part of the path that names one."""
    for part in reversed(path.split("/")):
        stem = stem_of(part)
        words = (part, *stem.split("_"), _PREFIX.sub("", stem), stem)
        names = [known[word.lower()] for word in words if word.lower() in known]
        if names:
            return names[0]
    return None


def _node_before_rank(stem: str) -> str | None:
    named = _NAMED_RANK.search(stem)
    return None if named is None else named[1]


def _node_in_name(stem: str) -> str | None:
    """The rest of a file's name without the words about tools and ranks, if it may be a node."""
    rest = _SUFFIX.sub("", _RANK_AND_REST.sub("", _PREFIX.sub("", stem)))
    has_other_meaning = _GENERIC_NAME.match(rest) or _RANK.search(rest) or _ROUND.search(rest)
    if has_other_meaning or rest.isdigit() or _DUMP_RANK.search(stem):
        return None
    return rest if _DIGIT.search(rest) else None


def _node_in_folders(folders: Sequence[str]) -> str | None:
    """The innermost folder that may be a node; a single one may be the job's."""
    if len(folders) < 2:
        return None
    return next(filter(_may_be_node, reversed(folders)), None)


def _may_be_node(folder: str) -> bool:
    """Whether a folder's name has a digit and no other meaning."""
    patterns = (_GENERIC_NAME.match, _ROUND.search, _TIME_NAME.match, _RANK.fullmatch)
    has_other_meaning = any(find(folder) for find in patterns)
    return bool(_DIGIT.search(folder)) and not has_other_meaning


def _rank_from(path: str, *, has_pids: bool = False) -> int | None:
    stem = stem_of(path)
    if m := _NAMED_RANK.search(stem):
        return numbers.rank(m[2])
    if found := _RANK.findall(stem):
        return numbers.rank(found[-1])
    if m := _DUMP_RANK.search(stem):
        return numbers.rank(m[1])
    for part in reversed(path.split("/")[:-1]):
        if m := _RANK.fullmatch(part):
            return numbers.rank(m[1])
    return numbers.rank(stem) if len(stem) <= _MAX_RANK_CHARS and not has_pids else None


def are_named_after_pids(paths: Iterable[str], layout: Layout) -> bool:
    """Whether files named by a number have process ids: the numbers are far beyond any rank."""
    bare = [number for path in set(paths) if (number := numbers.whole(stem_of(path))) is not None]
    return bool(max(bare, default=0) >= max(layout.world_size or 0, 2 * len(bare) + THRESHOLDS.beyond))


def host_directories(paths: Iterable[str]) -> set[str]:
    """Top directories that look like hosts, if an upload has several of them; a single one may be the job's."""
    tops = {path.split("/")[0] for path in paths if "/" in path}
    hosts = set(filter(_may_be_node, tops))
    return hosts if len(hosts) > 1 else set()


def _round_key(path: str) -> str:
    """What in a path tells rounds apart: a directory ``round-3`` or time, or a suffix."""
    for part in path.split("/")[:-1]:
        if (_ROUND.search(part) and not _RANK.fullmatch(part)) or _TIME_NAME.match(part):
            return part
    stem = stem_of(path)
    if _RANK.search(stem):
        tail = _RANK.split(stem)[-1]
        if m := re.search(r"(\d+)$", tail):
            return f"~{m[1]:0>6}"
    return ""


def rank_and_node(path: str, layout: Layout, known_nodes: Iterable[str] = ()) -> tuple[int | None, str | None]:
    """Rank and node from a path, for artifacts that hold one rank (Flight Recorder dumps)."""
    known = {n.lower(): n for n in (*known_nodes, *layout.node_of.values())}
    rank, node = _rank_from(path), _node_from(path, known)[0]
    if rank is not None and _NAMED_RANK.search(stem_of(path)) and node:  # the name counts ranks of its node
        there = sorted(r for r, n in layout.node_of.items() if n == node)
        rank = there[rank] if rank < len(there) else rank
    return rank, node


class _DumpFile(msgspec.Struct, frozen=True):
    """What a file's path says of its processes. ``trainers``: how many of them train."""

    path: str
    round: int
    node: str | None
    how: str
    rank: int | None
    trainers: int


def census(items: Iterable[tuple[str, Sequence[Dump]]], layout: Layout, known_nodes: Iterable[str] = ()) -> Census:
    """Identify every process of ``(path, dumps)``. O(n log n) in the number of processes."""
    ordered = sorted(items, key=lambda item: numbers.natural_key(item[0]))
    paths = [path for path, _ in ordered]
    known = {n.lower(): n for n in (*host_directories(paths), *known_nodes, *layout.node_of.values())}
    has_pids = are_named_after_pids(paths, layout)
    rounds = sorted(set(map(_round_key, paths)), key=numbers.natural_key)
    round_of = {key: number for number, key in enumerate(rounds)}
    notes: list[str] = []
    found: list[Process] = []
    for path, dumps in ordered:
        node, how = _node_from(path, known)
        if has_pids and len(dumps) == 1 and dumps[0].pid is None:
            dumps[0].pid = numbers.whole(stem_of(path))
        rank = _rank_from(path, has_pids=has_pids)
        trainers = sum(role_of(dump, path) == TRAINER for dump in dumps)
        file = _DumpFile(path, round_of[_round_key(path)], node, how, rank, trainers)
        found += [_process(dump, file, known, layout) for dump in dumps]
    inherit_ranks(found)
    make_local_ranks_global(found, layout, notes)
    number_by_position(found, layout, notes)
    inherit_ranks(found)
    for p in found:
        if p.node is None and p.rank is not None:
            p.node = layout.node_of.get(p.rank)
    kept, round_count = without_repeats(found)
    return Census(kept, round_count, notes)


def _process(dump: Dump, file: _DumpFile, known: dict[str, str], layout: Layout) -> Process:
    """One process, named by its heading, its label, its file or its command, and last by the layout."""
    p = Process(dump, file.path, role_of(dump, file.path), file.node, None, file.round, file.how)
    _read_heading(p, known)
    _read_label(p, known)
    if p.rank is None and _counts_for(p, file):
        p.rank, p.how = file.rank, "path"
    if p.rank is None:
        _read_command(p)
    if p.node and dump.pid is not None and (p.node, dump.pid) in layout.rank_of:
        p.rank, p.how = layout.rank_of[p.node, dump.pid], "layout"
    return p


def _read_heading(p: Process, known: dict[str, str]) -> None:
    """The node and the rank that the bundle states above the dump."""
    heading = p.dump.header
    path, node, rank = heading.get("path", ""), heading.get("node"), heading.get("rank")
    if path:
        p.node, p.rank, p.how = _node_from(path, known)[0] or p.node, _rank_from(path), "heading"
    if node is not None:
        p.node, p.how = known.get(node.lower(), node), "heading"
    if rank is not None:
        p.rank, p.how = numbers.rank(rank), "heading"


def _read_label(p: Process, known: dict[str, str]) -> None:
    """The label that a launcher puts before each line: a task or a node."""
    label = p.dump.label
    if label is None:
        return
    if numbers.whole(label) is None:
        p.node, p.how = known.get(label.lower(), label), "label"
    task = numbers.rank(label)
    if task is not None and p.rank is None:
        p.rank, p.how = task, "task label"


def _counts_for(p: Process, file: _DumpFile) -> bool:
    """Whether the number in the file's name is the rank of this process."""
    is_pid = file.rank == p.dump.pid  # files named after the process, not the rank
    is_ambiguous = file.trainers > 1 and p.role == TRAINER
    return file.rank is not None and not is_pid and not is_ambiguous


def _read_command(p: Process) -> None:
    """The rank, or the local rank, on the command line."""
    stated = _COMMAND_RANK.search(p.dump.command)
    if stated is not None and "node" not in stated[0]:
        p.rank, p.how = numbers.rank(stated[1]), "command line"
    local = _COMMAND_LOCAL.search(p.dump.command)
    if p.rank is None and p.role == TRAINER and local is not None:
        p.rank, p.how = numbers.rank(local[1]), "local rank"
