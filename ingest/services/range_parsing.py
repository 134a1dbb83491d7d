"""Parses one range of a large file, and joins the ranges of a file into one result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from django.db import transaction
from django.utils import timezone
from msgspec.structs import replace

from diagnosis import ParseHints
from diagnosis.kinds import kind_table
from diagnosis.kinds.evidence_kind import HEAD_BYTES
from ingest import storage, sums, temp_files
from ingest.models import Artifact
from ingest.services import parse_results
from ingest.services.engine_calls import artifact_read, engine_call
from ingest.services.work import Work

_COLUMN_FILE = storage.PARSED_FILES[0]
#: of a range: what its file needs, which joins it; the columns stay where they are
_JOINED_FILES = tuple(name for name in storage.PARSED_FILES[1:] if name != sums.NAME)


def range_parse(work: Work) -> None:
    """Parse one range, or join the ranges."""
    artifact = Artifact.objects.select_related("blob", "attempt", "upload").get(range_runs=work.run)
    if artifact.state in (Artifact.State.PARSED, Artifact.State.SKIPPED):
        return
    hints = parse_results.parse_hints(artifact, work.run.job)
    with temp_files.temp_dir() as folder:
        if "part" in work.run.parameters:
            _read(artifact, hints, work, folder / "part")
        else:
            _join(artifact, hints, work, folder)


def _read(artifact: Artifact, hints: ParseHints, work: Work, folder: Path) -> None:
    offset, length = work.run.parameters["offset"], work.run.parameters["length"]
    head = storage.blob_range(artifact.blob_id, 0, HEAD_BYTES)
    hints = replace(hints, kind=kind_table.kind_of(head, artifact.path), offset=offset)
    result = artifact_read(artifact, work, hints, folder, length=length)
    work.run.parameters["lines"] = result["lines"]
    work.write(parameters=work.run.parameters)  # raises if another worker holds the range now
    storage.directory_take(_part_key(artifact, hints, work.run.parameters["part"]), folder, storage.PARSED_FILES)
    work.count(size_bytes=length, lines=result["lines"])


def _join(artifact: Artifact, hints: ParseHints, work: Work, folder: Path) -> None:
    count = work.run.parameters["join"]
    keys = [_part_key(artifact, hints, part) for part in range(count)]
    parts = [str(storage.directory_get(key, _JOINED_FILES, folder / "parts")) for key in keys]
    work.stage("joining", 0, count)
    folder_of_file = folder / "whole"
    files = [f"{_part_name(part)}/{_COLUMN_FILE}" for part in range(count)]
    result = engine_call(
        work,
        "join_ranges",
        input_bytes=artifact.blob.size_bytes,
        parts=parts,
        files=files,
        sha256=artifact.blob_id,
        folder=str(folder_of_file),
    )
    is_whole = result is None
    if result is None:  # one range has no complete line: read the file in one piece
        result = artifact_read(artifact, work, hints, folder_of_file)
    parse_results.store(artifact, result, hints, folder_of_file)
    artifact.settled_at = timezone.now()
    with transaction.atomic():
        work.write()
        artifact.save(update_fields=parse_results.FIELDS)
        work.count(files=1)
        transaction.on_commit(lambda: _delete_files(keys, storage.PARSED_FILES if is_whole else _JOINED_FILES))


def _delete_files(keys: list[str], names: Sequence[str]) -> None:
    for key in keys:
        storage.directory_delete(key, names)


def _part_key(artifact: Artifact, hints: ParseHints, part: int) -> str:
    return f"{parse_results.key_of(artifact, hints)}/{_part_name(part)}"


def _part_name(part: int) -> str:
    return f"{part:05d}"
