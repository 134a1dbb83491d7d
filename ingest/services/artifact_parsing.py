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
from ingest.services.column_files import column_files_free, column_files_free_left, column_files_kept
from ingest.services.engine_calls import artifact_read, artifacts_read
from ingest.services.range_parsing import range_parse
from ingest.services.work import Postponed, Superseded, Work

log = logging.getLogger(__name__)

#: files of at most this many bytes are read together, with common tables: so many, and so many
#: bytes at a time. A call of the engine, a table and a directory cost the same for one line as for
#: thousands
_MAX_SMALL_BYTES = 256 << 10
_MAX_TOGETHER = 500
_MAX_BYTES_TOGETHER = 16 << 20
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
    done = 0
    if todo:
        _free_left_of_claims(todo[0], work.run)
    while done < len(todo):
        batch = _batch_of(todo, done)
        former_keys = {artifact.parsed_key for artifact in batch}
        key = parse_results.key_together(batch[0], work.run, work.run.tries)
        with column_files_kept(key):
            _batch_parse(batch, key, work, folder, done, len(todo))
        column_files_free(former_keys)
        done += len(batch)


def _free_left_of_claims(first: Artifact, run: Run) -> None:
    """Delete what workers stored that were killed before they recorded it: also those before the last
    one, which may have been killed before it came here.
    """
    for tries in range(1, run.tries):
        column_files_free_left(parse_results.key_together(first, run, tries))


def _batch_of(artifacts: Sequence[Artifact], begin: int) -> list[Artifact]:
    """The next artifacts whose small ones are read together."""
    batch: list[Artifact] = []
    size_bytes = 0
    for artifact in artifacts[begin : begin + _MAX_TOGETHER]:
        if artifact.blob.size_bytes <= _MAX_SMALL_BYTES:
            size_bytes += artifact.blob.size_bytes
        if batch and size_bytes > _MAX_BYTES_TOGETHER:
            break
        batch.append(artifact)
    return batch


def _batch_parse(batch: Sequence[Artifact], key: str, work: Work, folder: Path, before: int, total: int) -> None:
    """Parse a batch and record it. ``key``: of common column files. ``before``: the artifacts before
    it, of ``total``.

    Raises :class:`Postponed` if others wait; then nothing that was read is lost.
    """
    is_again = work.run.own_tries > 1 or Run.ENDS in work.run.parameters  # then one by one, so that one file is blamed
    results = {} if is_again else _read_together(batch, key, work, folder)
    settled: list[Artifact] = []
    recorded_at = time.monotonic()
    for number, artifact in enumerate(batch, 1):
        work.stage("parsing", before + number - 1, total)
        result = results.pop(artifact.pk, None)
        if result is not None:
            _take_result(artifact, result, key)
        elif not _parse_or_cut(artifact, work, folder, is_again=is_again):
            continue
        settled.append(artifact)
        if is_again or time.monotonic() - recorded_at > _RECORD_EVERY_S:
            _record(settled, work)
            settled, recorded_at = [], time.monotonic()
            if work.is_share_used and not results and before + number < total:
                raise Postponed(is_long=False)
    _record(settled, work)
    if work.is_share_used and before + len(batch) < total:
        raise Postponed(is_long=False)


def _take_result(artifact: Artifact, result: dict[str, Any], key: str) -> None:
    """Set the columns of an artifact that was read with others."""
    if result["sha256"] == artifact.blob_id:
        parse_results.columns_set(artifact, result, key)
    else:
        parse_results.mark_failed(artifact, storage.BLOB_CHANGED)
    artifact.settled_at = timezone.now()


def _parse_or_cut(artifact: Artifact, work: Work, folder: Path, *, is_again: bool) -> bool:
    """Parse an artifact by itself. False: it was cut into ranges instead."""
    size_bytes = artifact.blob.size_bytes
    if changed := storage.blob_problem(artifact.blob_id, size_bytes, max_bytes=MAX_DIGEST_BYTES):
        parse_results.mark_failed(artifact, changed)
        artifact.settled_at = timezone.now()
        return True
    if artifact.range_runs.exists() if work.run.tries > 1 else ranges.is_worth_cutting(artifact):
        ranges.artifact_cut(artifact, work.run.job_id)
        return False
    if ranges.is_large(artifact):
        work.take_slot()
    if size_bytes > 1 << 20 or is_again:  # the database then knows which file a worker reads
        Artifact.objects.filter(pk=artifact.pk).update(state=Artifact.State.PARSING)
    _parse_or_give_up(artifact, work, folder / str(artifact.pk))
    return True


def _read_together(batch: Sequence[Artifact], key: str, work: Work, folder: Path) -> dict[int, dict[str, Any]]:
    """The results of the small ones of a batch, by primary key; empty for a single one. Their column
    files are stored under ``key``.
    """
    small = [one for one in batch if one.blob.size_bytes <= _MAX_SMALL_BYTES]
    if len(small) < 2:
        return {}
    common = folder / f"together-{small[0].pk}"
    try:
        hinted = [(one, parse_results.parse_hints(one, work.run.job)) for one in small]
        results = artifacts_read(hinted, work, common)
    except (OSError, Postponed, Superseded, Refused, StoreAway):
        raise
    except Exception:
        log.exception("%d small artifacts are read one by one", len(small))
        return {}
    if results:
        storage.directory_take(key, common, storage.PARSED_FILES)
    return results


def _artifacts(work: Work) -> Iterator[Artifact]:
    rows = work.run.artifacts.select_related("blob").order_by("pk")
    yield from rows.prefetch_related("attempt", "upload")  # they have few of them in common


def _parse_or_give_up(artifact: Artifact, work: Work, folder: Path) -> None:
    """Parse an artifact by itself."""
    if sentence := ends.file_refusal(work.run, artifact):
        parse_results.mark_failed(artifact, sentence)
        artifact.settled_at = timezone.now()
        return
    hints = parse_results.parse_hints(artifact, work.run.job)
    try:
        parse_results.store(artifact, artifact_read(artifact, work, hints, folder), hints, folder)
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
