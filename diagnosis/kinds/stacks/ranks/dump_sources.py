"""The context of the stacks: the layout, the nodes' names, and the job of the dumps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from diagnosis import numbers
from diagnosis.evidence.rank_names import fold_ranks
from diagnosis.kinds.stacks.ranks.dumped_processes import Process
from diagnosis.kinds.stacks.ranks.layout import Layout, build, from_json, from_text
from diagnosis.model import Kind, Parsed


def find_layout(
    parsed: Sequence[Parsed],
    commands: Iterable[str],
    given: Mapping[str, Any] | Layout | None,
    framework: str = "",
    world_size: int | None = None,
) -> Layout:
    """The layout from, in this order: the caller, a layout file, the configuration that logs print, the dumped
    command lines."""
    if isinstance(given, Layout):
        return given
    files = [dict(p.facts.get("json") or p.facts) for p in parsed if p.kind == Kind.LAYOUT]
    stated = {k: v for k, v in dict(given or {}).items() if v not in (None, "", 0)}
    details = _details(files, world_size)
    for source, data in [("given", stated), *(("layout file", file) for file in files)]:
        found = _layout_of(data, details, framework, source)
        if found is not None:
            return found if found.world_size or not world_size else replace(found, world_size=world_size)
    printed = "\n".join(_configuration_lines(parsed))
    texts = [("configuration in the log", printed)]
    common = Counter(command for command in commands if command).most_common(3)
    texts += [("command line", command) for command, _ in common]
    for source, text in texts:
        found = from_text(text, world_size=world_size, framework=framework, source=source)
        if found is not None:
            return found
    return build({}, world_size=world_size, source="")


def _details(files: Sequence[Mapping[str, Any]], world_size: int | None) -> dict[str, Any]:
    """What layout files list: a caller's layout rarely has the nodes and process ids of a file with the same sizes."""
    details: dict[str, Any] = {}
    for file in files:
        listed = {key: file[key] for key in ("ranks", "world_size") if file.get(key)}
        details = listed | details
    if world_size:
        details.setdefault("world_size", world_size)
    return details


def _layout_of(data: Mapping[str, Any], details: Mapping[str, Any], framework: str, source: str) -> Layout | None:
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
    for table in tables:
        if table.exists() and len(found) < limit:
            rows = (
                pl.scan_parquet(table)
                .filter(pl.col("example").str.contains(r"(?i)parallel|world[_ -]?size"))
                .select("example")
            )
            found += rows.head(limit).collect()["example"].to_list()
    return found[:limit]


def node_names(
    parsed: Iterable[Parsed], inventory: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None
) -> list[str]:
    """Names of nodes from an inventory in either shape and from inventory artifacts."""
    names: list[str] = []
    sources: list[Any] = [
        inventory,
        *(p.facts.get("rows") or (p.facts.get("json") or {}).get("nodes") for p in parsed if p.kind == Kind.INVENTORY),
    ]
    for source in sources:
        if isinstance(source, Mapping):
            names += [str(n) for n in source]
        elif isinstance(source, (list, tuple)):
            names += [
                str(row.get("node") or row.get("name"))
                for row in source
                if isinstance(row, Mapping) and (row.get("node") or row.get("name"))
            ]
            names += [row for row in source if isinstance(row, str)]
    return names


def keep_one_job(trainers: list[Process], notes: list[str]) -> list[Process]:
    """Dumps of two jobs in one upload: the same rank on two nodes at once. The larger job is kept, and a note says
    so.
    """
    double = _shared_ranks(trainers)
    if not double:
        return trainers
    commands = Counter(p.dump.command for p in trainers if p.dump.command)
    if len(commands) > 1:
        main = commands.most_common(1)[0][0]
        nodes = {p.node for p in trainers if p.dump.command == main}
        kept = [p for p in trainers if p.dump.command == main or (not p.dump.command and p.node in nodes)]
        if not _shared_ranks(kept):
            notes.append(
                f"The dumps are of two jobs: {len(double)} rank(s) appear on two nodes with different command lines. "
                f"The larger job ({len(kept)} of {len(trainers)} dumps, nodes "
                f"{', '.join(sorted(n for n in nodes if n)[:6])}) is diagnosed; upload the other apart."
            )
            return kept
    notes.append(
        f"Rank {fold_ranks(r for _, r in double)} was dumped on more than one node: two jobs together, or ranks "
        "counted per node. Add a layout file or upload one job at a time."
    )
    seen: set[tuple[int, int | None]] = set()
    kept = []
    for p in trainers:
        if p.rank is None or (p.round, p.rank) not in seen:
            kept.append(p)
            seen.add((p.round, p.rank))
    return kept


def _shared_ranks(trainers: Iterable[Process]) -> set[tuple[int, int]]:
    """(round, rank) that were dumped on more than one node."""
    holders: dict[tuple[int, int], set[str]] = {}
    for p in trainers:
        if p.rank is not None and p.node:
            holders.setdefault((p.round, p.rank), set()).add(p.node)
    return {key for key, nodes in holders.items() if len(nodes) > 1}


def with_world(plan: Layout, trainers: Sequence[Process], recorded: Sequence[int] = ()) -> Layout:
    """Take the world size from the dumps if nothing states it; missing ranks at the end are then not noticed."""
    ranks = [p.rank for p in trainers if p.rank is not None] + list(recorded)
    highest = max(ranks, default=-1) + 1
    if plan.world_size and highest <= plan.world_size:
        return plan
    per_node = Counter(p.node for p in trainers if p.node and p.rank is not None and p.round == 0)
    size = max(highest, max(per_node.values()) * len(per_node)) if per_node else highest
    # one full node among very many does not represent the others
    size = size if size <= numbers.MAX_RANKS else highest
    if plan.problems or not plan.sizes:
        return replace(plan, world_size=size or None)
    problems: tuple[str, ...] = ()
    dims = {d: n for d, n in plan.sizes.items() if d != "dp" or plan.world_size}
    known = build(dims, world_size=size, order=plan.order, source=plan.source)
    if plan.world_size:
        problems = (
            f"Rank {highest - 1} was dumped, but the layout has {plan.world_size} ranks: it is not of this job.",
        )
    return replace(
        known,
        node_of=plan.node_of,
        rank_of=plan.rank_of,
        coordinates=plan.coordinates,
        expert_tp=plan.expert_tp,
        problems=(*problems, *known.problems),
        assumptions=plan.assumptions,
    )
