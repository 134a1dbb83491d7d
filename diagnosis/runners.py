"""Who else may do parts of an analysis (:class:`diagnosis.model.Runner`), besides the site's own workers: a Dask
cluster, whose number of workers and whose end are its owner's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from diagnosis.kinds.flows.capture.partitions import run_part

if TYPE_CHECKING:
    from distributed import Client


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
