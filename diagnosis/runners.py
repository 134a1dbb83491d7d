"""Who else may do parts of an analysis (:class:`diagnosis.model.Runner`), besides the site's own workers: processes of
this machine, for the command line; and a Dask cluster, whose number of workers and whose end are its owner's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Self

from diagnosis.kinds.flows.capture.partitions import run_part

if TYPE_CHECKING:
    from distributed import Client


class Processes:
    """Parts are done by ``many`` processes of this machine, which start when the first parts come and end with the
    ``with`` statement. Each takes the memory of a piece of records, about 200 MB. If the system ends one of them, this
    process does what is left.
    """

    is_far = False

    def __init__(self, many: int) -> None:
        self._many = many
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
            return part

        def answer() -> bytes:
            try:
                return future.result()
            except BrokenProcessPool:
                return part()

        return answer

    def _pool(self) -> ProcessPoolExecutor:
        """The processes. Their pool alone starts a process that cleans up, so few jobs should have it."""
        if self._begun is None:
            self._begun = ProcessPoolExecutor(self._many, get_context("spawn"))  # this one has threads of polars
        return self._begun


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
