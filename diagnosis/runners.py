"""Who else may do parts of an analysis (:class:`diagnosis.model.Runner`), besides the site's own workers:
processes of this machine, and a Dask cluster. Whoever starts these owns their number and their end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

from diagnosis.flows.partitions import do

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True, slots=True)
class Processes:
    """Parts are done by the processes of ``pool``. A process that dies ends the analysis with ``BrokenProcessPool``."""

    pool: ProcessPoolExecutor
    is_far: bool = False

    def __call__(self, function: str, parts: Sequence[bytes], folder: Path) -> Iterator[bytes]:
        return self.pool.map(do, repeat(function), parts, repeat(folder))


@dataclass(frozen=True, slots=True)
class Dask:
    """Parts are done by the workers of a Dask cluster, which must see ``folder`` under its own name. The parts of a
    worker that dies are done by another one, as often as the cluster's ``allowed-failures`` says.
    """

    client: Client
    is_far: bool = True

    def __call__(self, function: str, parts: Sequence[bytes], folder: Path) -> Iterator[bytes]:
        futures = self.client.map(do, repeat(function, len(parts)), parts, repeat(folder, len(parts)), pure=False)
        for future in futures:
            yield future.result()
