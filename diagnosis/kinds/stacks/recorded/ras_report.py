"""What one NCCL RAS report states: the communicators of a job, and its dead processes.

The records are stored as plain objects among the facts of an artifact. Ranks are counted within a communicator.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec


class RasPlace(msgspec.Struct, frozen=True):
    """Where a rank runs. ``gpu`` as NCCL writes it; ``pid`` None if unknown."""

    node: str = ""
    pid: int | None = None
    gpu: str = ""


class RasProcess(msgspec.Struct, frozen=True):
    """A process that is silent or dead. ``rank`` within its communicator, None if the report does not say."""

    rank: int | None
    node: str
    pid: int | None = None
    gpu: str = ""
    is_dead: bool = False

    @property
    def key(self) -> tuple[str, int | None]:
        """Tells processes of one report apart."""
        return self.node, self.pid


class Communicator(msgspec.Struct):
    """One communicator. ``size`` in ranks, 0 if unknown; ``errors`` as the report writes them; ``counts`` of operations
    launched, by rank (as text) and operation; ``most``: the count that most ranks have; ``silent``: ranks that did not
    answer; ``places`` by rank.
    """

    id: str
    size: int = 0
    errors: str = ""
    counts: dict[str, dict[str, int]] = {}
    most: dict[str, int] = {}
    silent: list[RasProcess] = []
    places: dict[str, RasPlace] = {}

    def is_sound(self) -> bool:
        """Whether all ranks answer, report no error and have launched as many operations."""
        is_even = all(counts == self.most for counts in self.counts.values())
        return is_even and not self.errors and not self.silent

    def processes(self) -> set[tuple[str, int, str]]:
        """Node, process and GPU of all ranks whose process is known."""
        every: list[RasPlace | RasProcess] = [*self.places.values(), *self.silent]
        return {(one.node, one.pid, one.gpu) for one in every if one.pid}


class RasReport(msgspec.Struct):
    """One snapshot. ``dead``: processes without a rank; ``gpus``: all that answered."""

    comms: list[Communicator] = []
    dead: list[RasProcess] = []
    gpus: int = 0

    def is_sound(self) -> bool:
        """Whether nobody is dead, silent or behind: a job that runs."""
        return not self.dead and all(comm.is_sound() for comm in self.comms)

    def job_size(self) -> int:
        """Size of the communicator with every process of the job, else 0. Linear in ranks."""
        processes = [comm.processes() for comm in self.comms]
        everyone = set().union(*processes)
        # The text lists only some places, but counts all GPUs that answered.
        total = self.gpus + len(self.dead) if self.gpus else len(everyone)
        size = 0
        for comm, own in zip(self.comms, processes, strict=True):
            is_whole = bool(self.gpus) or own == everyone
            if comm.size == total and is_whole:
                size = max(size, comm.size)
        return size


def most_frequent_counts(rows: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The count of each operation that most ranks have, the larger one of equals."""
    seen: dict[str, Counter[int]] = defaultdict(Counter)
    for row in rows:
        for operation, count in row.items():
            seen[operation][count] += 1
    return {operation: _most_frequent(counts) for operation, counts in seen.items()}


def _most_frequent(counts: Counter[int]) -> int:
    return max(counts, key=lambda count: (counts[count], count))
