"""Compares the other threads and the child processes of an accused rank with those of its peers.

A trainer that waits for its data loader is the symptom; the loader's own thread or worker shows the origin.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from diagnosis.kinds.stacks.ranks.cluster import key_of
from diagnosis.kinds.stacks.ranks.dumped_processes import LOADER, SAVER, TRAINER, Process
from diagnosis.kinds.stacks.read.stack_frames import Thread, frame_text

_NUMBER = re.compile(r"[-_]?\d+")


def _names(process: Process) -> Iterable[tuple[str, Thread]]:
    main = process.dump.main() if process.role == TRAINER else None
    for thread in process.dump.threads:
        if thread is not main and thread.frames:
            yield (
                (f"{process.role}: " if process.role != TRAINER else "")
                + (_NUMBER.sub("", thread.name) or "unnamed thread"),
                thread,
            )


def odd_threads(processes: Sequence[Process], ranks: Iterable[int], *, limit: int = 3) -> dict[int, list[str]]:
    """Sentences by rank. A thread is odd if most of at least three ranks agree on another stack. Linear in
    threads."""
    wanted = set(ranks)
    seen: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    holders: dict[str, set[int]] = defaultdict(set)
    stack_of: dict[tuple[int, str], tuple[str, ...]] = {}
    for p in processes:
        if p.rank is None:
            continue
        for name, thread in _names(p):
            key = key_of(thread.frames)
            if not key:
                continue
            seen[name][key] += 1
            holders[name].add(p.rank)
            if p.rank in wanted:
                earlier = stack_of.get((p.rank, name))
                common = seen[name].most_common(1)[0][0]
                stack_of[p.rank, name] = key if earlier is None or earlier == common else earlier
    found: dict[int, list[str]] = defaultdict(list)
    for (rank, name), key in sorted(stack_of.items()):
        common, count = seen[name].most_common(1)[0]
        if (
            key != common
            and len(holders[name]) >= 3
            and count >= 0.5 * sum(seen[name].values())
            and len(found[rank]) < limit
        ):
            found[rank].append(f"its {name} is in {frame_text(key[0])}, that of its peers in {frame_text(common[0])}")
    return dict(found)


def odd_workers(processes: Sequence[Process]) -> dict[int, str]:
    """Ranks whose data-loader workers or checkpoint savers have a stack that no peer's have: used if the trainers show
    nothing.
    """
    found: dict[int, str] = {}
    for role, helper in ((LOADER, "data-loader worker"), (SAVER, "checkpoint process")):
        at: dict[tuple[str, ...], set[int]] = defaultdict(set)
        for p in processes:
            main = p.dump.main()
            if p.role == role and p.rank is not None and main is not None and main.frames:
                at[key_of(main.frames)].add(p.rank)
        everyone = set().union(*at.values())
        common = max(at.values(), key=len, default=set())
        for key, ranks in sorted(at.items()):
            if len(everyone) >= 3 and key and ranks is not common and len(ranks) <= max(1, 0.25 * len(everyone)):
                found |= dict.fromkeys(
                    sorted(ranks), f"its {helper} is in {frame_text(key[0])}, that of its peers is not"
                )
    return found
