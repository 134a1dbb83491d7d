"""The kept lines of condensed logs: one table for all logs of an attempt, stored as a blob."""

from __future__ import annotations

from pathlib import Path

from diagnosis.files import kept_lines
from ingest import storage, temp_files
from ingest.models import Artifact, Blob


def kept_lines_put(table: Path) -> Blob:
    """Store a table of kept lines; ``table`` is moved."""
    sha256, size = storage.digest_of(table), table.stat().st_size
    storage.blob_put(table, sha256)
    return Blob.objects.get_or_create(sha256=sha256, defaults={"size_bytes": size})[0]


def kept_lines_forget(artifact: Artifact) -> None:
    """Store the table again without the lines of this artifact, which is being deleted."""
    if artifact.kept_id is None:
        return
    with storage.blob_open(artifact.kept_id) as file:
        data = file.read()
    with temp_files.temp_dir() as folder:
        remaining = folder / "kept.parquet"
        kept_lines.write_without(data, artifact.path, remaining)
        blob = kept_lines_put(remaining)
    Artifact.objects.filter(attempt=artifact.attempt_id, kept=artifact.kept_id).update(kept=blob)
