"""Makes the report's ``stacks`` object from all stack evidence of one job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from diagnosis import thresholds
from diagnosis.evidence.rank_names import ranks_text
from diagnosis.kinds.stacks.blame import collectives
from diagnosis.kinds.stacks.blame.blame import Blame
from diagnosis.kinds.stacks.blame.stack_report import Findings, to_report
from diagnosis.kinds.stacks.blame.voting import Outcome, decide, judge_round
from diagnosis.kinds.stacks.ranks.dump_sources import find_layout, keep_one_job, node_names, with_world
from diagnosis.kinds.stacks.ranks.dumped_processes import TRAINER, Process
from diagnosis.kinds.stacks.ranks.identify import census, host_directories, rank_and_node
from diagnosis.kinds.stacks.ranks.layout import Layout
from diagnosis.kinds.stacks.ranks.threads import odd_threads, odd_workers
from diagnosis.kinds.stacks.read import ras
from diagnosis.kinds.stacks.read.flight_recorder import expand_span
from diagnosis.kinds.stacks.read.stack_frames import Dump, unpack
from diagnosis.model import Kind, OnStage, Parsed, ignore_progress

#: Ranks that are missing are judged alike everywhere.
BLAME: Final = thresholds.of("blame")
THRESHOLDS: Final = thresholds.of("diagnose")
#: Files that could not be used are named one by one up to this number.
_MAX_UNUSABLE_LISTED = 12


def diagnose_stacks(
    parsed: Iterable[Parsed],
    *,
    layout: Mapping[str, Any] | Layout | None = None,
    inventory: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None = None,
    framework: str = "",
    world_size: int | None = None,
    protocol: Iterable[Any] = (),
    on_stage: OnStage = ignore_progress,
) -> dict[str, Any]:
    """Compare all ranks' stacks and name the ranks that the others wait for.

    :param parsed: artifacts of kind STACK; layouts and other kinds among them are used for names and sizes.
    :param layout: ``{"tp": 2, "pp": 4, "dp": 4, "order": "tp-dp-pp"}`` or a whole layout file; outranks every other
    source. :param inventory: rows ``{node, …}`` or ``{node: …}``: names by which nodes are recognised in paths. :param
    protocol: the state of each rank and process group from watchdog lines in the logs: objects with ``rank, group,
        seq, op, enqueued, completed`` (``diagnosis.kinds.logs.compare.detectors.watchdogs.State``).
    :returns: the report's ``stacks`` object plus ``suspects`` for the fusion; ``{}`` without stack evidence.
        Deterministic.

    Linear in processes and distinct frames; the wait-for graph is linear in ranks times distinct stacks per group.
    """
    every = list(parsed)
    artifacts = [p for p in every if p.kind == Kind.STACK]
    if not artifacts:
        return {}
    on_stage("stacks: identify ranks", 0, len(artifacts))
    items = [(p.path, unpack(p.facts)) for p in artifacts if p.facts.get("dumps")]
    plan = find_layout(every, _commands(items), layout, framework, world_size)
    known = [*node_names(every, inventory), *host_directories(p.path for p in artifacts)]
    people = census(items, plan, known)
    found = Findings(rounds=max(1, people.rounds), notes=list(people.notes))
    found.notes += _unusable_reasons(artifacts)[:_MAX_UNUSABLE_LISTED]
    trainers = keep_one_job([p for p in people.processes if p.role == TRAINER], found.notes)
    others = [p for p in people.processes if p.role != TRAINER]
    recorders = _recorders(artifacts, plan, known)
    recorded = [rank for rank, _, _ in recorders]
    states = list(chain.from_iterable(_states(p, plan, known) for p in artifacts))
    plan = _with_recorded_groups(with_world(plan, trainers, recorded), states)
    _note_unnamed(trainers, found.notes)
    found.notes[:0] = [*plan.problems, *plan.assumptions]
    found.layout = plan
    found.processes = _by_rank_and_round(trainers)
    found.artifacts = {rank: path for rank, _, path in recorders}
    found.node_of |= _nodes_of(trainers, recorders, plan)
    on_stage("stacks: compare", 0, people.rounds)
    if found.processes:
        _compare(found, others)
    on_stage("stacks: collectives", 0, len(recorders))
    states += _protocol(protocol)
    if states or recorders:
        _collectives(found, states, recorded)
    _accuse_by_ras(found, artifacts)
    return to_report(found)


def _commands(items: Iterable[tuple[str, Sequence[Dump]]]) -> list[str]:
    dumps = chain.from_iterable(dumps for _, dumps in items)
    return [dump.command for dump in dumps]


def _with_recorded_groups(plan: Layout, states: Sequence[collectives.State]) -> Layout:
    """A layout without sizes, with the process groups that Flight Recorder dumps state."""
    groups = {} if plan.sizes else collectives.parallel_groups(states)
    if not groups:
        return plan
    return replace(plan, listed=groups, source="process groups of the Flight Recorder dumps")


def _by_rank_and_round(trainers: Iterable[Process]) -> list[Process]:
    """The trainers with a rank."""
    ranked = [(p.rank, p.round, p) for p in trainers if p.rank is not None]
    return [p for _, _, p in sorted(ranked, key=lambda row: row[:2])]


def _accuse_by_ras(found: Findings, artifacts: Iterable[Parsed]) -> None:
    """Accuse whom NCCL's own reports accuse."""
    ordered = sorted(artifacts, key=lambda p: p.path)
    snapshots = [p.facts["ras"] for p in ordered if p.facts.get("ras")]
    for accused in ras.judge(snapshots, found.layout.world_size):
        found.accuse(accused.rank, accused.node or None, accused.score, accused.reason, "ras")


