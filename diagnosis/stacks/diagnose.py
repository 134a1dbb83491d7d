"""All stack evidence of one job in, the report's ``stacks`` object out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from diagnosis.model import Kind, OnStage, Parsed, silent
from diagnosis.stacks import blame as blaming
from diagnosis.stacks import evict
from diagnosis.stacks.cluster import Group, fold, group, icicle, icicle_rows
from diagnosis.stacks.frames import unpack
from diagnosis.stacks.identify import TRAINER, Process, census
from diagnosis.stacks.layout import Layout, build, from_json, from_text

_MAX_GROUPS = 200


def diagnose_stacks(
    parsed: Iterable[Parsed],
    *,
    layout: Mapping[str, Any] | Layout | None = None,
    inventory: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None = None,
    framework: str = "",
    world_size: int | None = None,
    on_stage: OnStage = silent,
) -> dict[str, Any]:
    """Compare all ranks' stacks and name who the others wait for.

    :param parsed: artifacts of kind STACK; layouts and other kinds among them are used for names and sizes.
    :param layout: ``{"tp": 2, "pp": 4, "dp": 4, "order": "tp-dp-pp"}`` or a whole layout file; wins over everything
        found.
    :param inventory: rows ``{node, …}`` or ``{node: …}``: names by which nodes are recognised in paths.
    :returns: the report's ``stacks`` object plus ``suspects`` for the fusion; ``{}`` without stack evidence.
        Deterministic.

    Linear in processes and distinct frames; the wait-for graph is linear in ranks times distinct stacks per group.
    """
    every = list(parsed)
    stacks = [p for p in every if p.kind == Kind.STACK]
    if not stacks:
        return {}
    on_stage("stacks: identify ranks", 0, len(stacks))
    items = [(p.path, unpack(p.facts)) for p in stacks if p.facts.get("dumps")]
    plan = find_layout(every, [d.command for _, dumps in items for d in dumps], layout, framework, world_size)
    people = census(items, plan, node_names(every, inventory))
    notes = [*plan.problems, *plan.assumed, *people.notes]
    trainers = [p for p in people.processes if p.role == TRAINER]
    trainers = _one_job(trainers, notes)
    unnamed = [p for p in trainers if p.rank is None]
    if unnamed:
        notes.append(
            f"{len(unnamed)} dump(s) could not be given to a rank (for example {unnamed[0].path}); name the files "
            "rank-<number> or add a layout file."
        )
    plan = _world(plan, trainers)
    on_stage("stacks: compare", 0, people.rounds)
    return _report(plan, trainers, people.rounds, notes)


def find_layout(
    parsed: Iterable[Parsed],
    commands: Iterable[str],
    given: Mapping[str, Any] | Layout | None,
    framework: str = "",
    world_size: int | None = None,
) -> Layout:
    """The layout from, in this order: the caller, a layout file, the configuration that logs print, the dumped
    command lines."""
    if isinstance(given, Layout):
        return given
    files = [p.facts for p in parsed if p.kind == Kind.LAYOUT]
    for source, data in [("given", given), *(("layout file", f.get("json") or f) for f in files)]:
        if data:
            found = from_json(data, framework=framework, source=source)
            if found.sizes or found.node_of:
                return found if found.world_size or not world_size else replace(found, world_size=world_size)
    for p in parsed:
        configuration = p.facts.get("configuration") if p.kind == Kind.LOG else None
        if isinstance(configuration, Mapping):
            found = from_json(configuration, framework=framework, source=f"configuration printed in {p.path}")
            if found.sizes:
                return found
    for command, _ in Counter(c for c in commands if c).most_common(3):
        told = from_text(command, world_size=world_size, framework=framework, source="command line")
        if told is not None:
            return told
    return build({}, world_size=world_size, source="")


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


def _one_job(trainers: list[Process], notes: list[str]) -> list[Process]:
    """Dumps of two jobs in one upload: the same rank on two nodes at once. The larger job is kept, and that is said."""
    holders: dict[tuple[int, int], set[str]] = {}
    for p in trainers:
        if p.rank is not None and p.node:
            holders.setdefault((p.round, p.rank), set()).add(p.node)
    double = {key for key, nodes in holders.items() if len(nodes) > 1}
    if not double:
        return trainers
    commands = Counter(p.dump.command for p in trainers if p.dump.command)
    if len(commands) > 1:
        main = commands.most_common(1)[0][0]
        nodes = {p.node for p in trainers if p.dump.command == main}
        kept = [p for p in trainers if p.dump.command == main or (not p.dump.command and p.node in nodes)]
        if not {(p.round, p.rank) for p in kept if _shared(kept, p)}:
            notes.append(
                f"The dumps are of two jobs: {len(double)} rank(s) appear on two nodes with different command lines. "
                f"The larger job ({len(kept)} of {len(trainers)} dumps, nodes "
                f"{', '.join(sorted(n for n in nodes if n)[:6])}) is diagnosed; upload the other apart."
            )
            return kept
    notes.append(
        f"Rank {fold(r for _, r in double)} was dumped on more than one node: two jobs together, or ranks counted "
        "per node. "
        "Add a layout file or upload one job at a time."
    )
    seen: set[tuple[int, int | None]] = set()
    kept = []
    for p in trainers:
        if p.rank is None or (p.round, p.rank) not in seen:
            kept.append(p)
            seen.add((p.round, p.rank))
    return kept


def _shared(kept: Sequence[Process], one: Process) -> bool:
    return any(p.rank == one.rank and p.round == one.round and p.node != one.node for p in kept)


def _world(plan: Layout, trainers: Sequence[Process]) -> Layout:
    """Fill in the world size from the dumps where nothing told it; a gap at the end cannot be seen then."""
    highest = max((p.rank for p in trainers if p.rank is not None), default=-1) + 1
    if plan.world_size and highest <= plan.world_size:
        if plan.sizes and not plan.problems and not plan.coordinates and "dp" not in plan.sizes:
            return build(plan.sizes, world_size=plan.world_size, order=plan.order, source=plan.source)
        return plan
    fixed = plan.sizes and not plan.problems
    dims = {d: n for d, n in plan.sizes.items() if d != "dp"} if fixed else {}
    per_node = Counter(p.node for p in trainers if p.node and p.rank is not None and p.round == 0)
    size = highest
    if per_node:
        size = max(highest, max(per_node.values()) * len(per_node))
    known = (
        build(dims, world_size=size, order=plan.order, source=plan.source)
        if dims
        else replace(plan, world_size=size or None)
    )
    return replace(
        known,
        node_of=plan.node_of,
        rank_of=plan.rank_of,
        coordinates=plan.coordinates,
        problems=(*plan.problems, *known.problems) if known is not plan else plan.problems,
        assumed=plan.assumed,
    )


def _report(plan: Layout, trainers: list[Process], rounds: int, notes: list[str]) -> dict[str, Any]:
    results = []
    for at in range(max(1, rounds)):
        mine = [p for p in trainers if p.round == at and p.rank is not None]
        groups, failed, empty = group(mine)
        seen = {p.rank for p in mine}
        missing = [r for r in range(plan.world_size or 0) if r not in seen]
        results.append(
            (
                groups,
                failed,
                empty,
                missing,
                blaming.blame(groups, plan, missing=missing, empty=empty, expected=plan.world_size or 0),
            )
        )
    groups, failed, empty, missing, verdict = max(
        results, key=lambda r: (sum(len(g.ranks) for g in r[0]), bool(r[4].ranks))
    )
    found = evict.candidates(verdict.outliers, plan) if verdict.ranks else []
    node_of = dict(plan.node_of) | {p.rank: p.node for p in trainers if p.rank is not None and p.node}
    if plan.node_of:
        node_of |= plan.node_of
    evict_ranks = sorted({*(found[0].ranks if found else verdict.outliers if verdict.ranks else ()), *verdict.ranks})
    if missing:
        share = f"{len(missing)} of {plan.world_size}"
        notes.append(
            f"No dump of rank {fold(missing)} ({share} ranks)." if len(missing) <= 64 else f"No dump of {share} ranks."
        )
    if failed:
        notes.append(f"The dump of rank {fold(failed)} failed in the tool itself; that says nothing of the rank.")
    best = found[0] if found else None
    return {
        "suspect_ranks": list(verdict.ranks),
        "suspect_nodes": _nodes(verdict.ranks, node_of),
        "evict_ranks": evict_ranks,
        "evict_nodes": _nodes(evict_ranks, node_of),
        "groups": [_group_row(g) for g in groups[:_MAX_GROUPS]],
        "missing_ranks": missing,
        "failed_ranks": failed,
        "empty_ranks": empty,
        "outlier_ranks": list(verdict.outliers),
        "reason": verdict.reason,
        "rule": verdict.rule,
        "rounds": rounds,
        "explained_by": None if best is None else _candidate_row(best, plan),
        "candidates": [_candidate_row(c, plan) for c in found],
        "tie": [_candidate_row(c, plan) for c in evict.ties(found)],
        "layout": {**plan.sizes, "order": plan.order, "world_size": plan.world_size, "source": plan.source},
        "notes": notes,
        "icicle": icicle_rows(icicle(groups)),
        "ranks": [
            {
                "rank": p.rank,
                "node": node_of.get(p.rank or 0),
                "path": p.path,
                "line": p.dump.line,
                "round": p.round,
                "status": p.dump.status,
            }
            for p in sorted((p for p in trainers if p.rank is not None), key=lambda p: (p.rank or 0, p.round))
        ],
        "suspects": _suspects(verdict, node_of),
    }


def _group_row(g: Group) -> dict[str, Any]:
    return {
        "ranks": g.ranks,
        "folded": fold(g.ranks),
        "frames": list(g.key),
        "dominant": g.dominant,
        "activity": g.activity.kind,
        "what": g.activity.what,
    }


def _candidate_row(c: evict.Candidate, plan: Layout) -> dict[str, Any]:
    return {
        "kind": c.kind,
        "groups": [fold(g) for g in c.groups[:16]],
        "ranks": len(c.ranks),
        "score": c.score,
        "coverage": round(c.coverage, 4),
        "precision": round(c.precision, 4),
    }


def _nodes(ranks: Iterable[int], node_of: Mapping[int, str]) -> list[str]:
    return list(dict.fromkeys(node_of[r] for r in ranks if r in node_of))


def _suspects(verdict: blaming.Blame, node_of: Mapping[int, str]) -> list[dict[str, Any]]:
    """For the fusion: each rank, and each node with the best of its ranks."""
    rows: list[dict[str, Any]] = []
    nodes: dict[str, dict[str, Any]] = {}
    for rank in verdict.ranks:
        reason = f"rank {rank} {verdict.reasons[rank]}"
        rows.append(
            {
                "entity": f"rank {rank}",
                "kind": "rank",
                "score": verdict.scores[rank],
                "from": ["stacks"],
                "reasons": [reason],
                "node": node_of.get(rank),
            }
        )
        if rank in node_of:
            node = nodes.setdefault(
                node_of[rank],
                {"entity": node_of[rank], "kind": "node", "score": 0.0, "from": ["stacks"], "reasons": []},
            )
            node["score"] = max(node["score"], verdict.scores[rank])
            if len(node["reasons"]) < 4:
                node["reasons"].append(reason)
    return [*nodes.values(), *rows]
