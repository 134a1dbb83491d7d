"""Parses artifacts once, through the engine: column files go to the storage, counts to the database."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone

from ingest import storage, temp_files
from ingest.isolation import ReaderLost
from ingest.models import Artifact, Run, RunLog
from ingest.refusals import Refused, StoreAway
from ingest.services import ends, parse_results, ranges
from ingest.services.engine_calls import artifact_read, artifacts_read
from ingest.services.range_parsing import range_parse
from ingest.services.work import Postponed, Superseded, Work

log = logging.getLogger(__name__)

#: results are saved in batches of this size
_BATCH_SIZE = 100
#: files of at most this many bytes are read together, this many at a time: a call of the engine costs the same for all
_MAX_SMALL_BYTES = 256 << 10
_MAX_TOGETHER = 64
#: the digest of a larger blob is not computed again before it is read: that takes as long as a lease
MAX_DIGEST_BYTES = 16 << 30
#: results are saved at least this often, so that progress displays move
_RECORD_EVERY_S = 1.0


def artifacts_parse(work: Work) -> None:
    """Parse the artifacts of a unit, one after another. Skips those that are parsed already."""
    if work.run.artifact_id is not None:
        range_parse(work)
        return
    with temp_files.temp_dir() as folder:
        _artifacts_parse(work, folder)


def _artifacts_parse(work: Work, folder: Path) -> None:
    todo = [artifact for artifact in _artifacts(work) if artifact.settled_at is None]
    settled: list[Artifact] = []
    results: dict[int, dict[str, Any]] = {}
    read_until = 0  # small artifacts are read together
    is_again = work.run.own_tries > 1 or Run.ENDS in work.run.parameters  # then one by one, so that one file is blamed
    recorded_at = time.monotonic()
    for index, artifact in enumerate(todo):
        work.stage("parsing", index, len(todo))
        if index >= read_until and not is_again:
            results = _read_together(todo[index : index + _MAX_TOGETHER], work, folder)
            read_until = index + _MAX_TOGETHER
        changed = storage.blob_problem(artifact.blob_id, artifact.blob.size_bytes, max_bytes=MAX_DIGEST_BYTES)
        if changed:
            parse_results.mark_failed(artifact, changed)
            artifact.settled_at = timezone.now()
            settled.append(artifact)
            continue
        if artifact.range_runs.exists() if work.run.tries > 1 else ranges.is_worth_cutting(artifact):
            ranges.artifact_cut(artifact, work.run.job_id)
            continue
        if ranges.is_large(artifact):
            work.take_slot()
        if artifact.blob.size_bytes > 1 << 20 or is_again:  # the database then knows which file a worker reads
            Artifact.objects.filter(pk=artifact.pk).update(state=Artifact.State.PARSING)
        _parse_or_give_up(artifact, work, folder / str(artifact.pk), results.pop(artifact.pk, None))
        settled.append(artifact)
        if is_again or len(settled) >= _BATCH_SIZE or time.monotonic() - recorded_at > _RECORD_EVERY_S:
            _record(settled, work)
            settled, recorded_at = [], time.monotonic()
            if work.is_share_used and not results and index + 1 < len(todo):
                raise Postponed(is_long=False)
    _record(settled, work)


def _read_together(artifacts: Sequence[Artifact], work: Work, folder: Path) -> dict[int, dict[str, Any]]:
    """The results of the small ones of some artifacts, by primary key; empty for a single one."""
    small = [one for one in artifacts if one.blob.size_bytes <= _MAX_SMALL_BYTES]
    if len(small) < 2:
        return {}
    try:
        return artifacts_read([(one, parse_results.parse_hints(one, work.run.job)) for one in small], work, folder)
    except (OSError, Postponed, Superseded, Refused, StoreAway):
        raise
    except Exception:
        log.exception("%d small artifacts are read one by one", len(small))
        return {}


def _artifacts(work: Work) -> Iterator[Artifact]:
    yield from work.run.artifacts.select_related("blob", "attempt", "upload").order_by("pk")


def _parse_or_give_up(artifact: Artifact, work: Work, folder: Path, result: dict[str, Any] | None = None) -> None:
    """Parse an artifact, unless that was done: then ``result`` is what :func:`artifact_read` would return."""
    if sentence := ends.file_refusal(work.run, artifact):
        parse_results.mark_failed(artifact, sentence)
        artifact.settled_at = timezone.now()
        return
    hints = parse_results.parse_hints(artifact, work.run.job)
    try:
        parse_results.store(artifact, result or artifact_read(artifact, work, hints, folder), hints, folder)
    except ReaderLost as lost:
        log.warning("artifact %s cannot be parsed: %s", artifact.pk, lost)
        parse_results.mark_failed(artifact, str(lost))
    except (OSError, Postponed, Superseded, Refused, StoreAway):
        raise
    except Exception as error:
        log.exception("artifact %s cannot be parsed", artifact.pk)
        parse_results.mark_failed(
            artifact,
            f"Reading this failed unexpectedly ({type(error).__name__}: {error}). The rest of the job was read; "
            "retry it, and report the file if it stays.",
        )
    artifact.settled_at = timezone.now()


def _record(settled: list[Artifact], work: Work) -> None:
    if not settled:
        return
    with transaction.atomic():
        work.record()  # raises if another worker holds the run now
        parse_results.rows_write(settled)
    size_bytes = sum(artifact.blob.size_bytes for artifact in settled)
    work.count(files=len(settled), size_bytes=size_bytes, lines=sum(artifact.lines or 0 for artifact in settled))
    for artifact in settled:
        if artifact.problem:
            work.log(artifact.problem, level=RunLog.Level.WARNING, path=artifact.path)
