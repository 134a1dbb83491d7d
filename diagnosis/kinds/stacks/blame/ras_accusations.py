"""Whom NCCL RAS reports accuse: dead processes, silent ranks, and ranks behind in their operation
counts.

Only a communicator of the job's size has global ranks. A mismatch in one snapshot is normal,
because ranks are never at the same operation; counts that do not change over several snapshots are
a hang.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from diagnosis import thresholds
from diagnosis.evidence.rank_names import ranks_text
from diagnosis.kinds.stacks.recorded.ras_report import Communicator, RasPlace, RasProcess, RasReport

THRESHOLDS: Final = thresholds.of("ras_accusations")
#: Sorts after every rank.
_NO_RANK: Final = 1 << 30


class RasAccusation(msgspec.Struct, frozen=True):
    """One place in a RAS report; ``rank`` is global or None."""

    rank: int | None
    node: str
    score: float
    reason: str


class _RankBehind(msgspec.Struct, frozen=True):
    """The operation in which a rank of a communicator lacks most against the others."""

    rank: str
    operation: str
    count: int
    most: int


def judge(snapshots: Sequence[RasReport], world_size: int | None) -> list[RasAccusation]:
    """Dead, silent and stalled ranks; best first. Linear in ranks times snapshots."""
    if not snapshots:
        return []
    last = snapshots[-1]
    job_size = world_size or last.job_size()
    dead = {process.key for process in last.dead}
    stalled = _stalled_ranks(snapshots)
    found: dict[tuple[int | None, str, str], RasAccusation] = {}
    for process in last.dead:
        reason = f"RAS considers process {process.pid} (GPU {process.gpu}) dead"
        found[None, process.node, str(process.pid)] = RasAccusation(None, process.node, THRESHOLDS.dead, reason)
    for comm in last.comms:
        has_global_ranks = bool(job_size) and _rank_count(comm) == job_size
        for accused, name in _silent_ranks(comm, dead, has_global_ranks=has_global_ranks):
            found.pop((None, accused.node, name), None)
            found[accused.rank, accused.node, name] = accused
        for accused, name in _late_ranks(comm, stalled, len(snapshots), has_global_ranks=has_global_ranks):
            found.setdefault((accused.rank, accused.node, name), accused)
    return sorted(found.values(), key=_order)


def _silent_ranks(
    comm: Communicator, dead: Collection[Hashable], *, has_global_ranks: bool
) -> Iterator[tuple[RasAccusation, str]]:
    """Accusations of a communicator's silent processes, with the process."""
    for process in comm.silent:
        rank = process.rank if has_global_ranks else None
        is_dead = process.is_dead or process.key in dead
        yield _accuse_silent(process, rank, is_dead=is_dead), str(process.pid)


def _late_ranks(
    comm: Communicator, stalled: Collection[tuple[str, str]], snapshots: int, *, has_global_ranks: bool
) -> Iterator[tuple[RasAccusation, str]]:
    """Accusations of a communicator's ranks that are behind, with the rank in it."""
    for behind in _ranks_behind(comm):
        is_stalled = (comm.id, behind.rank) in stalled
        place = comm.places.get(behind.rank, RasPlace())
        rank = int(behind.rank) if has_global_ranks else None
        yield _accuse_behind(behind, place, rank, snapshots if is_stalled else 0), behind.rank


def ranks_ahead(snapshots: Sequence[RasReport]) -> list[str]:
    """Of communicators in which nobody is behind, who launched more of an operation than most ranks
    did, in sentences: the others are not at fault, and those ahead did not wait for them. Linear in
    ranks.
    """
    told = []
    for comm in snapshots[-1].comms if snapshots else ():
        if any(_ranks_behind(comm)):
            continue
        for operation, ranks in _ahead(comm).items():
            most, count = comm.most[operation], max(comm.counts[rank][operation] for rank in ranks)
            who = ranks_text(int(rank) for rank in ranks)
            told.append(f"{who} launched {operation} up to {count:,}, all others up to {most:,}: nobody is behind")
    return told


def _ahead(comm: Communicator) -> dict[str, list[str]]:
    """Of each operation the ranks that launched more of it than most."""
    ahead: dict[str, list[str]] = {}
    for rank, counts in comm.counts.items():
        for operation, count in counts.items():
            if count > comm.most.get(operation, count):
                ahead.setdefault(operation, []).append(rank)
    return ahead


def _order(accused: RasAccusation) -> tuple[float, int, str]:
    return -accused.score, _NO_RANK if accused.rank is None else accused.rank, accused.node


def _rank_count(comm: Communicator) -> int:
    return max(comm.size, len(comm.counts) + len(comm.silent))


def _accuse_silent(process: RasProcess, rank: int | None, *, is_dead: bool) -> RasAccusation:
    if is_dead:
        reason = f"RAS considers its process {process.pid} dead"
        return RasAccusation(rank, process.node, THRESHOLDS.dead, reason)
    reason = "did not answer RAS while its peers did"
    return RasAccusation(rank, process.node, THRESHOLDS.silent, reason)


def _ranks_behind(comm: Communicator) -> Iterable[_RankBehind]:
    """Each rank that launched fewer of an operation than most ranks did."""
    for rank, counts in comm.counts.items():
        lacks = {operation: comm.most.get(operation, count) - count for operation, count in counts.items()}
        operation = max(lacks, key=lacks.__getitem__, default=None)
        if operation is not None and lacks[operation] > 0:
            yield _RankBehind(rank, operation, counts[operation], comm.most[operation])


def _accuse_behind(behind: _RankBehind, place: RasPlace, rank: int | None, unchanged_snapshots: int) -> RasAccusation:
    """``unchanged_snapshots``: over how many the counts stood; 0 if they moved or one is alone."""
    reason = f"launched {behind.operation} up to {behind.count:,} where most ranks are at {behind.most:,}"
    if not unchanged_snapshots:
        return RasAccusation(rank, place.node, THRESHOLDS.behind, reason)
    reason_of_stall = f"{reason}, unchanged over {unchanged_snapshots} snapshots"
    return RasAccusation(rank, place.node, THRESHOLDS.stalled, reason_of_stall)


def _stalled_ranks(snapshots: Sequence[RasReport]) -> set[tuple[str, str]]:
    """Communicator and rank of those whose counts are the same in the first and the last snapshot."""
    if len(snapshots) < 2:
        return set()
    before = _counts_of_ranks(snapshots[0])
    after = _counts_of_ranks(snapshots[-1])
    return {key for key, counts in after.items() if before.get(key) == counts}


def _counts_of_ranks(snapshot: RasReport) -> dict[tuple[str, str], dict[str, int]]:
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for comm in snapshot.comms:
        counts.update({(comm.id, rank): row for rank, row in comm.counts.items()})
    return counts
