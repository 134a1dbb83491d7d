"""The context of the stacks: the layout, the nodes' names, and the job of the dumps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from diagnosis.evidence.rank_names import fold_ranks
from diagnosis.kinds.stacks.ranks.dumped_processes import Process, with_ranks
from diagnosis.kinds.stacks.ranks.layout import Layout, build, from_json, from_text
from diagnosis.model import Kind, Parsed
from diagnosis.values import numbers
from diagnosis.values.json_values import Json, JsonObject

#: Command lines in which a layout is looked for, the most frequent first.
_MAX_COMMANDS: Final = 3
_MAX_NODES_LISTED: Final = 6


def find_layout(
    parsed: Sequence[Parsed],
    commands: Iterable[str],
    given: JsonObject | Layout | None,
    framework: str = "",
    world_size: int | None = None,
) -> Layout:
    """The layout from, in this order: the caller, a layout file, the configuration that logs print, the dumped
    command lines."""
    if isinstance(given, Layout):
        return given
    found = _listed_layout(parsed, given or {}, framework, world_size)
    if found is None:
        found = _printed_layout(parsed, commands, framework, world_size)
    return found or build({}, world_size=world_size, source="")


def _listed_layout(
    parsed: Iterable[Parsed], given: JsonObject, framework: str, world_size: int | None
) -> Layout | None:
    """The layout of the caller, else of a layout file."""
    files = [dict(p.facts.get("json") or p.facts) for p in parsed if p.kind == Kind.LAYOUT]
    details = _details(files, world_size)
    stated = {key: value for key, value in given.items() if value not in (None, "", 0)}
    listed = [_layout_of(stated, details, framework, "given")]
    listed += [_layout_of(file, details, framework, "layout file") for file in files]
    found = next(filter(None, listed), None)
    if found is None or found.world_size:
        return found
    return replace(found, world_size=world_size or found.world_size)


def _printed_layout(
    parsed: Iterable[Parsed], commands: Iterable[str], framework: str, world_size: int | None
) -> Layout | None:
    """The layout that logs print, else that of the most frequent command lines."""
    frequent = Counter(filter(None, commands)).most_common(_MAX_COMMANDS)
    texts = [("configuration in the log", "\n".join(_configuration_lines(parsed)))]
    texts += [("command line", command) for command, _ in frequent]
    for source, text in texts:
        found = from_text(text, world_size=world_size, framework=framework, source=source)
        if found is not None:
            return found
    return None


def _details(files: Sequence[JsonObject], world_size: int | None) -> dict[str, Json]:
    """What layout files list: a caller's layout rarely has the nodes and process ids of a file with the same sizes."""
    details: dict[str, Json] = {}
    for file in files:
        listed = {key: file[key] for key in ("ranks", "world_size") if file.get(key)}
        details = listed | details
    if world_size:
        details.setdefault("world_size", world_size)
    return details


def _layout_of(data: JsonObject, details: JsonObject, framework: str, source: str) -> Layout | None:
    """The layout of a file or a caller; None if it states no sizes and no nodes."""
    if not data:
        return None
    stated = {key: value for key, value in data.items() if value}
    found = from_json({**details, **stated}, framework=framework, source=source)
    return found if found.sizes or found.node_of else None


def _configuration_lines(parsed: Iterable[Parsed], *, limit: int = 400) -> list[str]:
    """Log lines with parallel sizes, one a distinct message, from the tables of unique messages. A few artifacts are
    enough: every rank prints the same configuration, or only rank 0 does. Small logs have a table in common.
    """
    import polars as pl  # noqa: PLC0415 (web processes import this package and never read tables)

    found: list[str] = []
    tables = dict.fromkeys(p.uniques for p in parsed if p.kind == Kind.LOG and p.uniques is not None)
    states_sizes = pl.col("example").str.contains(r"(?i)parallel|world[_ -]?size")
    for table in filter(Path.exists, tables):
        rows = pl.scan_parquet(table).filter(states_sizes).select("example")
        found += rows.head(limit - len(found)).collect()["example"].to_list()
    return found


def node_names(parsed: Iterable[Parsed], given: Sequence[str]) -> list[str]:
    """Names of nodes from the caller and from inventory artifacts."""
    names = list(given)
    for p in parsed:
        if p.kind == Kind.INVENTORY:
            stored = p.facts.get("json") or {}
            names += _names_in(p.facts.get("rows") or stored.get("nodes"))
    return names


