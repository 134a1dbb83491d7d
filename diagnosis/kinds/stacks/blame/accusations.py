"""The findings of all kinds of stack evidence about one job, and whom they accuse together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

import msgspec

from diagnosis import thresholds
from diagnosis.evidence.rank_names import fold_ranks
from diagnosis.kinds.stacks.blame.collectives import Verdict
from diagnosis.kinds.stacks.blame.voting import Outcome
from diagnosis.kinds.stacks.ranks.cluster import Group
from diagnosis.kinds.stacks.ranks.dumped_processes import Process
from diagnosis.kinds.stacks.ranks.layout import Layout
from diagnosis.values import stats

THRESHOLDS: Final = thresholds.of("stack_report")
#: Sorts after every rank.
_NO_RANK: Final = 1 << 30
_SOURCE_TEXT: Final = {
    "stacks": "stacks",
    "flight_recorder": "Flight Recorder",
    "watchdog": "watchdog lines",
    "ras": "NCCL RAS",
}


class Accusation(msgspec.Struct):
    """The evidence against one rank (or a node without a known rank), by kind."""

    rank: int | None
    node: str | None
    scores: dict[str, float] = msgspec.field(default_factory=dict)
    reasons: list[str] = msgspec.field(default_factory=list)

    @property
    def score(self) -> float:
        """Independent kinds of evidence that agree strengthen each other."""
        return round(stats.fuse(self.scores.values()), 4)

    @property
    def sources(self) -> list[str]:
        """The kinds of evidence that accuse it."""
        return [source for source, score in self.scores.items() if score > 0]

    @property
    def order(self) -> tuple[float, int, str]:
        """The strongest first, then by rank, nodes without a rank last."""
        return -self.score, _NO_RANK if self.rank is None else self.rank, self.node or ""


class ShownRound(msgspec.Struct, frozen=True):
    """The round that the report shows: its groups, and the ranks without a usable dump. ``absent`` counts those without
    a dump, ``missing`` lists them (only the first ones of very many).
    """

    groups: Sequence[Group]
    missing: list[int]
    absent: int
    failed: list[int]
    empty: list[int]


class Findings(msgspec.Struct):
    """All findings before the sentences are made."""

    rounds: int = 1
    notes: list[str] = msgspec.field(default_factory=list)
    layout: Layout = msgspec.field(default_factory=Layout)
    processes: list[Process] = msgspec.field(default_factory=list)
    node_of: dict[int, str] = msgspec.field(default_factory=dict)
    outcome: Outcome | None = None
    collectives: Verdict | None = None
    recorded: list[int] = msgspec.field(default_factory=list)
    unrecorded: list[int] = msgspec.field(default_factory=list)
    #: what every process does, if all wait for their peers
    common_wait: str = ""
    #: who is ahead of all others by NCCL's own reports, in sentences
    ahead: list[str] = msgspec.field(default_factory=list)
    accused: dict[tuple[int | None, str | None], Accusation] = msgspec.field(default_factory=dict)

    def accuse(self, rank: int | None, node: str | None, score: float, reason: str, source: str) -> None:
        """Add one reason; the best score of each kind of evidence counts."""
        known_node = node or (None if rank is None else self.node_of.get(rank))
        key = (rank, known_node if rank is None else None)
        accusation = self.accused.setdefault(key, Accusation(rank, known_node))
        accusation.scores[source] = max(score, accusation.scores.get(source, 0.0))
        if reason not in accusation.reasons:
            accusation.reasons.append(reason)

    def ranked(self) -> list[Accusation]:
        """The strongest accusations first."""
        return sorted(self.accused.values(), key=lambda accusation: accusation.order)

    def shown(self) -> ShownRound:
        """The round that the report shows; without stacks, the ranks without a Flight Recorder dump."""
        if self.outcome is None:
            return ShownRound([], self.unrecorded, len(self.unrecorded), [], [])
        one = self.outcome.shown
        return ShownRound(one.groups, one.missing, one.absent, one.failed, one.empty)


def agreed(ranked: Sequence[Accusation]) -> list[Accusation]:
    """The accused of the strongest evidence; those of two kinds come first."""
    if not ranked:
        return []
    best = ranked[0].score
    agreed_ranks = {accusation.rank for accusation in ranked if len(accusation.sources) > 1}
    if agreed_ranks:
        limit = best - THRESHOLDS.equal
        return [one for one in ranked if one.rank in agreed_ranks or one.score >= limit]
    least = min(THRESHOLDS.named, best - THRESHOLDS.near)
    return [one for one in ranked if one.score >= least]


def disagreements(ranked: Sequence[Accusation]) -> list[str]:
    """A sentence for each two kinds of evidence that accuse no rank in common."""
    ranks_of: dict[str, set[int]] = {}
    for accusation in ranked:
        if accusation.rank is not None:
            for source in accusation.sources:
                ranks_of.setdefault(source, set()).add(accusation.rank)
    return [
        f"{_SOURCE_TEXT[one]} accuse rank {fold_ranks(ranks_of[one])}, "
        f"{_SOURCE_TEXT[other]} rank {fold_ranks(ranks_of[other])}: they disagree, so a human should decide."
        for one, other in combinations(sorted(ranks_of), 2)
        if ranks_of[one].isdisjoint(ranks_of[other])
    ]