def _unusable_reasons(artifacts: Iterable[Parsed]) -> list[str]:
    return list(chain.from_iterable(map(_unusable_reason, artifacts)))


def _unusable_reason(p: Parsed) -> list[str]:
    """Why an artifact could not be used, for the reader; failed and empty dumps are counted elsewhere."""
    return (
        [f"{p.path}: {p.skipped}"] if p.skipped else [f"{p.path}: {note}" for note in p.notes if p.facts.get("damaged")]
    )


def _note_unnamed(trainers: Sequence[Process], notes: list[str]) -> None:
    unnamed = [p for p in trainers if p.rank is None]
    if unnamed:
        notes.append(
            f"{len(unnamed)} dump(s) could not be given to a rank (for example {unnamed[0].path}); "
            "name the files rank-<number> or add a layout file."
        )


def _nodes_of(
    trainers: Sequence[Process], recorders: Iterable[tuple[int, str | None, str]], plan: Layout
) -> dict[int, str]:
    """Node of each rank; of a rank without a dump, the node of the dumped ranks around it."""
    node_of = {p.rank: p.node for p in trainers if p.rank is not None and p.node} | dict(plan.node_of)
    node_of |= {rank: node for rank, node, _ in recorders if node}
    on: dict[str, list[int]] = {}
    for rank, node in node_of.items():
        on.setdefault(node, []).append(rank)
    size = max((len(v) for v in on.values()), default=0)
    blocks = {v[0] // size: n for n, v in on.items() if size and len({r // size for r in v}) == 1}
    if blocks and len(blocks) == len(on):
        for rank in range(plan.world_size or 0):
            if rank not in node_of and rank // size in blocks:
                node_of[rank] = blocks[rank // size]
    return node_of


def _compare(found: Findings, others: Sequence[Process]) -> None:
    rounds = [
        judge_round([p for p in found.processes if p.round == at], found.layout) for at in range(max(1, found.rounds))
    ]
    outcome: Outcome = decide([r for r in rounds if r.groups or r.failed or r.empty], found.layout)
    verdict = outcome.verdict
    if not verdict.ranks and verdict.rule in {"all_equal", "no_outlier"} and (workers := odd_workers(others)):
        verdict = Blame(
            tuple(workers),
            dict.fromkeys(workers, THRESHOLDS.worker),
            workers,
            tuple(workers),
            f"All trainers are alike, but a child process of {ranks_text(workers)} has a stack that no other has.",
            "worker",
        )
        outcome.verdict = verdict
    odd = odd_threads([*found.processes, *others], verdict.ranks[:64])
    for rank in verdict.ranks:
        found.accuse(rank, None, verdict.scores[rank], verdict.reasons[rank], "stacks")
        for reason in odd.get(rank, ()):
            found.accuse(rank, None, 0.0, reason, "stacks")
    found.outcome = outcome


def _recorders(artifacts: Sequence[Parsed], plan: Layout, known: Sequence[str]) -> list[tuple[int, str | None, str]]:
    rows = []
    for p in artifacts:
        if p.facts.get("flight_recorder"):
            rank, node = rank_and_node(p.path, plan, known)
            if rank is not None:
                rows.append((rank, node or plan.node_of.get(rank), p.path))
    return sorted(rows, key=lambda row: row[0])


def _states(p: Parsed, plan: Layout, known: Sequence[str]) -> list[collectives.State]:
    dump = p.facts.get("flight_recorder")
    rank = rank_and_node(p.path, plan, known)[0] if dump else None
    if not dump or rank is None:
        return []
    return [
        collectives.State(
            rank,
            g["name"],
            g["desc"],
            tuple(expand_span(g["ranks"])),
            g.get("enqueued", -1),
            g.get("completed", -1),
            g["open"],
            g["last"],
        )
        for g in dump["groups"]
    ]


def _protocol(rows: Iterable[Any]) -> Iterable[collectives.State]:
    for row in rows:
        done = -1 if row.completed is None else row.completed
        enqueued = row.enqueued if row.enqueued is not None else row.seq if row.seq is not None else -1
        entry = {"seq": row.seq, "p2p": False, "op": (row.op or "collective").lower(), "sizes": None}
        yield collectives.State(
            row.rank, f"log:{row.group}", row.group, (), enqueued, done, [entry] if row.seq is not None else []
        )


def _collectives(found: Findings, states: Sequence[collectives.State], dumped: Sequence[int]) -> None:
    verdict = collectives.compare(states, dumped=dumped)
    wrote = set(dumped)
    absent = [r for r in range(found.layout.world_size or 0) if r not in wrote] if dumped else []
    if absent and len(absent) <= BLAME.missing_share * len(dumped) and not verdict.ranks:
        for rank in absent:
            found.accuse(
                rank,
                None,
                THRESHOLDS.unwritten,
                "wrote no Flight Recorder dump although its peers did",
                "flight_recorder",
            )
    for rank, reason in verdict.ranks.items():
        is_sure = rank in verdict.device or rank in verdict.host
        score = THRESHOLDS.first if is_sure else THRESHOLDS.other
        # Watchdog lines come from the logs, which already weighed them.
        source, weight = ("flight_recorder", 1.0) if dumped else ("watchdog", THRESHOLDS.watchdog)
        found.accuse(rank, None, weight * score, reason, source)
    found.collectives = verdict
    found.recorded = sorted(set(dumped))
    found.unrecorded = absent
