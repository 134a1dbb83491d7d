"""Tables of a diagnosis that are too large for its report. Its pages read them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ingest import storage
from triage.models import Diagnosis

_NAME = re.compile(r"[\w.-]{1,100}\.parquet")


def key_of(diagnosis: Diagnosis) -> str:
    return f"diagnoses/{diagnosis.pk}"


def tables_store(diagnosis: Diagnosis, folder: Path) -> None:
    """Move the tables of ``folder`` to the ``parsed`` storage. A task that runs twice replaces them with equal ones."""
    if folder.is_dir():
        storage.directory_put(key_of(diagnosis), sorted(folder.glob("*.parquet")))


def tables_delete(keys: Iterable[str]) -> None:
    """Delete the tables of deleted diagnoses."""
    for key in keys:
        storage.directory_delete(key, storage.directory_names(key))


def table_path(diagnosis: Diagnosis, name: str) -> Path | None:
    """A local path to one table, copied once if the storage is remote; None if the diagnosis has no such table."""
    if not _NAME.fullmatch(name):
        return None
    lanes_file = f"{name.removesuffix('.parquet')}.lanes.parquet"
    path = storage.directory_get(key_of(diagnosis), (lanes_file, name)) / name
    return path if path.exists() else None
