"""Several workers read a large plain file: it is cut at line ends, the ranges are parsed, then joined."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from diagnosis import ParseHints, sniff
from diagnosis.parsing import is_divisible
from ingest import storage, temp_files
from ingest.models import Artifact, Run
from ingest.services import parse_results
from ingest.services.reading import artifact_read, engine_call
from ingest.services.runs import Work, run_enqueue

#: a smaller file is not worth cutting; in units of parsing work
WORTH_UNITS = 2
_SEEK_BYTES = 1 << 20


def is_worth_cutting(artifact: Artifact) -> bool:
    """Whether the file is a log large enough for several workers. Reads only its head."""
    if not is_large(artifact):
        return False
    return is_divisible(storage.blob_range(artifact.blob_id, 0, sniff.HEAD_BYTES), artifact.path)


def is_large(artifact: Artifact) -> bool:
    """Whether reading it in one piece would delay other work."""
    return bool(artifact.blob.size_bytes > WORTH_UNITS * settings.PARSE_UNIT_BYTES)


@transaction.atomic
def artifact_cut(artifact: Artifact, job_id: int) -> None:
    """Queue a run for each range. A second call changes nothing."""
    Artifact.objects.select_for_update().filter(pk=artifact.pk).update(state=Artifact.State.PARSING)
    if artifact.range_runs.exists():
        return
    with storage.blob_open(artifact.blob_id) as file:
        cuts = list(cut_offsets(file, artifact.blob.size_bytes, settings.PARSE_UNIT_BYTES))
    for part, (begin, end) in enumerate(itertools.pairwise(cuts)):
        run = Run.objects.create(
            job_id=job_id,
            attempt_id=artifact.attempt_id,
            kind=Run.Kind.PARSE,
            artifact=artifact,
            parameters={"part": part, "parts": len(cuts) - 1, "offset": begin, "length": end - begin},
        )
        run_enqueue(run)


def cut_offsets(file: BinaryIO, size: int, unit: int) -> Iterator[int]:
    """Where to cut: 0, then the first line start at or after each multiple of ``unit``, then ``size``.

    A line longer than a unit stays in one range. Reads little more than the lines at the cuts.
    """
    yield 0
    at = 0
    for goal in range(unit, size, unit):
        if goal < at:
            continue
        file.seek(goal)
        at = goal
        while block := file.read(_SEEK_BYTES):
            found = block.find(b"\n")
            if found >= 0:
                at += found + 1
                break
            at += len(block)
        if at >= size:
            break
        yield at
    yield size


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


def ranges_join(run: Run) -> None:
    """Queue the joining after the last range is parsed. The caller locks the artifact's row, so that exactly one is the
    last.
    """
    if run.artifact is None or "part" not in run.parameters:
        return
    ranges = Run.objects.filter(artifact=run.artifact)
    done = ranges.filter(state=Run.State.SUCCEEDED).count()
    if done == run.parameters["parts"] and ranges.count() == done:
        joining = Run.objects.create(
            job_id=run.job_id,
            attempt_id=run.attempt_id,
            kind=Run.Kind.PARSE,
            artifact=run.artifact,
            parameters={"join": done},
            is_long=True,
        )
        run_enqueue(joining)


def _read(artifact: Artifact, hints: ParseHints, work: Work, folder: Path) -> None:
    offset, length = work.run.parameters["offset"], work.run.parameters["length"]
    head = storage.blob_range(artifact.blob_id, 0, sniff.HEAD_BYTES)
    hints = replace(hints, kind=sniff.sniff(head, artifact.path), offset=offset)
    said = artifact_read(artifact, work, hints, folder, length=length)
    work.run.parameters["lines"] = said["lines"]
    work.write(parameters=work.run.parameters)  # raises if another worker holds the range now
    storage.directory_take(_part_key(artifact, hints, work.run.parameters["part"]), folder, storage.PARSED_FILES)


def _join(artifact: Artifact, hints: ParseHints, work: Work, folder: Path) -> None:
    count = work.run.parameters["join"]
    keys = [_part_key(artifact, hints, part) for part in range(count)]
    parts = [str(storage.directory_get(key, storage.PARSED_FILES, folder / "parts")) for key in keys]
    work.stage("joining", 0, count)
    whole = folder / "whole"
    said = engine_call(work, "join_ranges", parts=parts, sha256=artifact.blob_id, folder=str(whole))
    if said is None:  # one range has no complete line: read the file in one piece
        said = artifact_read(artifact, work, hints, whole)
    parse_results.store(artifact, said, hints, whole)
    artifact.settled_at = timezone.now()
    with transaction.atomic():
        work.write()
        artifact.save(update_fields=parse_results.FIELDS)
        transaction.on_commit(lambda: _forget(keys))


def _forget(keys: list[str]) -> None:
    for key in keys:
        storage.directory_delete(key, storage.PARSED_FILES)


def _part_key(artifact: Artifact, hints: ParseHints, part: int) -> str:
    return f"{parse_results.key_of(artifact, hints)}-parts/{part:05d}"
