"""The report's ``stacks`` object (``docs/report.md`` lists every field), and the only place that makes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from diagnosis import thresholds
from diagnosis.evidence.rank_names import fold_ranks
from diagnosis.kinds.stacks.blame import evict
from diagnosis.kinds.stacks.blame.accusations import Accusation, Findings, agreed, disagreements
from diagnosis.kinds.stacks.blame.collectives import HungCollective
from diagnosis.kinds.stacks.blame.stack_sentences import (
    headline_of,
    notes_on_missing,
    reason_of,
    reason_sentence,
    reasons_of,
)
from diagnosis.kinds.stacks.blame.voting import MAX_LISTED, Vote
from diagnosis.kinds.stacks.ranks.cluster import Group, IcicleRow, icicle, icicle_rows
from diagnosis.kinds.stacks.ranks.dumped_processes import Process

THRESHOLDS: Final = thresholds.of("stack_report")

_MAX_GROUPS: Final = 200
_MAX_CANDIDATES: Final = 24
_MAX_GROUPS_OF_CANDIDATE: Final = 16
_MAX_TIED: Final = 8
_MAX_VOTES: Final = 16
_MAX_ACCUSED: Final = 256
_MAX_REASONS: Final = 6


class GroupRow(msgspec.Struct, frozen=True):
    """Ranks with equal stacks. ``frames`` innermost first; ``key``: those that are compared; ``dimension``: the
    parallel dimension that they wait for, empty if any."""

    ranks: list[int]
    folded: str
    frames: list[str]
    key: list[str]
    dominant: bool
    activity: str
    what: str
    dimension: str


class CandidateRow(msgspec.Struct, frozen=True):
    """Parallel groups of one kind that may explain the outliers. ``ranks`` counts theirs; ``coverage``: share of the
    outliers in them, ``precision``: share of them that are outliers, in [0, 1] as ``score``.
    """

    kind: str
    groups: list[str]
    ranks: int
    score: float
    coverage: float
    precision: float


class VotedRow(CandidateRow, frozen=True):
    """A candidate, and in how many rounds it had the most outliers."""

    rounds: int


class CollectiveRows(msgspec.Struct, frozen=True):
    """What the collectives show: ranks by signal, the one that hangs, who wrote a Flight Recorder dump."""

    host_stuck: list[int]
    device_stuck: list[int]
    mismatched: list[int]
    collective: HungCollective | None
    ranks_with_dump: str
    ranks_without_dump: list[int]


class DumpRow(msgspec.Struct, frozen=True):
    """One dump of a trainer. ``line``: its first one in the file, from 1."""

    rank: int | None
    node: str | None
    path: str
    line: int
    round: int
    status: str


class NodeRow(msgspec.Struct, frozen=True):
    """A node in the ranking. ``score`` in [0, 1]; ``is_suspect`` False: ranked, not accused."""

    entity: str
    kind: str
    score: float
    sources: list[str] = msgspec.field(name="from")
    reasons: list[str]
    ranks: list[int]
    is_suspect: bool = msgspec.field(name="suspect")


class RankRow(msgspec.Struct, frozen=True):
    """A rank in the ranking; ``evidence``: the kinds of stack evidence that accuse it."""

    entity: str
    kind: str
    score: float
    sources: list[str] = msgspec.field(name="from")
    evidence: list[str]
    reasons: list[str]
    node: str | None
    ranks: list[int]
    is_suspect: bool = msgspec.field(name="suspect")


class StackReport(msgspec.Struct, frozen=True):
    """The whole object."""

    suspect_ranks: list[int]
    suspect_nodes: list[str]
    evict_ranks: list[int]
    evict_nodes: list[str]
    groups: list[GroupRow]
    missing_ranks: list[int]
    failed_ranks: list[int]
    empty_ranks: list[int]
    outlier_ranks: list[int]
    headline: str
    reason: str
    rule: str
    rounds: int
    is_moving: bool
    common_wait: str
    explained_by: CandidateRow | None
    candidates: list[CandidateRow]
    tie: list[CandidateRow]
    votes: list[VotedRow]
    layout: dict[str, int | str | None]
    collectives: CollectiveRows | None
    notes: list[str]
    icicle: list[IcicleRow]
    ranks: list[DumpRow]
    suspects: list[NodeRow | RankRow] | UnsetType

    def without_suspects(self) -> StackReport:
        """The object for a report, which has the suspects of all evidence joined."""
        return msgspec.structs.replace(self, suspects=UNSET)


def report_of(found: Findings) -> StackReport:
    """The ``stacks`` object, with ``suspects`` for the fusion. Deterministic; linear in ranks and distinct frames."""
    ranked = found.ranked()
    accused = agreed(ranked)
    suspects = [accusation.rank for accusation in accused if accusation.rank is not None]
    shown = found.shown()
    outliers = sorted({*_voted_outliers(found), *suspects})
    candidates = _candidates(found, suspects, outliers)
    candidate_rows = [_candidate_row(candidate) for candidate in candidates[:_MAX_CANDIDATES]]
    evict_ranks = _evict_ranks(candidates, suspects, outliers)
    nodes = _once(accusation.node for accusation in accused)
    evict_nodes = _once([*nodes, *map(found.node_of.get, evict_ranks)])
    reason = reason_of(found)
    votes = [] if found.outcome is None else found.outcome.votes
    return StackReport(
        suspect_ranks=suspects,
        suspect_nodes=nodes,
        evict_ranks=evict_ranks,
        evict_nodes=evict_nodes,
        groups=[_group_row(group) for group in shown.groups[:_MAX_GROUPS]],
        missing_ranks=shown.missing[:MAX_LISTED],
        failed_ranks=shown.failed,
        empty_ranks=shown.empty,
        outlier_ranks=outliers,
        headline=headline_of(reason, nodes) if suspects or nodes else reason,
        reason=reason,
        rule=_rule(found),
        rounds=found.rounds,
        is_moving=found.outcome is not None and found.outcome.is_moving,
        common_wait=found.common_wait,
        explained_by=candidate_rows[0] if candidate_rows else None,
        candidates=candidate_rows,
        tie=[_candidate_row(tied) for tied in evict.tied_candidates(candidates)[:_MAX_TIED]],
        votes=[_voted_row(vote) for vote in votes[:_MAX_VOTES]],
        layout=_layout_row(found),
        collectives=_collective_rows(found),
        notes=[*found.notes, *disagreements(ranked), *notes_on_missing(found, shown)],
        icicle=icicle_rows(icicle(shown.groups)) if shown.groups else [],
        ranks=[_dump_row(p, found.node_of) for p in found.processes],
        suspects=_suspects(accused, ranked),
    )


def _once(names: Iterable[str | None]) -> list[str]:
    """Each name once, in their order."""
    return list(dict.fromkeys(name for name in names if name))


def _voted_outliers(found: Findings) -> tuple[int, ...]:
    """The outliers of the verdict on all rounds, if it accuses a rank."""
    verdict = None if found.outcome is None else found.outcome.verdict
    return () if verdict is None or not verdict.ranks else verdict.outliers


def _candidates(found: Findings, suspects: Sequence[int], outliers: Sequence[int]) -> list[evict.Candidate]:
    """Sets of ranks that explain the outliers, best first; none where nobody is accused."""
    if not suspects:
        return []
    outcome = found.outcome
    covers_suspects = outcome is not None and set(outcome.verdict.outliers) >= set(suspects)
    voted = outcome.candidates if outcome is not None and covers_suspects else []
    return voted or evict.candidates(outliers, found.layout)


def _evict_ranks(candidates: Sequence[evict.Candidate], suspects: Sequence[int], outliers: Sequence[int]) -> list[int]:
    """The ranks to replace: those of the best candidate, and every suspect."""
    if not suspects:
        return []
    explained = candidates[0].ranks if candidates else outliers
    return sorted({*explained, *suspects})


def _rule(found: Findings) -> str:
    """The rule that decided."""
    if found.outcome is not None:
        return found.outcome.verdict.rule
    return "collectives" if found.collectives else "none"


def _layout_row(found: Findings) -> dict[str, int | str | None]:
    """The size of each dimension, the order, the number of ranks, and where these are from."""
    plan = found.layout
    return {**plan.sizes, "order": plan.order, "world_size": plan.world_size, "source": plan.source}


def _group_row(group: Group) -> GroupRow:
    return GroupRow(
        ranks=group.ranks,
        folded=fold_ranks(group.ranks),
        frames=[frame.label for frame in group.frames],
        key=list(group.key),
        dominant=group.dominant,
        activity=group.activity.kind,
        what=group.activity.what,
        dimension=group.activity.dim,
    )


def _candidate_row(candidate: evict.Candidate) -> CandidateRow:
    return CandidateRow(
        kind=candidate.kind,
        groups=[fold_ranks(group) for group in candidate.groups[:_MAX_GROUPS_OF_CANDIDATE]],
        ranks=len(candidate.ranks),
        score=candidate.score,
        coverage=round(candidate.coverage, 4),
        precision=round(candidate.precision, 4),
    )


def _voted_row(vote: Vote) -> VotedRow:
    candidate = _candidate_row(vote.candidate)
    return VotedRow(**msgspec.structs.asdict(candidate), rounds=vote.rounds)


def _collective_rows(found: Findings) -> CollectiveRows | None:
    verdict = found.collectives
    if verdict is None:
        return None
    return CollectiveRows(
        host_stuck=sorted(verdict.host),
        device_stuck=sorted(verdict.device),
        mismatched=sorted(verdict.mismatch),
        collective=verdict.collective,
        ranks_with_dump=fold_ranks(found.recorded),
        ranks_without_dump=found.unrecorded[:MAX_LISTED],
    )


def _dump_row(p: Process, node_of: dict[int, str]) -> DumpRow:
    return DumpRow(p.rank, node_of.get(p.rank or 0), p.path, p.dump.line, p.round, p.dump.status)


def _suspects(accused: Sequence[Accusation], ranked: Sequence[Accusation]) -> list[NodeRow | RankRow]:
    """For the fusion: each accused rank, and each node with the best of its ranks; weak ones with half their score."""
    accused_ids = {id(accusation) for accusation in accused}
    of_node: dict[str, list[Accusation]] = {}
    rank_rows: list[RankRow] = []
    for accusation in ranked[:_MAX_ACCUSED]:
        if accusation.rank is not None:
            rank_rows.append(_rank_row(accusation, accusation.rank, is_suspect=id(accusation) in accused_ids))
        if accusation.node:
            of_node.setdefault(accusation.node, []).append(accusation)
    node_rows = [_node_row(node, own, accused_ids) for node, own in of_node.items()]
    node_rows.sort(key=lambda row: -row.score)
    return [*node_rows, *rank_rows]


def _rank_row(accusation: Accusation, rank: int, *, is_suspect: bool) -> RankRow:
    return RankRow(
        entity=f"rank {rank}",
        kind="rank",
        score=_shown_score(accusation, is_suspect=is_suspect),
        sources=["stacks"],
        evidence=sorted(accusation.sources),
        reasons=[reason_sentence([rank], reason) for reason in accusation.reasons[:_MAX_REASONS]],
        node=accusation.node,
        ranks=[rank],
        is_suspect=is_suspect,
    )


def _node_row(node: str, accusations: Sequence[Accusation], accused_ids: set[int]) -> NodeRow:
    """``accused_ids``: identities of the accusations that hold."""
    scores = [_shown_score(one, is_suspect=id(one) in accused_ids) for one in accusations]
    return NodeRow(
        entity=node,
        kind="node",
        score=max(scores),
        sources=["stacks"],
        reasons=reasons_of(accusations)[:_MAX_REASONS],
        ranks=sorted(one.rank for one in accusations if one.rank is not None),
        is_suspect=any(id(one) in accused_ids for one in accusations),
    )


def _shown_score(accusation: Accusation, *, is_suspect: bool) -> float:
    return accusation.score if is_suspect else round(THRESHOLDS.unnamed * accusation.score, 4)
