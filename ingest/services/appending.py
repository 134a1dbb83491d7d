"""Appends pushed rows to the files of an attempt: each batch of a source once, and only what the database confirms.

The row of an upload says how many bytes count. A request locks the part files, cuts off what an interrupted request
left behind the confirmed bytes, writes, syncs, and confirms size and digest of all files in one transaction. If it ends
before that, the sender repeats it and nothing is doubled.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from typing import Any, BinaryIO, Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from ingest.models import Artifact, Attempt, Upload
from ingest.refusals import Refused
from ingest.services.resuming import lock_part, part_path_of, upload_close
from ingest.services.updating import update_each
from ingest.wire.rows import DIGEST_BYTES, Rows, digest_of, form_of, lines_of

log = logging.getLogger(__name__)

#: remembered batches of one source
MAX_RECENT: Final = 256
#: files that are locked and written together
_MAX_TOGETHER = 64
#: file systems commit what several threads sync together: 16 files in 8 ms instead of 60
_syncing = ThreadPoolExecutor(16, "sync")
#: maximum wait for another request that writes to one of the files
_WAIT_S = 10.0
_LOST_AFTER = timedelta(minutes=1)
_BUSY = "Other batches of this job are being stored: send this one again in a few seconds."


class AppendResult:
    """What became of the rows of one attempt. ``problems``: sentence -> rows."""

    def __init__(self) -> None:
        self.stored = self.repeated = 0
        self.problems: dict[str, int] = {}

    def refuse(self, sentence: str, rows: int) -> None:
        self.problems[sentence] = self.problems.get(sentence, 0) + rows


def rows_append(*, attempt: Attempt, batches: Mapping[str, Rows], user: Any = None) -> AppendResult:
    """Append the rows of each source (a path within the attempt) to its open file; a new file begins where none is
    open.

    Raises :class:`Refused` (503) while other requests hold the files. Nothing of an unconfirmed part stays.
    O(rows), and three queries for 64 sources.
    """
    result = AppendResult()
    names = sorted(batches if len(batches) <= _MAX_TOGETHER else _allowed_sources(attempt, batches, result))
    for first in range(0, len(names), _MAX_TOGETHER):
        part = {name: batches[name] for name in names[first : first + _MAX_TOGETHER]}
        for _ in range(3):  # a file may be completed before it is locked: its rows then begin a new one
            uploads, refused = _open_uploads(attempt, part, user, result)
            part = {name: rows for name, rows in part.items() if name not in refused}
            remaining = _append(uploads, part, result)
            part = {name: rows for name, rows in part.items() if name in remaining or name not in uploads}
            if not part:
                break
        else:
            raise Refused(_BUSY, code="busy", status=503)
    return result


def _allowed_sources(attempt: Attempt, batches: Mapping[str, Rows], result: AppendResult) -> list[str]:
    """The sources of a large request that may be stored; the others are refused at once."""
    live = Upload.objects.filter(attempt=attempt, state=Upload.State.RECEIVING, size_bytes=None)
    open_sources = set(live.values_list("source", flat=True))
    fresh = [name for name in batches if name not in open_sources]
    room = max(0, settings.COLLECTOR_SOURCES - live.count())
    _refuse_sources(fresh[room:], batches, result)
    over = set(fresh[room:])
    return [name for name in batches if name not in over]


def _refuse_sources(names: Sequence[str], batches: Mapping[str, Rows], result: AppendResult) -> None:
    sentence = (
        f"This attempt has {settings.COLLECTOR_SOURCES:,} growing files, the limit of this server: route more lines to "
        "one file (Faultline-Source-From)."
    )
    if names:
        result.refuse(sentence, sum(len(batches[name]) for name in names))


def _open_uploads(
    attempt: Attempt, batches: Mapping[str, Rows], user: Any, result: AppendResult
) -> tuple[dict[str, Upload], set[str]]:
    """The open uploads of these sources, made where missing, and the sources that are refused."""
    uploads = _growing_uploads(attempt, batches)
    missing = [name for name in batches if name not in uploads]
    room = len(missing)
    if missing:
        live = Upload.objects.filter(attempt=attempt, state=Upload.State.RECEIVING, size_bytes=None).count()
        room = max(0, settings.COLLECTOR_SOURCES - live)
        _refuse_sources(missing[room:], batches, result)
        former = Upload.objects.filter(attempt=attempt, source__in=missing[:room]).order_by("pk")
        recent = dict(former.values_list("source", "recent_batches"))  # a batch of a complete file may come again
        new_uploads = [
            _new_upload(attempt, name, batches[name], user, bytes(recent.get(name, b""))) for name in missing[:room]
        ]
        for upload in new_uploads:
            part_path_of(upload).touch()
        Upload.objects.bulk_create(new_uploads, ignore_conflicts=True)  # another request may have begun one
        uploads = _growing_uploads(attempt, batches)
        for upload in new_uploads:
            if upload.source not in uploads or uploads[upload.source].pk != upload.pk:
                part_path_of(upload).unlink(missing_ok=True)
    return uploads, set(missing[room:])


def _growing_uploads(attempt: Attempt, names: Mapping[str, Any]) -> dict[str, Upload]:
    uploads = Upload.objects.filter(attempt=attempt, source__in=list(names), state=Upload.State.RECEIVING)
    return {upload.source: upload for upload in uploads.only("pk", "source", "line_form", "updated_at")}


def _new_upload(attempt: Attempt, name: str, rows: Rows, user: Any, recent: bytes) -> Upload:
    """Its path is the name; lines after the end of an earlier file of that name get a path of their own."""
    path, count = name, 1
    while (
        Upload.objects.filter(attempt=attempt, path=path).exclude(state=Upload.State.REFUSED).exists()
        or Artifact.objects.filter(attempt=attempt, path=path).exists()
    ):
        count += 1
        path = f"{name}.{count}"
    return Upload(
        job_id=attempt.job_id,
        attempt=attempt,
        path=path,
        source=name,
        line_form=form_of(rows),
        recent_batches=recent,
        created_by=user,
    )


def _append(uploads: Mapping[str, Upload], batches: Mapping[str, Rows], result: AppendResult) -> set[str]:
    """Write and confirm the batches; returns the sources whose file was completed in between, or is full."""
    now = timezone.now()
    now_ns = int(now.timestamp() * 1e6) * 1000
    remaining: set[str] = set()
    full: list[Upload] = []
    wrote: list[tuple[Any, ...]] = []
    written: list[BinaryIO] = []
    stored = repeated = 0
    lines_by_name = {
        name: (digest_of(batches[name]), lines_of(batches[name], upload.line_form, now_ns))
        for name, upload in uploads.items()
    }
    with ExitStack() as files:
        locked_files: dict[str, BinaryIO] = {}
        for name, upload in sorted(
            uploads.items(), key=lambda pair: pair[1].pk
        ):  # the same order for all, against deadlocks
            file = files.enter_context(_lock_part(upload))
            if file is None:
                remaining.add(name)
            else:
                locked_files[name] = file
        confirmed = {
            pk: (offset, bytes(recent), size)
            for pk, offset, recent, size in Upload.objects.filter(
                pk__in=[uploads[name].pk for name in locked_files], state=Upload.State.RECEIVING
            ).values_list("pk", "offset_bytes", "recent_batches", "size_bytes")
        }
        for name, file in locked_files.items():
            upload, count = uploads[name], len(batches[name])
            if upload.pk not in confirmed or confirmed[upload.pk][2] is not None:
                remaining.add(name)
                continue
            offset, recent, _ = confirmed[upload.pk]
            digest, data = lines_by_name[name]
            if digest and _is_recent(recent, digest):
                repeated += count
                continue
            if len(data) > settings.COLLECTOR_FILE_BYTES:
                limit = settings.COLLECTOR_FILE_BYTES
                result.refuse(f"{name} gets more than {limit:,} bytes at once, the limit of one file.", count)
                continue
            if offset + len(data) > settings.COLLECTOR_FILE_BYTES:  # a job that never ends has many files
                full.append(upload)
                remaining.add(name)
                continue
            _write(file, offset, data)
            written.append(file)
            wrote.append((upload.pk, offset + len(data), (recent + digest)[-MAX_RECENT * DIGEST_BYTES :], now))
            stored += count
        list(_syncing.map(_sync, written))
        with transaction.atomic():
            update_each(Upload, ("offset_bytes", "recent_batches", "updated_at"), wrote)
    result.stored += stored
    result.repeated += repeated
    for upload in full:
        with suppress(Refused):  # another request has just done it
            upload_close(upload=Upload.objects.get(pk=upload.pk))
    return remaining


def _end_lost_upload(upload: Upload) -> None:
    """End an upload whose part file has been missing for long: its disk lost it. A finished one is no longer open."""
    old = timezone.now() - _LOST_AFTER
    sentence = "The received bytes were lost by their disk: later lines are in another file."
    Upload.objects.filter(pk=upload.pk, state=Upload.State.RECEIVING, updated_at__lt=old).update(
        state=Upload.State.REFUSED, problem=sentence
    )


def _is_recent(recent: bytes, digest: bytes) -> bool:
    return any(recent[at : at + DIGEST_BYTES] == digest for at in range(0, len(recent), DIGEST_BYTES))


def _write(file: BinaryIO, offset: int, data: bytes) -> None:
    size = file.seek(0, os.SEEK_END)
    if size > offset:  # an earlier request ended before it was confirmed
        file.truncate(offset)
    elif size < offset:
        log.error("%s has %s bytes, %s were confirmed: the disk lost some", file.name, size, offset)
    file.seek(offset)
    file.write(data)
    file.flush()


def _sync(file: BinaryIO) -> None:
    os.fsync(file.fileno())


@contextmanager
def _lock_part(upload: Upload) -> Iterator[BinaryIO | None]:
    """The locked part file; None if the upload was completed."""
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            file = lock_part(part_path_of(upload))
            break
        except Refused as refusal:
            if refusal.code in ("complete", "gone"):
                _end_lost_upload(upload)
                file = None
                break
            if time.monotonic() > until:
                raise Refused(_BUSY, code="busy", status=503) from refusal
            time.sleep(0.005)
    try:
        yield file
    finally:
        if file is not None:
            file.close()
