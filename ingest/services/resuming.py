"""Uploads that survive a broken connection: begun, continued where they stopped, given up (tus 1.0)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.utils import timezone

from ingest import scratch, storage
from ingest.models import Job, Upload
from ingest.refusals import Refused, told
from ingest.services.jobs import attempt_get
from ingest.services.receiving import Receipt, mismatch, path_checked, too_large, upload_take_in

#: how often a long request writes its offset down, for whoever watches
_TOLD_EVERY_BYTES = 64 << 20


def upload_begin(
    *, job: Job, path: str, size_bytes: int, attempt: int = 0, sha256: str = "", user: Any = None
) -> Upload:
    """An upload of ``size_bytes`` to come. Raises :class:`Refused` for a bad name or one larger than the limit."""
    path = path_checked(path)
    if size_bytes > settings.UPLOAD_MAX_BYTES:
        raise Refused(too_large(path), code="too_large", status=413)
    upload = Upload.objects.create(
        job=job,
        attempt=attempt_get(job=job, number=attempt),
        path=path,
        size_bytes=size_bytes,
        sha256=sha256.lower(),
        created_by=user,
    )
    with told():
        _part(upload).touch()
    return upload


def upload_offset(upload: Upload) -> int:
    """How many bytes are safe: the part file's size, whatever the row says. All of them once it is taken in."""
    if upload.state != Upload.State.RECEIVING:
        return upload.size_bytes or 0
    part = _part(upload)
    return part.stat().st_size if part.exists() else 0


def upload_resume(upload: Upload) -> int:
    """Where to go on. A file whose last byte arrived just before its process died is taken in now: whoever asks would
    take it for done.

    Raises :class:`Refused` (410) where the part file is gone, as it is when the database never heard that it was
    taken in: whoever went on at byte 0 would be refused for ever.
    """
    offset = upload_offset(upload)
    if upload.state == Upload.State.RECEIVING and offset == upload.size_bytes:
        try:
            upload_append(upload=upload, offset=offset, chunks=[])
        except Refused as refusal:
            if refusal.code not in ("locked", "complete"):  # another request is at it
                raise
    elif offset == 0:  # nothing yet, or taken in since the row was read
        upload.state = (
            Upload.objects.filter(pk=upload.pk).values_list("state", flat=True).first() or Upload.State.SETTLED
        )
        offset = upload_offset(upload)
        if upload.state == Upload.State.RECEIVING and not _part(upload).exists():
            raise _gone()
    return offset


def upload_append(*, upload: Upload, offset: int, chunks: Iterable[bytes]) -> tuple[int, Receipt | None]:
    """Bytes from ``offset`` on. Returns the new offset and, with the last byte, what became of the file.

    What arrived before a connection broke stays. Raises :class:`Refused`: 409 for another offset than the part file's,
    423 while another request writes, 413 beyond the announced size. Memory is one chunk.
    """
    size = upload.size_bytes or 0
    if upload.state != Upload.State.RECEIVING:
        raise _complete_already()
    with told(), _locked(_part(upload)) as file:
        have = file.seek(0, os.SEEK_END)
        if offset != have:
            sentence = f"{have:,} bytes are here, this request begins at {offset:,}: continue at {have:,}."
            raise Refused(sentence, code="offset_mismatch", status=409)
        written = have
        try:
            for chunk in chunks:
                if have + len(chunk) > size:
                    raise Refused(f"More bytes came than the {size:,} announced.", code="too_large", status=413)
                file.write(chunk)
                have += len(chunk)
                if have - written >= _TOLD_EVERY_BYTES:
                    written = have
                    _tell(upload, have)
        finally:
            file.flush()
            _tell(upload, have)
        if have < size:
            return have, None
        os.fsync(file.fileno())
        return have, _complete(upload)


def upload_abort(*, upload: Upload) -> None:
    """Give an unfinished upload up and free its bytes."""
    if upload.state == Upload.State.RECEIVING:
        _part(upload).unlink(missing_ok=True)
        upload.delete()


def _complete(upload: Upload) -> Receipt:
    """The digest is taken of the whole file: a running one cannot outlive the process that began it."""
    part, announced = _part(upload), upload.sha256
    sha256 = storage.digest_of(part)
    if announced and announced != sha256:
        part.unlink(missing_ok=True)
        upload.state, upload.problem = Upload.State.REFUSED, mismatch(upload.path, sha256, announced)
        upload.save(update_fields=["state", "problem", "updated_at"])
        raise Refused(upload.problem, code="digest_mismatch", status=460)
    receipt = upload_take_in(upload=upload, part=part, sha256=sha256)
    if receipt.upload.pk != upload.pk:  # these bytes were here already
        upload.delete()
    return receipt


def _gone() -> Refused:
    return Refused("The bytes of this upload are gone: begin a new one.", code="gone", status=410)


def _complete_already() -> Refused:
    return Refused("This upload is complete: begin a new one.", code="complete", status=409)


def _tell(upload: Upload, offset: int) -> None:
    Upload.objects.filter(pk=upload.pk).update(offset_bytes=offset, updated_at=timezone.now())


def _part(upload: Upload) -> Path:
    return scratch.part_path(f"{upload.pk}.part")


@contextmanager
def _locked(part: Path) -> Iterator[BinaryIO]:
    if not part.exists():
        raise _gone()
    with part.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            sentence = "Another request is writing to this upload: wait for it, then ask for the offset."
            raise Refused(sentence, code="locked", status=423) from error
        if not part.exists():  # taken in while this request waited to open it
            raise _complete_already()
        yield file
