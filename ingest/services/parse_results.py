"""Stores what the engine found in an artifact: column files in the storage, columns on its row."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diagnosis import ParseHints
from diagnosis.files import parsed
from diagnosis.values.plain import text
from ingest import storage
from ingest.models import Artifact, Job, Run
from ingest.services.updating import update_each

#: the columns of an artifact that parsing sets
FIELDS = ("state", "kind", "lines", "problem", "notes", "parsed_key", "parsed_number", "settled_at")


def parse_hints(artifact: Artifact, job: Job) -> ParseHints:
    return ParseHints(attempt=artifact.attempt.number, time_zone=job.time_zone, bytes_total=artifact.blob.size_bytes)


def store(artifact: Artifact, result: dict[str, Any], hints: ParseHints, folder: Path) -> None:
    """Store the files that a reader wrote to ``folder`` and set the artifact's columns. The caller saves the row."""
    key = key_of(artifact, hints)
    storage.directory_take(key, folder, storage.PARSED_FILES)
    columns_set(artifact, result, key)


def columns_set(artifact: Artifact, result: dict[str, Any], key: str) -> None:
    """Set the artifact's columns. Its column files are stored under ``key``. The caller saves."""
    is_empty_member = artifact.blob.size_bytes == 0 and artifact.upload is not None and artifact.upload.is_archive
    artifact.kind = result["kind"]
    artifact.lines = result["lines"]
    artifact.parsed_key = key
    artifact.parsed_number = result.get("parsed_number")
    artifact.notes = list(dict.fromkeys([*artifact.notes, *map(text, result["notes"])]))
    # an empty stderr in an archive is normal
    artifact.problem = "" if is_empty_member else text(result["skipped"] or "")
    artifact.state = Artifact.State.SKIPPED if artifact.problem else Artifact.State.PARSED


def mark_failed(artifact: Artifact, sentence: str) -> None:
    """Set the columns of an artifact that could not be read; ``sentence`` says why."""
    artifact.state = Artifact.State.FAILED
    artifact.problem = text(sentence)


def rows_write(artifacts: Sequence[Artifact]) -> None:
    """Save the columns of :data:`FIELDS` of many rows: one save each would cost as much as reading a small log."""
    update_each(Artifact, FIELDS, [(row.pk, *(getattr(row, name) for name in FIELDS)) for row in artifacts])


def key_together(first: Artifact, run: Run, tries: int) -> str:
    """The key of files that were read together, from ``first`` on. Only the claim of ``run`` with so many ``tries`` has
    it.
    """
    return f"{first.pk % 1000:03d}/{first.pk}-{run.pk}.{tries}"


def key_of(artifact: Artifact, hints: ParseHints) -> str:
    """Equal bytes, parsed in the same way, have equal keys: parsing again overwrites the files."""
    parts = f"{parsed.FORMAT} {artifact.blob_id} {artifact.path} {hints.attempt} {hints.time_zone}"
    return f"{artifact.pk % 1000:03d}/{artifact.pk}-{hashlib.sha256(parts.encode()).hexdigest()[:12]}"
