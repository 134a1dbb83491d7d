"""Compares the other threads and the child processes of an accused rank with those of its peers.

A trainer that waits for its data loader is the symptom; the loader's own thread or worker shows the origin.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from diagnosis import thresholds
from diagnosis.kinds.stacks.ranks.cluster import key_of
from diagnosis.kinds.stacks.ranks.dumped_processes import LOADER, SAVER, TRAINER, Process, with_ranks
from diagnosis.kinds.stacks.read.stack_frames import Thread, frame_text

THRESHOLDS: Final = thresholds.of("threads")
_NUMBER = re.compile(r"[-_]?\d+")


def _other_threads(process: Process) -> Iterable[tuple[str, Thread]]:
    """The threads of a process with their names, without the main thread of a trainer."""
    is_trainer = process.role == TRAINER
    main = process.dump.main() if is_trainer else None
    prefix = "" if is_trainer else f"{process.role}: "
    for thread in process.dump.threads:
        if thread is not main and thread.frames:
            name = _NUMBER.sub("", thread.name) or "unnamed thread"
            yield prefix + name, thread


class _ThreadComparison:
    """The stacks of threads of one name, over all ranks. ``stack_of``: those of the wanted ranks."""

    def __init__(self, wanted: Iterable[int]) -> None:
        self.stack_of: dict[tuple[int, str], tuple[str, ...]] = {}
        self._wanted = set(wanted)
        self._counts: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
        self._ranks: dict[str, set[int]] = defaultdict(set)

    def add(self, rank: int, name: str, key: tuple[str, ...]) -> None:
        """One thread. Of several of a wanted rank, one counts that is not where most are."""
        self._counts[name][key] += 1
        self._ranks[name].add(rank)
        if rank in self._wanted:
            earlier = self.stack_of.get((rank, name))
            if earlier is None or earlier == self._most_common(name):
                self.stack_of[rank, name] = key

    def usual(self, name: str) -> tuple[str, ...] | None:
        """The stack of most threads of a name; None if too few ranks have it, or do not agree."""
        common = self._most_common(name)
        counts = self._counts[name]
        is_agreed = counts[common] >= THRESHOLDS.agreed * counts.total()
        return common if is_agreed and len(self._ranks[name]) >= THRESHOLDS.ranks else None

    def _most_common(self, name: str) -> tuple[str, ...]:
        return self._counts[name].most_common(1)[0][0]


def odd_threads(processes: Sequence[Process], ranks: Iterable[int], *, limit: int = 3) -> dict[int, list[str]]:
    """Sentences by rank. A thread is odd if most of at least three ranks agree on another stack. Linear in
    threads."""
    compared = _ThreadComparison(ranks)
    for rank, p in with_ranks(processes):
        for name, thread in _other_threads(p):
            key = key_of(thread.frames)
            if key:
                compared.add(rank, name, key)
    found: dict[int, list[str]] = defaultdict(list)
    for (rank, name), key in sorted(compared.stack_of.items()):
        usual = compared.usual(name)
        if usual is not None and usual != key and len(found[rank]) < limit:
            place = frame_text(key[0])
            usual_place = frame_text(usual[0])
            found[rank].append(f"its thread {name} is in {place}, but in {usual_place} on the other ranks")
    return dict(found)


def odd_workers(processes: Sequence[Process]) -> dict[int, str]:
    """Ranks whose workers have a stack that no peer's have, if trainers show nothing."""
    found: dict[int, str] = {}
    for role, helper in ((LOADER, "data-loader worker"), (SAVER, "checkpoint process")):
        ranks_at = _ranks_by_stack(processes, role)
        everyone = set().union(*ranks_at.values())
        if len(everyone) < THRESHOLDS.ranks:
            continue
        common = max(ranks_at.values(), key=len)
        few = max(1, THRESHOLDS.odd * len(everyone))
        for key, ranks in sorted(ranks_at.items()):
            if key and ranks is not common and len(ranks) <= few:
                reason = f"its {helper} is in {frame_text(key[0])}, that of its peers is not"
                found |= dict.fromkeys(sorted(ranks), reason)
    return found


def _ranks_by_stack(processes: Iterable[Process], role: str) -> dict[tuple[str, ...], set[int]]:
    """The ranks of the processes of one role, by the stack of their main thread."""
    ranks_at: dict[tuple[str, ...], set[int]] = defaultdict(set)
    own = (p for p in processes if p.role == role)
    for rank, p in with_ranks(own):
        main = p.dump.main()
        if main is not None and main.frames:
            ranks_at[key_of(main.frames)].add(rank)
    return ranks_at
