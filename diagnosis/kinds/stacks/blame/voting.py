"""Several rounds of dumps: a hung job does not move, a slow job does (ByteRobust, section 5.1, fail-slow).

In each round the parallel group with the most outliers is flagged; the group flagged most often slows the job. One
round of a moving job proves nothing: some rank is always last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice
from typing import Final

import msgspec
from msgspec.structs import replace

from diagnosis import thresholds
from diagnosis.evidence.rank_names import fold_ranks, ranks_text
from diagnosis.kinds.stacks.blame import evict
from diagnosis.kinds.stacks.blame.blame import Blame, accuse_nobody, blame
from diagnosis.kinds.stacks.ranks.cluster import Group, group_of_rank, group_ranks
from diagnosis.kinds.stacks.ranks.dumped_processes import Process, with_ranks
from diagnosis.kinds.stacks.ranks.layout import Layout

#: Ranks that are missing are judged alike everywhere.
BLAME: Final = thresholds.of("blame")
THRESHOLDS: Final = thresholds.of("voting")

#: Number of ranks listed for a job if most of its ranks have no dump.
MAX_LISTED = 4096


class Round(msgspec.Struct):
    """The findings of one round. ``absent`` counts the ranks without a dump, ``missing`` lists them (only the first
    ones of very many).
    """

    groups: list[Group]
    failed: list[int]
    empty: list[int]
    missing: list[int]
    blame: Blame
    absent: int = 0

    @property
    def has_dumps(self) -> bool:
        return bool(self.groups or self.failed or self.empty)

    @property
    def rank_count(self) -> int:
        """Ranks whose stack could be read."""
        return sum(len(group.ranks) for group in self.groups)


class Vote(msgspec.Struct, frozen=True):
    """A parallel group, and in how many rounds it had the most outliers."""

    candidate: evict.Candidate
    rounds: int

    @property
    def order(self) -> tuple[int, tuple[float, float, int], str, tuple[tuple[int, ...], ...]]:
        """The most votes first, then the better explanation."""
        return -self.rounds, self.candidate.order, self.candidate.kind, self.candidate.groups


class Outcome(msgspec.Struct):
    """All rounds together: the round to show, the joint verdict, whether the job moves, and the votes of the groups."""

    shown: Round
    verdict: Blame
    candidates: list[evict.Candidate]
    is_moving: bool = False
    votes: list[Vote] = msgspec.field(default_factory=list)


def judge_round(processes: Sequence[Process], layout: Layout) -> Round:
    """Groups, absences and blame of one round. Linear, see :func:`~diagnosis.kinds.stacks.blame.blame.blame`."""
    groups, failed, empty = group_ranks(processes)
    seen = {rank for rank, _ in with_ranks(processes)}
    world_size = layout.world_size or 0
    absent = world_size - sum(rank < world_size for rank in seen)
    unseen = (rank for rank in range(world_size) if rank not in seen)
    # if more are missing nobody is accused of it, and a stated size lists no ranks
    is_few = absent <= BLAME.missing_share * world_size
    missing = list(islice(unseen, absent if is_few else MAX_LISTED))
    named = missing if is_few else []
    verdict = blame(groups, layout, missing=named, failed=failed, empty=empty, expected=world_size)
    return Round(groups, failed, empty, missing, verdict, absent)


def _worst_group(one: Round, layout: Layout) -> evict.Candidate | None:
    """The single group with the most outliers, the smaller first."""
    candidates = evict.candidates(one.blame.outliers, layout, limit=None)
    single = [c for c in candidates if len(c.groups) == 1 and len(c.ranks) > 1]
    return min(single, key=lambda c: (c.order, c.kind), default=None)


def is_moving(rounds: Sequence[Round]) -> bool:
    """Whether ranks changed their position between rounds; of one round, False."""
    first, *later = [_stack_of_rank(one) for one in rounds]
    common = set(first).intersection(*later)
    moved: set[int] = set()
    for stacks in later:
        moved.update(rank for rank in common if stacks[rank] != first[rank])
    return bool(common) and len(common - moved) < THRESHOLDS.still * len(common)


def _stack_of_rank(one: Round) -> dict[int, tuple[str, ...]]:
    return {rank: group.key for rank, group in group_of_rank(one.groups).items()}


def decide(rounds: Sequence[Round], layout: Layout) -> Outcome:
    """Joint verdict. With one round it is that round's."""
    shown = max(rounds, key=lambda one: (one.rank_count, bool(one.blame.ranks)))
    if len(rounds) == 1:
        return _outcome(shown, shown.blame, layout)
    if is_moving(rounds):
        return _slow_outcome(rounds, shown, layout)
    return _hung_outcome(rounds, layout)


