"""Identifies dumps: rank, node, role and round of each process, from names, headings, labels, command lines and the
layout. No tool writes the rank into its dump, so it comes from these sources; ``how`` records the source for the
reader.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from diagnosis import numbers
from diagnosis.kinds.stacks.ranks.layout import Layout
from diagnosis.kinds.stacks.read.stack_frames import FAILED, OK, Dump

TRAINER, AGENT, LOADER, SAVER, HELPER = "trainer", "agent", "loader", "saver", "helper"

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
_SUFFIX = re.compile(r"(?:[-_.](?:stacks?|dump|trace|py-?spy|bt|agent|loader|worker))$", re.IGNORECASE)
_EXTENSION = re.compile(r"\.(?:txt|log|out|json|err|dump|trace|bt|stack|pickle|pkl|gz)$", re.IGNORECASE)
_AGENT = re.compile(
    r"torch\.distributed\.(?:run|launch)\b|\btorchrun\b|deepspeed(?:\.launcher|\s)|accelerate\s+launch|\bsrun\b"
    r"|\bmpirun\b|dlrover|launcher"
)
_HELPER = re.compile(
    r"resource_tracker|multiprocessing\.(?:forkserver|resource)|compile_worker|wandb[-_]?(?:service|core)?"
    r"|tensorboard|nvidia-smi|raylet"
)
_RAY = re.compile(r"\bray::")


@dataclass(slots=True)
class Process:
    """One dump with its identity. ``rank`` is global, None if unknown; ``round`` counts from 0."""

    dump: Dump
    path: str
    role: str = TRAINER
    node: str | None = None
    rank: int | None = None
    round: int = 0
    how: str = ""


@dataclass(slots=True)
class Census:
    """All processes of one upload. ``notes`` are sentences about assumptions and errors."""

    processes: list[Process]
    rounds: int
    notes: list[str] = field(default_factory=list)


def role_of(dump: Dump, path: str) -> str:
    """Trainer, launcher's agent, data-loader worker, process that saves checkpoints, or helper."""
    functions = {f.name for t in dump.threads for f in t.frames}
    files = {f.file for t in dump.threads for f in t.frames}
    if "_worker_loop" in functions or any(f.endswith("_utils/worker.py") for f in files):
        return LOADER
    if dump.parent is not None and not functions & {"train", "train_step"} and any("checkpoint" in f for f in files):
        return SAVER
    if functions & {"_invoke_run", "launch_agent"} or _AGENT.search(dump.command):
        return AGENT
    if _HELPER.search(dump.command) or (_RAY.search(dump.command) and _is_idle_actor(dump)):
        return HELPER
    stem = path.rsplit("/", 1)[-1].lower()
    if not dump.command and re.search(r"(?:^|[_\-.])agent(?:[_\-.]|$)", stem):
        return AGENT
    if dump.parent is not None and not functions & {"train", "train_step", "main"} and "spawn_main" in functions:
        return HELPER
    return TRAINER


def _is_idle_actor(dump: Dump) -> bool:
    """Whether an actor of Ray runs no task: Ray's own frames alone."""
    main = dump.main()
    frames = [f for f in main.frames if not f.is_native] if main else []
    return all(re.search(r"(?:^|/)ray/|default_worker", f.file) for f in frames)