def _names_in(inventory: Any) -> list[str]:
    """The nodes of ``{name: …}``, of rows ``{node, …}`` or ``{name, …}``, and of a list of names."""
    if isinstance(inventory, Mapping):
        return [str(name) for name in inventory]
    if not isinstance(inventory, list | tuple):
        return []
    rows = [row for row in inventory if isinstance(row, Mapping)]
    named = [row.get("node") or row.get("name") for row in rows]
    return [*map(str, filter(None, named)), *(row for row in inventory if isinstance(row, str))]


def keep_one_job(trainers: list[Process], notes: list[str]) -> list[Process]:
    """Keeps the larger of two jobs that dumped one rank on two nodes, and notes it."""
    double = _shared_ranks(trainers)
    if not double:
        return trainers
    largest = _largest_job(trainers)
    if len(largest) < len(trainers) and not _shared_ranks(largest):
        notes.append(_note_on_jobs(largest, len(trainers), len(double)))
        return largest
    ranks = fold_ranks(rank for _, rank in double)
    notes.append(
        f"Rank {ranks} was dumped on more than one node: two jobs together, or ranks "
        "counted per node. Add a layout file or upload one job at a time."
    )
    return _first_of_each_rank(trainers)


def _largest_job(trainers: Sequence[Process]) -> list[Process]:
    """The processes of the most frequent command line, and nameless ones on its nodes."""
    commands = Counter(p.dump.command for p in trainers if p.dump.command)
    if len(commands) < 2:
        return list(trainers)
    command = commands.most_common(1)[0][0]
    nodes = {p.node for p in trainers if p.dump.command == command}
    return [p for p in trainers if p.dump.command == command or (not p.dump.command and p.node in nodes)]


def _note_on_jobs(kept: Sequence[Process], dump_count: int, double_count: int) -> str:
    nodes = sorted({p.node for p in kept if p.node})
    return (
        f"The dumps are of two jobs: {double_count} rank(s) appear on two nodes with different command lines. "
        f"The larger job ({len(kept)} of {dump_count} dumps, nodes "
        f"{', '.join(nodes[:_MAX_NODES_LISTED])}) is diagnosed; upload the other apart."
    )


def _first_of_each_rank(trainers: Iterable[Process]) -> list[Process]:
    kept: dict[object, Process] = {}
    for p in trainers:
        is_of = id(p) if p.rank is None else (p.round, p.rank)
        kept.setdefault(is_of, p)
    return list(kept.values())


def _shared_ranks(trainers: Iterable[Process]) -> set[tuple[int, int]]:
    """(round, rank) that were dumped on more than one node."""
    holders: dict[tuple[int, int], set[str]] = defaultdict(set)
    for rank, p in with_ranks(trainers):
        holders[p.round, rank].update(filter(None, [p.node]))
    return {key for key, nodes in holders.items() if len(nodes) > 1}


def with_world(plan: Layout, trainers: Sequence[Process], recorded: Sequence[int] = ()) -> Layout:
    """Take the world size from the dumps if nothing states it; missing ranks at the end are then not noticed."""
    dumped = [rank for rank, _ in with_ranks(trainers)]
    ranks = max([*dumped, *recorded], default=-1) + 1
    if plan.world_size and ranks <= plan.world_size:
        return plan
    size = _dumped_world_size(trainers, ranks)
    if plan.problems or not plan.sizes:
        return replace(plan, world_size=size or None)
    # a dp that nothing states follows from the world size
    sizes = {dim: n for dim, n in plan.sizes.items() if dim != "dp" or plan.world_size}
    resized = build(sizes, world_size=size, order=plan.order, source=plan.source)
    problem = f"Rank {ranks - 1} was dumped, but the layout has {plan.world_size} ranks: it is not of this job."
    return replace(
        resized,
        node_of=plan.node_of,
        rank_of=plan.rank_of,
        coordinates=plan.coordinates,
        expert_tp=plan.expert_tp,
        problems=(problem, *resized.problems) if plan.world_size else resized.problems,
        assumptions=plan.assumptions,
    )


def _dumped_world_size(trainers: Iterable[Process], ranks: int) -> int:
    """As many ranks on each node as on the fullest, ``ranks`` at least."""
    first_round = [p for _, p in with_ranks(trainers) if p.round == 0]
    per_node = Counter(filter(None, [p.node for p in first_round]))
    full = max(per_node.values(), default=0) * len(per_node)
    size = max(ranks, full)
    # one full node among very many does not represent the others
    return size if size <= numbers.MAX_RANKS else ranks
