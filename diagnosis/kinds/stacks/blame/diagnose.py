"""Makes the report's ``stacks`` object from all stack evidence of one job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from diagnosis import thresholds
from diagnosis.evidence.rank_names import ranks_text
from diagnosis.kinds.stacks.blame import ras_accusations
from diagnosis.kinds.stacks.blame.accusations import Findings
from diagnosis.kinds.stacks.blame.blame import Blame
from diagnosis.kinds.stacks.blame.collectives import State, compare, parallel_groups
from diagnosis.kinds.stacks.blame.stack_report import StackReport, report_of
from diagnosis.kinds.stacks.blame.voting import Outcome, decide, judge_round
from diagnosis.kinds.stacks.ranks.dump_sources import find_layout, keep_one_job, node_names, with_world
from diagnosis.kinds.stacks.ranks.dumped_processes import TRAINER, Process, with_ranks
from diagnosis.kinds.stacks.ranks.identify import census, host_directories, rank_and_node
from diagnosis.kinds.stacks.ranks.layout import Layout
from diagnosis.kinds.stacks.ranks.threads import odd_threads, odd_workers
from diagnosis.kinds.stacks.ranks.waits import COMM, activity
from diagnosis.kinds.stacks.read.stack_frames import Dump, unpack
from diagnosis.kinds.stacks.recorded.flight_recorder import Collective, Recording, expand_span
from diagnosis.kinds.stacks.recorded.ras_report import RasReport
from diagnosis.kinds.stacks.recorded.recorder_analysis import RecorderAnalysis
from diagnosis.model import Kind, OnStage, Parsed, ignore_progress
from diagnosis.values.json_values import JsonObject

#: Ranks that are missing are judged alike everywhere.
BLAME: Final = thresholds.of("blame")
THRESHOLDS: Final = thresholds.of("diagnose")
#: Files that could not be used are named one by one up to this number.
_MAX_UNUSABLE_LISTED = 12
#: Accused ranks whose other threads are compared with those of their peers.
MAX_ODD_THREADS = 64


class WatchedRank(Protocol):
    """A rank in a process group, as watchdog lines tell; counters are None if unknown."""

    @property
    def rank(self) -> int: ...
    @property
    def group(self) -> str: ...
    @property
    def seq(self) -> int | None: ...
    @property
    def op(self) -> str | None: ...
    @property
    def enqueued(self) -> int | None: ...
    @property
    def completed(self) -> int | None: ...


class _Recorder(msgspec.Struct, frozen=True):
    """One Flight Recorder dump with its identity."""

    rank: int
    node: str | None
    path: str
    recording: Recording


def diagnose_stacks(
    parsed: Iterable[Parsed],
    *,
    layout: JsonObject | Layout | None = None,
    nodes: Sequence[str] = (),
    framework: str = "",
    world_size: int | None = None,
    protocol: Iterable[WatchedRank] = (),
    on_stage: OnStage = ignore_progress,
) -> StackReport | None:
    """Compare all ranks' stacks and name the ranks that the others wait for.

    :param parsed: artifacts of kind STACK; layouts and other kinds among them are used for names and sizes.
    :param layout: ``{"tp": 2, "pp": 4, "dp": 4, "order": "tp-dp-pp"}`` or a whole layout file; outranks every other
        source.
    :param nodes: names of nodes that paths may hold.
    :param protocol: the state of each rank and process group from watchdog lines in the logs.
    :returns: the report's ``stacks`` object plus ``suspects`` for the fusion; None without stack
        evidence of a hang. Deterministic.

    Linear in processes and distinct frames; the wait-for graph is linear in ranks times distinct stacks per group.
    """
    every = list(parsed)
    artifacts = [p for p in every if p.kind == Kind.STACK]
    if all(map(_shows_no_hang, artifacts)):
        return None
    on_stage("stacks: identify ranks", 0, len(artifacts))
    items = _dumps_of(artifacts)
    plan = find_layout(every, _commands(items), layout, framework, world_size)
    known = [*node_names(every, nodes), *host_directories(p.path for p in artifacts)]
    people = census(items, plan, known)
    found = Findings(rounds=max(1, people.rounds), notes=list(people.notes))
    found.notes += _notes_on_unusable(artifacts)
    trainers = keep_one_job([p for p in people.processes if p.role == TRAINER], found.notes)
    others = [p for p in people.processes if p.role != TRAINER]
    recorders = _recorders(artifacts, plan, known)
    recorded = [recorder.rank for recorder in recorders]
    states = list(_recorded_states(recorders))
    plan = _with_recorded_groups(with_world(plan, trainers, recorded), states)
    _note_unnamed(trainers, found.notes)
    found.notes[:0] = [*plan.problems, *plan.assumptions]
    found.layout = plan
    found.common_wait = _common_wait(trainers)
    found.processes = _by_rank_and_round(trainers)
    found.node_of |= _nodes_of(trainers, recorders, plan)
    on_stage("stacks: compare", 0, people.rounds)
    if found.processes:
        _compare(found, others)
    on_stage("stacks: collectives", 0, len(recorders))
    states += map(_watched_state, protocol)
    if states or recorders:
        _compare_collectives(found, states, recorded)
    _accuse_by_ras(found, artifacts)
    return report_of(found)


def _shows_no_hang(artifact: Parsed) -> bool:
    """Whether a file is a report of NCCL in which all is well."""
    stored = artifact.facts.get("ras")
    return bool(stored) and msgspec.convert(stored, RasReport).is_sound()


def _dumps_of(artifacts: Iterable[Parsed]) -> list[tuple[str, list[Dump]]]:
    """The dumps in each file that has some."""
    return [(p.path, unpack(p.facts)) for p in artifacts if p.facts.get("dumps")]


def _commands(items: Iterable[tuple[str, Sequence[Dump]]]) -> list[str]:
    dumps = chain.from_iterable(dumps for _, dumps in items)
    return [dump.command for dump in dumps]


def _with_recorded_groups(plan: Layout, states: Sequence[State]) -> Layout:
    """A layout without sizes, with the process groups that Flight Recorder dumps state."""
    groups = {} if plan.sizes else parallel_groups(states)
    if not groups:
        return plan
    return replace(plan, listed=groups, source="process groups of the Flight Recorder dumps")


def _common_wait(trainers: Iterable[Process]) -> str:
    """What the processes do if all wait for peers: people dump the stacks of hung jobs."""
    mains = [p.dump.main() for p in trainers]
    found = [activity(main.frames) for main in mains if main is not None]
    return found[0].what if found and all(one.kind == COMM for one in found) else ""


def _by_rank_and_round(trainers: Iterable[Process]) -> list[Process]:
    """The trainers with a rank."""
    ordered = sorted(with_ranks(trainers), key=lambda row: (row[0], row[1].round))
    return [p for _, p in ordered]


def _accuse_by_ras(found: Findings, artifacts: Iterable[Parsed]) -> None:
    """Accuse whom NCCL's own reports accuse."""
    ordered = sorted(artifacts, key=lambda p: p.path)
    stored = [p.facts["ras"] for p in ordered if p.facts.get("ras")]
    snapshots = msgspec.convert(stored, list[RasReport])
    for accused in ras_accusations.judge(snapshots, found.layout.world_size):
        found.accuse(accused.rank, accused.node or None, accused.score, accused.reason, "ras")
    found.ahead = ras_accusations.ranks_ahead(snapshots)
    if found.ahead and not found.accused:
        found.common_wait = "behind a few others"


