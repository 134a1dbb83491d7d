"""Several rounds of dumps: a hung job does not move, a slow job does (ByteRobust, section 5.1, fail-slow).

In each round the parallel group with the most outliers is flagged; the group flagged most often slows the job. One
round of a moving job proves nothing: some rank is always last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from diagnosis import thresholds
from diagnosis.evidence.rank_names import fold_ranks, ranks_text
from diagnosis.kinds.stacks.blame import evict
from diagnosis.kinds.stacks.blame.blame import Blame, blame
from diagnosis.kinds.stacks.ranks.cluster import Group, group_of_rank, group_ranks
from diagnosis.kinds.stacks.ranks.dumped_processes import Process
from diagnosis.kinds.stacks.ranks.layout import Layout

#: Ranks that are missing are judged alike everywhere.
BLAME: Final = thresholds.of("blame")
THRESHOLDS: Final = thresholds.of("voting")

#: Number of ranks listed for a job if most of its ranks have no dump.
MAX_LISTED = 4096


@dataclass(slots=True)
class Round:
    """The findings of one round. ``absent`` counts the ranks without a dump, ``missing`` lists them (only the first
    ones of very many).
    """

    groups: list[Group]
    failed: list[int]
    empty: list[int]
    missing: list[int]
    blame: Blame
    absent: int = 0
    flagged: evict.Candidate | None = None


@dataclass(slots=True)
class Outcome:
    """All rounds together: the round to show, the joint verdict, whether the job moves, and the votes of the groups."""

    shown: Round
    verdict: Blame
    candidates: list[evict.Candidate]
    is_moving: bool = False
    votes: list[tuple[evict.Candidate, int]] = field(default_factory=list)


def judge_round(processes: Sequence[Process], layout: Layout) -> Round:
    """Groups, absences and blame of one round. Linear, see :func:`~diagnosis.kinds.stacks.blame.blame.blame`."""
    groups, failed, empty = group_ranks(processes)
    seen = {p.rank for p in processes if p.rank is not None}
    world = layout.world_size or 0
    absent = world - sum(r < world for r in seen)
    is_few = absent <= BLAME.missing_share * world  # else nobody is accused of it, and a stated size lists no ranks
    missing = list(islice((r for r in range(world) if r not in seen), absent if is_few else MAX_LISTED))
    named = missing if is_few else []
    verdict = blame(groups, layout, missing=named, failed=failed, empty=empty, expected=world)
    return Round(groups, failed, empty, missing, verdict, absent)


def _worst_group(one: Round, layout: Layout) -> evict.Candidate | None:
    """The single group with the most outliers, the smaller first."""
    single = [
        c
        for c in evict.candidates(one.blame.outliers, layout, limit=1 << 20)
        if len(c.groups) == 1 and len(c.ranks) > 1
    ]
    return min(single, key=lambda c: (c.order, c.kind), default=None)


def is_moving(rounds: Sequence[Round]) -> bool:
    """Whether ranks changed their position between rounds."""
    if len(rounds) < 2:
        return False
    places = [{r: g.key for r, g in group_of_rank(one.groups).items()} for one in rounds]
    common = set(places[0]).intersection(*places[1:])
    still = sum(all(p[r] == places[0][r] for p in places[1:]) for r in common)
    return bool(common) and still < THRESHOLDS.still * len(common)


def decide(rounds: Sequence[Round], layout: Layout) -> Outcome:
    """Joint verdict. With one round it is that round's."""
    shown = max(rounds, key=lambda r: (sum(len(g.ranks) for g in r.groups), bool(r.blame.ranks)))
    if len(rounds) == 1:
        return Outcome(shown, shown.blame, evict.candidates(shown.blame.outliers, layout) if shown.blame.ranks else [])
    if is_moving(rounds):
        return _slow_outcome(rounds, shown, layout)
    votes = Counter(r for one in rounds for r in one.blame.ranks)
    telling = sum(bool(one.blame.ranks) for one in rounds)
    keep = {r for r, n in votes.items() if 2 * n >= telling}
    best = max(rounds, key=lambda one: (len(keep & set(one.blame.ranks)), -len(set(one.blame.ranks) - keep)))
    verdict = best.blame
    if telling and keep:
        ranks = tuple(r for r in verdict.ranks if r in keep)
        verdict = replace(
            verdict,
            ranks=ranks or verdict.ranks,
            reason=f"{verdict.reason} The same in {telling} of {len(rounds)} rounds: the job does not move.",
        )
    return Outcome(best, verdict, evict.candidates(verdict.outliers, layout) if verdict.ranks else [])


def _slow_outcome(rounds: Sequence[Round], shown: Round, layout: Layout) -> Outcome:
    flagged: Counter[tuple[str, tuple[tuple[int, ...], ...]]] = Counter()
    by_key: dict[tuple[str, tuple[tuple[int, ...], ...]], evict.Candidate] = {}
    for one in rounds:
        one.flagged = _worst_group(one, layout)
        if one.flagged is not None:
            key = (one.flagged.kind, one.flagged.groups)
            flagged[key] += 1
            by_key.setdefault(key, one.flagged)
    votes = Counter(r for one in rounds for r in one.blame.ranks)
    lagging = [
        r
        for r, n in sorted(votes.items(), key=lambda item: (-item[1], item[0]))
        if n >= max(2, THRESHOLDS.lagging * len(rounds))
    ]
    order = sorted(flagged.items(), key=lambda item: (-item[1], by_key[item[0]].order, item[0]))
    tally = [(by_key[key], n) for key, n in order]
    clear = (
        bool(tally)
        and tally[0][1] >= max(2, THRESHOLDS.flagged * len(rounds))
        and (len(tally) == 1 or tally[1][1] < tally[0][1])
    )
    if not lagging and not clear:
        verdict = Blame(
            (),
            {},
            {},
            (),
            f"The job moves between the {len(rounds)} rounds and no group lags in most of them: no degrader is named.",
            "slow",
        )
        return Outcome(shown, verdict, [], is_moving=True, votes=tally)
    lagging_group = sorted(tally[0][0].ranks) if clear else lagging
    ranks = tuple(lagging) or tuple(lagging_group)
    reasons = {
        r: f"lagged in {votes[r]} of {len(rounds)} rounds while the job moved on"
        if votes[r]
        else "belongs to the group that lagged most often"
        for r in ranks
    }
    scores = {
        r: round(min(THRESHOLDS.most, THRESHOLDS.base + THRESHOLDS.votes * votes[r] / len(rounds)), 3) for r in ranks
    }
    flagged_text = (
        f"; its {tally[0][0].kind} group {fold_ranks(lagging_group)} was flagged in {tally[0][1]}" if clear else ""
    )
    lagged = f"{ranks_text(ranks)} lagged in most of {len(rounds)} rounds{flagged_text}"
    reason = f"The job moves, so it is slow, not hung: {lagged}."
    verdict = Blame(ranks, scores, reasons, tuple(sorted({*ranks, *lagging_group})), reason, "slow")
    return Outcome(
        shown, verdict, [tally[0][0]] if clear else evict.candidates(ranks, layout), is_moving=True, votes=tally
    )
