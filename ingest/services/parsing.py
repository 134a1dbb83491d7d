"""Reads artifacts once, through the engine, and keeps what it says: column files in storage, counts in the database."""

from __future__ import annotations

import hashlib
import logging
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from diagnosis import Kind, Parsed, ParseHints, parse, parsed
from ingest import storage
from ingest.models import Artifact, Job, RunLog
from ingest.services.runs import Work

log = logging.getLogger(__name__)

#: outcomes are written in batches of this many
_BATCH = 100
#: and at least this often, so that whoever watches sees it go on
_RECORD_EVERY_S = 1.0
_FIELDS = ("state", "kind", "lines", "problem", "notes", "parsed_key", "settled_at")


def artifacts_parse(work: Work) -> None:
    """Read the artifacts of a unit, one after another. Those that are settled already are passed over."""
    job = Job.objects.get(pk=work.run.job_id)
    todo = [artifact for artifact in _artifacts(work) if artifact.settled_at is None]
    settled: list[Artifact] = []
    recorded_at = time.monotonic()
    is_second_try = work.run.tries > 1
    for done, artifact in enumerate(todo):
        work.stage("parsing", done, len(todo))
        if is_second_try and artifact.state == Artifact.State.PARSING:
            _give_up(artifact)
        else:
            if artifact.blob.size_bytes > 1 << 20 or is_second_try:  # so that the one that ends a worker is known
                Artifact.objects.filter(pk=artifact.pk).update(state=Artifact.State.PARSING)
            _parse(artifact, job, work)
        settled.append(artifact)
        if len(settled) >= _BATCH or time.monotonic() - recorded_at > _RECORD_EVERY_S:
            _record(settled, work)
            settled, recorded_at = [], time.monotonic()
    _record(settled, work)


def _artifacts(work: Work) -> Iterator[Artifact]:
    yield from work.run.artifacts.select_related("blob", "attempt", "upload").order_by("pk")


def _parse(artifact: Artifact, job: Job, work: Work) -> None:
    hints = ParseHints(attempt=artifact.attempt.number, time_zone=job.time_zone, bytes_total=artifact.blob.size_bytes)
    with tempfile.TemporaryDirectory(prefix="faultline-parse-") as folder:
        try:
            with storage.blob_open(artifact.blob_id) as file:
                result = parse(_Beating(file, work), artifact.path, hints, Path(folder))  # type: ignore[arg-type]
            _keep(artifact, result, hints, Path(folder))
        except OSError:
            raise
        except Exception as error:
            log.exception("artifact %s cannot be parsed", artifact.pk)
            artifact.state = Artifact.State.FAILED
            artifact.problem = (
                f"Reading this failed unexpectedly ({type(error).__name__}: {error}). The rest of the job was read; "
                "retry it, and report the file if it stays."
            )
    artifact.settled_at = timezone.now()


def _keep(artifact: Artifact, result: Parsed, hints: ParseHints, folder: Path) -> None:
    parsed.save(result, folder)
    key = _key(artifact, hints)
    storage.directory_put(key, [folder / name for name in storage.PARSED_FILES if (folder / name).exists()])
    is_empty_member = artifact.blob.size_bytes == 0 and artifact.upload is not None and artifact.upload.is_archive
    artifact.kind = result.kind.value
    artifact.lines = result.lines
    artifact.parsed_key = key
    artifact.notes = list(dict.fromkeys([*artifact.notes, *result.notes]))
    artifact.problem = "" if is_empty_member else result.skipped or ""  # an empty stderr in a tree is the usual thing
    artifact.state = Artifact.State.SKIPPED if artifact.problem else Artifact.State.PARSED


def _key(artifact: Artifact, hints: ParseHints) -> str:
    """The same bytes read in the same way lie at the same place: doing it again overwrites, and adds nothing."""
    said = f"{parsed.FORMAT} {artifact.blob_id} {artifact.path} {hints.attempt} {hints.time_zone}"
    return f"{artifact.pk % 1000:03d}/{artifact.pk}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def _record(settled: list[Artifact], work: Work) -> None:
    if not settled:
        return
    with transaction.atomic():
        work.write()  # raises when another worker holds the run by now
        Artifact.objects.bulk_update(settled, _FIELDS, batch_size=_BATCH)
    for artifact in settled:
        if artifact.problem:
            work.log(artifact.problem, level=RunLog.Level.WARNING, path=artifact.path)


def _give_up(artifact: Artifact) -> None:
    artifact.state = Artifact.State.FAILED
    artifact.settled_at = timezone.now()
    artifact.problem = (
        "The worker that read this died, perhaps for want of memory: it was left out and the rest was read. "
        "Send it in smaller parts, or give the workers more memory and retry."
    )


class _Beating:
    """A stream that tells, as it is read, that the work goes on."""

    def __init__(self, file: object, work: Work) -> None:
        self._file = file
        self._work = work

    def read(self, size: int = -1) -> bytes:
        self._work.beat()
        data: bytes = self._file.read(size)  # type: ignore[attr-defined]
        return data


def can_split(head_kind: Kind, size_bytes: int) -> bool:
    """Whether a plain file is worth cutting: a log of several units."""
    return head_kind in (Kind.LOG, Kind.KERNEL, Kind.SCHEDULER) and size_bytes > 2 * settings.PARSE_UNIT_BYTES