def _stem(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    while (shorter := _EXTENSION.sub("", name)) != name:
        name = shorter
    return name


def _node_from(path: str, known: dict[str, str]) -> tuple[str | None, str]:
    """A node's name in the path: one the inventory knows, else a directory or a file whose name has no other
    meaning.
    """
    parts = path.split("/")
    for part in reversed(parts):
        for token in (part, *re.split(r"[_]", _stem(part)), _PREFIX.sub("", _stem(part)), _stem(part)):
            if token.lower() in known:
                return known[token.lower()], "path"
    if m := _NAMED_RANK.search(_stem(path)):
        return m[1], "path"
    stem = _PREFIX.sub("", _stem(path))
    left = _SUFFIX.sub(
        "",
        re.sub(
            r"(?:[-_](?:global|local)[-_]?|(?<![.\w])(?:global|local)[-_]?|[-_.])?rank[-_=.]?\d+.*$",
            "",
            stem,
            flags=re.IGNORECASE,
        ),
    )
    if (
        left
        and not left.isdigit()
        and not _GENERIC_NAME.match(left)
        and not _RANK.search(left)
        and not _ROUND.search(left)
        and not _DUMP_RANK.search(_stem(path))
        and re.search(r"\d", left)
    ):
        return left, "file name"
    for part in reversed(parts[:-1]):
        if (
            not _GENERIC_NAME.match(part)
            and not _ROUND.search(part)
            and not _TIME_NAME.match(part)
            and not _RANK.fullmatch(part)
            and len(parts) > 2
            and re.search(r"\d", part)
        ):
            return part, "directory"
    return None, ""


def _rank_from(path: str, *, has_pids: bool = False) -> int | None:
    stem = _stem(path)
    if m := _NAMED_RANK.search(stem):
        return numbers.rank(m[2])
    if found := _RANK.findall(stem):
        return numbers.rank(found[-1])
    if m := _DUMP_RANK.search(stem):
        return numbers.rank(m[1])
    for part in reversed(path.split("/")[:-1]):
        if m := _RANK.fullmatch(part):
            return numbers.rank(m[1])
    return numbers.rank(stem) if len(stem) <= 6 and not has_pids else None


def are_named_after_pids(paths: Iterable[str], layout: Layout) -> bool:
    """Whether files named by a number have process ids: the numbers are far beyond any rank."""
    bare = [number for path in set(paths) if (number := numbers.whole(_stem(path))) is not None]
    return max(bare, default=0) >= max(layout.world_size or 0, 2 * len(bare) + 64)


def host_directories(paths: Iterable[str]) -> set[str]:
    """Top directories that look like hosts, if an upload has several of them; a single one may be the job's."""
    tops = {path.split("/")[0] for path in paths if "/" in path}
    hosts = {t for t in tops if re.search(r"\d", t) and not _GENERIC_NAME.match(t) and not _ROUND.search(t)}
    hosts = {t for t in hosts if not _TIME_NAME.match(t) and not _RANK.fullmatch(t)}
    return hosts if len(hosts) > 1 else set()


def _round_key(path: str) -> str:
    """The part of a path that distinguishes rounds: a directory ``round-3`` or a time, or a suffix of the file's
    name.
    """
    for part in path.split("/")[:-1]:
        if (_ROUND.search(part) and not _RANK.fullmatch(part)) or _TIME_NAME.match(part):
            return part
    stem = _stem(path)
    if _RANK.search(stem):
        tail = _RANK.split(stem)[-1]
        if m := re.search(r"(\d+)$", tail):
            return f"~{m[1]:0>6}"
    return ""


def rank_and_node(path: str, layout: Layout, known_nodes: Iterable[str] = ()) -> tuple[int | None, str | None]:
    """Rank and node from a path, for artifacts that hold one rank (Flight Recorder dumps)."""
    known = {n.lower(): n for n in (*known_nodes, *layout.node_of.values())}
    rank, node = _rank_from(path), _node_from(path, known)[0]
    if rank is not None and _NAMED_RANK.search(_stem(path)) and node:  # the name counts ranks of its node
        there = sorted(r for r, n in layout.node_of.items() if n == node)
        rank = there[rank] if rank < len(there) else rank
    return rank, node


def census(items: Iterable[tuple[str, Sequence[Dump]]], layout: Layout, known_nodes: Iterable[str] = ()) -> Census:
    """Identify every process of ``(path, dumps)``. O(n log n) in the number of processes."""
    items = list(items)
    paths = [path for path, _ in items]
    known = {n.lower(): n for n in (*host_directories(paths), *known_nodes, *layout.node_of.values())}
    has_pids = are_named_after_pids(paths, layout)
    ordered = sorted(items, key=lambda item: numbers.natural_key(item[0]))
    keys = sorted({_round_key(path) for path, _ in ordered}, key=numbers.natural_key)
    round_of = {k: i for i, k in enumerate(keys)}
    notes: list[str] = []
    found: list[Process] = []
    for path, dumps in ordered:
        node, how = _node_from(path, known)
        rank = _rank_from(path, has_pids=has_pids)
        if has_pids and len(dumps) == 1 and dumps[0].pid is None:
            dumps[0].pid = numbers.whole(_stem(path))
        trainers = sum(role_of(d, path) == TRAINER for d in dumps)
        for dump in dumps:
            p = Process(dump, path, role_of(dump, path), node, None, round_of[_round_key(path)], how)
            header = dump.header.get("path", "")
            if header:
                p.node, p.rank, p.how = _node_from(header, known)[0] or node, _rank_from(header), "heading"
            if "node" in dump.header:
                p.node, p.how = known.get(dump.header["node"].lower(), dump.header["node"]), "heading"
            if "rank" in dump.header:
                p.rank, p.how = numbers.rank(dump.header["rank"]), "heading"
            task = None if dump.label is None else numbers.rank(dump.label)
            if dump.label is not None and numbers.whole(dump.label) is None:
                p.node, p.how = known.get(dump.label.lower(), dump.label), "label"
            if task is not None and p.rank is None:
                p.rank, p.how = task, "task label"
            is_pid = rank is not None and rank == dump.pid  # files named after the process, not the rank
            if p.rank is None and rank is not None and not is_pid and (trainers <= 1 or p.role != TRAINER):
                p.rank, p.how = rank, "path"
            if p.rank is None and (m := _COMMAND_RANK.search(dump.command)) and "node" not in m[0]:
                p.rank, p.how = numbers.rank(m[1]), "command line"
            if p.rank is None and p.role == TRAINER and (m := _COMMAND_LOCAL.search(dump.command)):
                p.rank, p.how = numbers.rank(m[1]), "local rank"
            if p.node and dump.pid is not None and (p.node, dump.pid) in layout.rank_of:
                p.rank, p.how = layout.rank_of[p.node, dump.pid], "layout"
            found.append(p)
    _inherit_ranks(found)
    _local_to_global(found, layout, notes)
    _by_position(found, layout, notes)
    _inherit_ranks(found)
    for p in found:
        if p.node is None and p.rank is not None:
            p.node = layout.node_of.get(p.rank)
    found, rounds = _rounds(found)
    return Census(found, rounds, notes)


def _inherit_ranks(found: list[Process]) -> None:
    """Children (data-loader workers) belong to their parent's rank."""
    by_pid: dict[tuple[str, int | None], Process] = {(p.path, p.dump.pid): p for p in found if p.dump.pid is not None}
    for p in found:
        parent = by_pid.get((p.path, p.dump.parent))
        if parent is not None and p.rank is None and parent.rank is not None:
            p.rank, p.node = parent.rank, p.node or parent.node


def _local_to_global(found: list[Process], layout: Layout, notes: list[str]) -> None:
    """Names that count ranks per node (``node-a/rank0 … node-b/rank0``) are local ranks."""
    holders: dict[tuple[int, int], set[str]] = defaultdict(set)
    trainers = [
        p
        for p in found
        if p.role == TRAINER and p.rank is not None and p.node and p.how in {"path", "heading", "local rank"}
    ]
    for p in trainers:
        holders[p.round, p.rank or 0].add(p.node or "")
    if not holders or max(len(v) for v in holders.values()) < 2:
        return
    per_node = max(p.rank or 0 for p in trainers) + 1
    lowest: dict[str, int] = {}
    for p in trainers:
        lowest[p.node or ""] = min(p.rank or 0, lowest.get(p.node or "", 1 << 30))
    if sum(low == 0 for low in lowest.values()) < 0.8 * len(lowest):
        return  # ranks seen on two nodes that do not count from 0: two jobs, or a job that moved; reported elsewhere
    nodes = sorted({p.node or "" for p in trainers}, key=numbers.natural_key)
    place = _slots(layout, nodes, per_node)
    for p in found:
        if p.rank is not None and p.node in place:
            slots = place[p.node]
            rank = slots[p.rank] if p.rank < len(slots) else p.rank
            p.rank = rank if rank < numbers.MAX_RANKS else None
    notes.append(
        f"File names count ranks per node; with {per_node} a node and nodes in the order "
        + ("of the layout" if layout.node_of else "of their names")
        + " they were made global."
    )


def _slots(layout: Layout, nodes: Sequence[str], per_node: int) -> dict[str, Sequence[int]]:
    """Each node's ranks: from the layout, else ``per_node`` in order of nodes. O(nodes)."""
    stated: dict[str, list[int]] = defaultdict(list)
    for rank, node in sorted(layout.node_of.items()):
        stated[node].append(rank)
    return {n: stated.get(n) or range(i * per_node, (i + 1) * per_node) for i, n in enumerate(nodes)}


def _by_position(found: list[Process], layout: Layout, notes: list[str]) -> None:
    """Bundles without any rank: a node's processes in the order of the file are its local ranks."""
    bundles: dict[tuple[int, str], list[Process]] = defaultdict(list)
    for p in found:
        if p.role == TRAINER and p.node:
            bundles[p.round, p.node].append(p)
    open_ones = {k: v for k, v in bundles.items() if any(p.rank is None for p in v)}
    if not open_ones:
        return
    per_node = max(len(v) for v in bundles.values())
    nodes = sorted({node for _, node in bundles} | set(layout.node_of.values()), key=numbers.natural_key)
    place = _slots(layout, nodes, per_node)
    unsure: list[str] = []
    for (_, node), members in open_ones.items():
        slots = place[node]
        taken = {p.rank for p in members if p.rank is not None}
        if len(members) > len(slots):
            continue
        if len(members) == len(slots):
            free = list(slots)
            for p, rank in zip(members, free, strict=True):
                if p.rank is None and rank not in taken:
                    p.rank, p.how = rank, "position"
            continue
        pids = [p.dump.pid for p in members if p.dump.pid is not None]
        ends = max(pids) - min(pids) + 1 if pids else 0
        if pids and ends == len(slots):  # consecutive ids with a gap: the gap is the missing process
            for p in members:
                if p.rank is None and p.dump.pid is not None:
                    p.rank, p.how = slots[p.dump.pid - min(pids)], "process ids"
        else:
            unsure.append(node)
            for p, rank in zip(members, (r for r in slots if r not in taken), strict=False):
                if p.rank is None:
                    p.rank, p.how = rank, "position, unsure"
    if not layout.node_of:
        notes.append(
            f"The bundles name no ranks: ranks were counted by position, {per_node} a node, nodes in the order of "
            "their names."
        )
    if unsure:
        notes.append(
            f"{', '.join(unsure[:4])}: fewer processes than expected, so which local rank is missing is not certain."
        )


_STATUS_ORDER = {OK: 0, "truncated": 1, FAILED: 2, "empty": 3}


def _rounds(found: list[Process]) -> tuple[list[Process], int]:
    """The same process dumped twice in one round (text and JSON) counts once; dumped again, it is another round."""
    seen: dict[tuple[int, str, int | None, str | None, int | None], list[Process]] = defaultdict(list)
    for p in found:
        seen[p.round, p.role, p.rank, p.node, p.dump.pid if p.role != TRAINER or p.rank is None else None].append(p)
    kept: list[Process] = []
    repeats = 0
    for (_, role, rank, _, pid), members in seen.items():
        if rank is None and pid is None:
            kept += members
            continue
        by_stem: dict[tuple[str, int], Process] = {}
        count: Counter[tuple[str, str]] = Counter()
        for p in members:
            nth = count[p.path, _stem(p.path)]
            count[p.path, _stem(p.path)] += 1
            at = (p.path.rpartition("/")[0] + "/" + _stem(p.path), nth if role == TRAINER else 0)
            earlier = by_stem.get(at)
            if earlier is None or (_STATUS_ORDER[p.dump.status], not p.dump.command) < (
                _STATUS_ORDER[earlier.dump.status],
                not earlier.dump.command,
            ):
                by_stem[at] = p
        for extra, p in enumerate(by_stem.values()):
            if extra:
                repeats = max(repeats, extra)
                p.round += extra
            kept.append(p)
    rounds = sorted({p.round for p in kept})
    renumber = {r: i for i, r in enumerate(rounds)}
    for p in kept:
        p.round = renumber[p.round]
    return kept, len(rounds)