def _outcome(shown: Round, verdict: Blame, layout: Layout) -> Outcome:
    candidates = evict.candidates(verdict.outliers, layout) if verdict.ranks else []
    return Outcome(shown, verdict, candidates)


def _votes_of_ranks(rounds: Sequence[Round]) -> Counter[int]:
    """How often each rank is accused."""
    return Counter(chain.from_iterable(one.blame.ranks for one in rounds))


def _hung_outcome(rounds: Sequence[Round], layout: Layout) -> Outcome:
    """The round that accuses the ranks which most rounds accuse, and few others."""
    accusing = sum(bool(one.blame.ranks) for one in rounds)
    often = {rank for rank, count in _votes_of_ranks(rounds).items() if 2 * count >= accusing}

    def agreement(one: Round) -> tuple[int, int]:
        accused = set(one.blame.ranks)
        return len(accused & often), -len(accused - often)

    best = max(rounds, key=agreement)
    if not often:
        return _outcome(best, best.blame, layout)
    confirmed = tuple(rank for rank in best.blame.ranks if rank in often)
    reason = f"{best.blame.reason} The same in {accusing} of {len(rounds)} rounds: the job does not move."
    verdict = replace(best.blame, ranks=confirmed or best.blame.ranks, reason=reason)
    return _outcome(best, verdict, layout)


def _slow_outcome(rounds: Sequence[Round], shown: Round, layout: Layout) -> Outcome:
    """Of a job that moves: the ranks, and the parallel group, that lag in most rounds."""
    votes = _votes_of_groups(rounds, layout)
    slowest = _clear_winner(votes, len(rounds))
    count_of = _votes_of_ranks(rounds)
    enough = max(2, THRESHOLDS.lagging * len(rounds))
    lagging = [rank for rank, count in sorted(count_of.items(), key=_by_votes) if count >= enough]
    if not lagging and slowest is None:
        return Outcome(shown, _accuse_nobody_slow(len(rounds)), [], is_moving=True, votes=votes)
    members = lagging if slowest is None else sorted(slowest.candidate.ranks)
    ranks = tuple(lagging or members)
    reasons = {rank: _slow_reason(count_of[rank], len(rounds)) for rank in ranks}
    scores = {rank: _slow_score(count_of[rank], len(rounds)) for rank in ranks}
    reason = _slow_sentence(ranks, slowest, len(rounds))
    verdict = Blame(ranks, scores, reasons, tuple(sorted({*ranks, *members})), reason, "slow")
    candidates = evict.candidates(ranks, layout) if slowest is None else [slowest.candidate]
    return Outcome(shown, verdict, candidates, is_moving=True, votes=votes)


def _by_votes(item: tuple[int, int]) -> tuple[int, int]:
    rank, count = item
    return -count, rank


def _votes_of_groups(rounds: Sequence[Round], layout: Layout) -> list[Vote]:
    """The groups that had the most outliers of a round, those with the most rounds first."""
    worst = [_worst_group(one, layout) for one in rounds]
    flagged = [candidate for candidate in worst if candidate is not None]
    count_of = Counter((candidate.kind, candidate.groups) for candidate in flagged)
    first_of = {(candidate.kind, candidate.groups): candidate for candidate in reversed(flagged)}
    votes = [Vote(first_of[key], count) for key, count in count_of.items()]
    return sorted(votes, key=lambda vote: vote.order)


def _clear_winner(votes: Sequence[Vote], round_count: int) -> Vote | None:
    """The group with the most votes, if these are enough, and no other has as many."""
    if not votes or votes[0].rounds < max(2, THRESHOLDS.flagged * round_count):
        return None
    is_tied = len(votes) > 1 and votes[1].rounds == votes[0].rounds
    return None if is_tied else votes[0]


def _accuse_nobody_slow(round_count: int) -> Blame:
    sentence = f"The job moves between the {round_count} rounds and no group lags in most of them"
    return accuse_nobody(f"{sentence}: no degrader is named.", "slow")


def _slow_reason(votes: int, round_count: int) -> str:
    if not votes:
        return "belongs to the group that lagged most often"
    return f"lagged in {votes} of {round_count} rounds while the job moved on"


def _slow_score(votes: int, round_count: int) -> float:
    score: float = THRESHOLDS.base + THRESHOLDS.votes * votes / round_count
    return round(min(score, float(THRESHOLDS.most)), 3)


def _slow_sentence(ranks: Sequence[int], slowest: Vote | None, round_count: int) -> str:
    lagged = f"{ranks_text(ranks)} lagged in most of {round_count} rounds"
    if slowest is None:
        return f"The job moves, so it is slow, not hung: {lagged}."
    group = f"its {slowest.candidate.kind} group {fold_ranks(sorted(slowest.candidate.ranks))}"
    return f"The job moves, so it is slow, not hung: {lagged}; {group} was flagged in {slowest.rounds}."
