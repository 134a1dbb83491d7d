"""Who else may do parts of an analysis (:class:`diagnosis.model.Runner`), besides the site's own workers: processes of
this machine, for the command line; and a Dask cluster, whose number of workers and whose end are its owner's.
"""

from __future__ import annotations

import importlib
import resource
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from diagnosis.kinds.flows.capture.partitions import run_part
from diagnosis.processing.faults import MemoryLimitReached

if TYPE_CHECKING:
    from distributed import Client


_TOO_MUCH: Final = (
    "One of its processes needs more than {size:,} MB, which `--memory-mb` allows: allow more. "
    "A large job that is analysed whole takes most."
)


class Processes:
    """Parts are done by ``many`` processes of this machine, which start when the first parts come and end with the
    ``with`` statement. Each takes the memory of a piece of records, about 200 MB, or of a whole job.
    If the system ends one of them, this process does what is left; with a limit of ``memory_bytes``
    for each, ``MemoryLimitReached`` is raised. Files that are mapped do not count.
    """

    is_far = False

    def __init__(self, many: int, memory_bytes: int = 0) -> None:
        self._many = many
        self._memory_bytes = memory_bytes
        self._begun: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._begun is not None:
            self._begun.shutdown(cancel_futures=True)

    def __call__(self, function: str, parts: Sequence[bytes], folder: Path) -> Iterator[bytes]:
        begun = [self._begin(partial(run_part, function, part, folder)) for part in parts]
        return (answer() for answer in begun)

    def _begin(self, part: Callable[[], bytes]) -> Callable[[], bytes]:
        """Begins a part; returns what waits for its answer."""
        try:
            future = self._pool().submit(part)
        except BrokenProcessPool:
            return partial(self._instead, part)

        def answer() -> bytes:
            try:
                return future.result()
            except BrokenProcessPool:
                return self._instead(part)
            except MemoryError as error:
                raise self._limit_reached() from error

        return answer

    def _instead(self, part: Callable[[], bytes]) -> bytes:
        """A part that another process did not survive: without memory, native code ends it."""
        if self._memory_bytes:
            raise self._limit_reached()
        return part()

    def _limit_reached(self) -> MemoryLimitReached:
        return MemoryLimitReached(_TOO_MUCH.format(size=self._memory_bytes >> 20))

    def _pool(self) -> ProcessPoolExecutor:
        """The processes. Their pool alone starts a process that cleans up, so few jobs should have it."""
        if self._begun is None:
            spawned = get_context("spawn")  # this one has threads of polars
            self._begun = ProcessPoolExecutor(self._many, spawned, _keep_below, (self._memory_bytes,))
        return self._begun


def _keep_below(memory_bytes: int) -> None:
    """Lets this process have so much memory beside the engine's own (0: any)."""
    if not memory_bytes:
        return
    importlib.import_module("diagnosis.kinds.flows.tell.engine")  # what it takes is no part's
    pages = int(Path("/proc/self/statm").read_text().split()[5])  # of data and stack
    most = pages * resource.getpagesize() + memory_bytes
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


class Dask:
    """Parts are done by the workers of the Dask cluster whose scheduler is at ``address``. They need this package in
    the same version, and must see ``folder`` under its own name. What a worker that dies had is done by another one, as
    often as the cluster's ``allowed-failures`` says. Connects when the first parts come; raises ``OSError`` if nobody
    answers there.
    """

    is_far = True

    def __init__(self, address: str) -> None:
        self._address = address
        self._client: Client | None = None

    def __call__(self, function: str, parts: Sequence[bytes], folder: Path) -> Iterator[bytes]:
        if self._client is None:
            from distributed import Client  # noqa: PLC0415  # an extra, heavy

            self._client = Client(self._address, set_as_default=False)
        many = len(parts)
        futures = self._client.map(run_part, [function] * many, parts, [folder] * many, pure=False)
        return (future.result() for future in futures)
