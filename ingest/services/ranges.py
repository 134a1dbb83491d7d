"""Cuts a large plain file at line ends into ranges, so that several workers read it (:mod:`range_parsing`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import BinaryIO

from django.conf import settings
from django.db import transaction

from diagnosis.files.recognise import is_divisible
from diagnosis.kinds.evidence_kind import HEAD_BYTES
from ingest import storage
from ingest.models import Artifact, Run
from ingest.services.sending import run_enqueue

#: a smaller file is not worth cutting; in units of parsing work
MIN_UNITS = 2
_SEEK_BYTES = 1 << 20


def is_worth_cutting(artifact: Artifact) -> bool:
    """Whether the file is a log large enough for several workers. Reads only its head."""
    if not is_large(artifact):
        return False
    return is_divisible(storage.blob_range(artifact.blob_id, 0, HEAD_BYTES), artifact.path)


def is_large(artifact: Artifact) -> bool:
    """Whether reading it in one piece would delay other work."""
    return bool(artifact.blob.size_bytes > MIN_UNITS * settings.PARSE_UNIT_BYTES)


@transaction.atomic
def artifact_cut(artifact: Artifact, job_id: int) -> None:
    """Queue a run for each range. A second call changes nothing."""
    Artifact.objects.filter(pk=artifact.pk).update(state=Artifact.State.PARSING)  # and locks it
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
            newline = block.find(b"\n")
            if newline >= 0:
                at += newline + 1
                break
            at += len(block)
        if at >= size:
            break
        yield at
    yield size