def _notes_on_unusable(artifacts: Iterable[Parsed]) -> list[str]:
    """Why files could not be used: failed and empty dumps are counted elsewhere."""
    notes = [f"{p.path}: {p.skipped}" for p in artifacts if p.skipped]
    return notes[:_MAX_UNUSABLE_LISTED]


def _note_unnamed(trainers: Sequence[Process], notes: list[str]) -> None:
    unnamed = [p for p in trainers if p.rank is None]
    if unnamed:
        notes.append(
            f"{len(unnamed)} dump(s) could not be given to a rank (for example {unnamed[0].path}); "
            "name the files rank-<number> or add a layout file."
        )


def _nodes_of(trainers: Iterable[Process], recorders: Iterable[_Recorder], plan: Layout) -> dict[int, str]:
    """Node of each rank; of a rank without a dump, the node of the dumped ranks around it."""
    node_of = {rank: p.node for rank, p in with_ranks(trainers) if p.node}
    node_of |= plan.node_of
    node_of |= {recorder.rank: recorder.node for recorder in recorders if recorder.node}
    return _nodes_of_blocks(node_of, plan.world_size or 0) | node_of


def _nodes_of_blocks(node_of: Mapping[int, str], world_size: int) -> dict[int, str]:
    """Each rank's node, if nodes have blocks of neighbouring ranks; else nothing. O(world)."""
    ranks_on: dict[str, list[int]] = defaultdict(list)
    for rank, node in node_of.items():
        ranks_on[node].append(rank)
    size = max(map(len, ranks_on.values()), default=1)
    node_of_block: dict[int, str] = {}
    for node, ranks in ranks_on.items():
        blocks = {rank // size for rank in ranks}
        if len(blocks) > 1 or blocks & node_of_block.keys():
            return {}
        node_of_block[blocks.pop()] = node
    return {rank: node_of_block[rank // size] for rank in range(world_size) if rank // size in node_of_block}


def _compare(found: Findings, others: Sequence[Process]) -> None:
    """Judge the rounds of the trainers' dumps, and accuse the ranks that they name."""
    of_round: dict[int, list[Process]] = defaultdict(list)
    for p in found.processes:
        of_round[p.round].append(p)
    rounds = [judge_round(of_round[number], found.layout) for number in range(found.rounds)]
    outcome = decide([one for one in rounds if one.has_dumps], found.layout)
    found.outcome = _with_workers(outcome, others)
    verdict = found.outcome.verdict
    threads_of = odd_threads([*found.processes, *others], verdict.ranks[:MAX_ODD_THREADS])
    for rank in verdict.ranks:
        found.accuse(rank, None, verdict.scores[rank], verdict.reasons[rank], "stacks")
        for reason in threads_of.get(rank, ()):
            found.accuse(rank, None, 0.0, reason, "stacks")


def _with_workers(outcome: Outcome, others: Sequence[Process]) -> Outcome:
    """If the trainers show nothing: whose child process differs from that of its peers."""
    if outcome.verdict.ranks or outcome.verdict.rule not in {"all_equal", "no_outlier"}:
        return outcome
    reasons = odd_workers(others)
    if not reasons:
        return outcome
    ranks = tuple(reasons)
    sentence = f"All trainers are alike, but a child process of {ranks_text(ranks)} has a stack that no other has."
    scores = dict.fromkeys(ranks, THRESHOLDS.worker)
    return replace(outcome, verdict=Blame(ranks, scores, reasons, ranks, sentence, "worker"))


def _recorders(artifacts: Iterable[Parsed], plan: Layout, known: Sequence[str]) -> list[_Recorder]:
    """The recordings whose rank is known, in order, and what was analysed of dumps."""
    found: list[_Recorder] = []
    for p in artifacts:
        if stored := p.facts.get("recorder_analysis"):
            analysis = msgspec.convert(stored, RecorderAnalysis)
            of_ranks = analysis.recordings().items()
            found += [_Recorder(rank, plan.node_of.get(rank), p.path, recording) for rank, recording in of_ranks]
    for p in artifacts:
        stored = p.facts.get("flight_recorder")
        if not stored:
            continue
        rank, node = rank_and_node(p.path, plan, known)
        if rank is not None:
            recording = msgspec.convert(stored, Recording)
            found.append(_Recorder(rank, node or plan.node_of.get(rank), p.path, recording))
    return found


def _recorded_states(recorders: Iterable[_Recorder]) -> Iterable[State]:
    for recorder in recorders:
        for group in recorder.recording.groups:
            members = tuple(expand_span(group.ranks))
            yield State(
                recorder.rank,
                group.name,
                group.desc,
                members,
                group.enqueued,
                group.completed,
                group.open,
                group.last,
            )


def _watched_state(row: WatchedRank) -> State:
    """The state that watchdog lines tell of a rank."""
    completed = -1 if row.completed is None else row.completed
    group = f"log:{row.group}"
    if row.seq is None:
        return State(row.rank, group, row.group, (), -1 if row.enqueued is None else row.enqueued, completed)
    call = Collective(row.seq, (row.op or "collective").lower())
    enqueued = row.seq if row.enqueued is None else row.enqueued
    return State(row.rank, group, row.group, (), enqueued, completed, [call])


def _compare_collectives(found: Findings, states: Sequence[State], dumped: Sequence[int]) -> None:
    """Accuse the ranks that are missing in collectives, or behind in them."""
    verdict = compare(states, dumped=dumped)
    wrote = set(dumped)
    world_size = found.layout.world_size or 0
    found.collectives = verdict
    found.recorded = sorted(wrote)
    found.unrecorded = [rank for rank in range(world_size) if rank not in wrote] if dumped else []
    if not verdict.ranks:
        _accuse_without_recording(found, len(dumped))
    # Watchdog lines come from the logs, which already weighed them.
    source, weight = ("flight_recorder", 1.0) if dumped else ("watchdog", THRESHOLDS.watchdog)
    stuck = {**verdict.device, **verdict.host}
    for rank, reason in verdict.ranks.items():
        score = THRESHOLDS.first if rank in stuck else THRESHOLDS.other
        found.accuse(rank, None, weight * score, reason, source)


def _accuse_without_recording(found: Findings, dump_count: int) -> None:
    """Accuse the ranks that wrote no Flight Recorder dump, if most of their peers did."""
    if len(found.unrecorded) > BLAME.missing_share * dump_count:
        return
    reason = "wrote no Flight Recorder dump although its peers did"
    for rank in found.unrecorded:
        found.accuse(rank, None, THRESHOLDS.unwritten, reason, "flight_recorder")
