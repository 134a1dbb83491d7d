"""Resumable uploads (tus 1.0): begin, continue after a broken connection, abort."""

from __future__ import annotations

import fcntl
import os
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.db.models import F
from django.utils import timezone

from ingest import storage, temp_files
from ingest.models import Job, Upload, Watch
from ingest.refusals import Refused, translate_storage_errors
from ingest.services.jobs import attempt_get
from ingest.services.quotas import quota_check
from ingest.services.receiving import Receipt, check_path, check_size, digest_mismatch, upload_take_in


def upload_begin(
    *, job: Job, path: str, size_bytes: int | None, attempt: int = 0, sha256: str = "", user: Any = None
) -> Upload:
    """A new upload of ``size_bytes``; None for a file that still grows (*live*), whose size is stated at its end.

    Returns an open live upload of the same path: two followers of one file then share its offset. Raises
    :class:`Refused` for an impossible name, a size over the limit, or more than the quota of the job's team.
    """
    path = check_path(path)
    check_size(path, size_bytes or 0)
    quota_check(job.pk, size_bytes or 0)
    if size_bytes is None:
        open_already = Upload.objects.filter(
            job=job, attempt__number=attempt, path=path, size_bytes=None, source="", state=Upload.State.RECEIVING
        )
        if (existing := open_already.order_by("created_at").first()) is not None and part_path_of(existing).exists():
            return existing
    upload = Upload.objects.create(
        job=job,
        attempt=attempt_get(job=job, number=attempt),
        path=path,
        size_bytes=size_bytes,
        sha256=sha256.lower(),
        created_by=user,
    )
    with translate_storage_errors():
        part_path_of(upload).touch()
    return upload


def upload_offset(upload: Upload) -> int:
    """How many bytes are stored: the size of the part file, or all of a finished upload. The row may be older."""
    if upload.state != Upload.State.RECEIVING:
        return upload.size_bytes or 0
    part = part_path_of(upload)
    return part.stat().st_size if part.exists() else 0


def upload_resume(upload: Upload) -> int:
    """The offset to continue at.

    If the last byte arrived just before its process died, the upload is finished now: the sender thinks it is complete.

    Raises :class:`Refused` (410) if the part file is missing, for example because the database never recorded that the
    upload was finished. A sender that continued at byte 0 would be refused every time.
    """
    offset = upload_offset(upload)
    if upload.state == Upload.State.RECEIVING and offset == upload.size_bytes:
        try:
            upload_finish(upload=upload, offset=offset)
        except Refused as refusal:
            if refusal.code not in ("locked", "complete"):  # another request is writing to it
                raise
    elif offset == 0:  # no byte yet, or finished since the row was read
        upload.state = (
            Upload.objects.filter(pk=upload.pk).values_list("state", flat=True).first() or Upload.State.SETTLED
        )
        offset = upload_offset(upload)
        if upload.state == Upload.State.RECEIVING and not part_path_of(upload).exists():
            raise _gone_refusal()
    return offset


def upload_finish(*, upload: Upload, offset: int) -> None:
    """Finish an upload whose bytes have all arrived. Raises what :class:`Piece` raises."""
    with translate_storage_errors(), closing(Piece(upload, offset)) as piece:
        piece.finish()


class Piece:
    """The bytes of one request, from ``offset`` on, written to the upload's part file, which is locked during this.

    Arrived bytes stay, however the request ends. Memory is one block.
    """

    def __init__(self, upload: Upload, offset: int, length: int = 0, *, size_bytes: int | None = None) -> None:
        """``size_bytes`` states the size of a live upload with its last bytes.

        Raises :class:`Refused` before it reads any of the ``length`` bytes: 409 if ``offset`` is not the part file's
        size, 423 while another request writes, 413 beyond the announced size, 507 beyond the quota
        of the team of a live one, 422 for a second size.
        """
        if upload.state != Upload.State.RECEIVING:
            raise _complete_refusal()
        self.upload = upload
        if size_bytes is not None and upload.size_bytes not in (None, size_bytes):
            raise Refused("The size of this upload is stated already.", code="bad_length")
        if upload.size_bytes is None and length:
            quota_check(upload.job_id, length)
        self.stated = upload.size_bytes if size_bytes is None else size_bytes
        self.size_bytes = settings.UPLOAD_MAX_BYTES if self.stated is None else self.stated
        self._file = lock_part(part_path_of(upload))
        self.have = self._file.seek(0, os.SEEK_END)
        if offset != self.have:
            self._file.close()
            sentence = f"{self.have:,} bytes arrived, this request begins at {offset:,}: continue at {self.have:,}."
            raise Refused(sentence, code="offset_mismatch", status=409)
        if offset + length > self.size_bytes:
            self._file.close()
            raise self._too_many()

    def write(self, data: bytes) -> None:
        """Raises :class:`Refused` (413) beyond the announced size."""
        if self.have + len(data) > self.size_bytes:
            raise self._too_many()
        self._file.write(data)
        self._file.flush()  # else a killed process loses its buffer, and the sender repeats it
        self.have += len(data)

    def save_progress(self) -> None:
        """Store the offset, for progress displays and for diagnoses that wait for growing uploads."""
        Upload.objects.filter(pk=self.upload.pk).update(offset_bytes=self.have, updated_at=timezone.now())

    def finish(self) -> tuple[int, Receipt | None]:
        """The new offset and, after the last byte, the receipt. Reads the whole file once for its digest, with the part
        file locked. A live upload is synced to the disk before its offset is acknowledged.
        """
        is_live = self.upload.size_bytes is None
        if is_live:
            os.fsync(self._file.fileno())
            if self.stated is not None:
                self.upload.size_bytes = self.stated
                Upload.objects.filter(pk=self.upload.pk).update(size_bytes=self.stated)
        self.save_progress()
        if self.stated is None or self.have < self.stated:
            return self.have, None
        os.fsync(self._file.fileno())
        return self.have, _complete(self.upload)

    def close(self) -> None:
        """Unlock the part file; its bytes stay."""
        self._file.close()

    def _too_many(self) -> Refused:
        limit = "announced" if self.stated is not None else "that this server takes of one file"
        return Refused(f"More bytes came than the {self.size_bytes:,} {limit}.", code="too_large", status=413)


def upload_close(*, upload: Upload) -> None:
    """End a live upload at its present size. Used when its sender has been silent for long.

    Raises what :class:`Piece` raises.
    """
    with translate_storage_errors():
        if upload.source:
            _cut_unacknowledged(upload)
        have = upload_offset(upload)
        with closing(Piece(upload, have, size_bytes=have)) as piece:
            piece.finish()


def _cut_unacknowledged(upload: Upload) -> None:
    """Cut off pushed bytes whose request ended before they were acknowledged: their sender sends them again."""
    with closing(lock_part(part_path_of(upload))) as file:
        upload.refresh_from_db(fields=["offset_bytes"])
        file.truncate(upload.offset_bytes)


def upload_abort(*, upload: Upload) -> None:
    """Abort an unfinished upload and delete its bytes."""
    if upload.state == Upload.State.RECEIVING:
        part_path_of(upload).unlink(missing_ok=True)
        upload.delete()


def _complete(upload: Upload) -> Receipt:
    """Computes the digest from the whole file: a running digest would not survive the process that began it."""
    part, announced = part_path_of(upload), upload.sha256
    sha256 = storage.digest_of(part)
    if announced and announced != sha256:
        part.unlink(missing_ok=True)
        upload.state, upload.problem = Upload.State.REFUSED, digest_mismatch(upload.path, sha256, announced)
        upload.save(update_fields=["state", "problem", "updated_at"])
        raise Refused(upload.problem, code="digest_mismatch", status=460)
    receipt = upload_take_in(upload=upload, part=part, sha256=sha256)
    if receipt.upload.pk != upload.pk:  # these bytes were stored before
        upload.delete()
    if Watch.objects.filter(attempt_id=upload.attempt_id).exists():  # the alarms of a running job end with its files
        Job.objects.filter(pk=upload.job_id).update(revision=F("revision") + 1)
    return receipt


def _gone_refusal() -> Refused:
    return Refused("The bytes of this upload are lost: begin a new one.", code="gone", status=410)


def _complete_refusal() -> Refused:
    return Refused("This upload is complete: begin a new one.", code="complete", status=409)


def part_path_of(upload: Upload) -> Path:
    """The file that an unfinished upload grows in."""
    return temp_files.part_path(f"{upload.pk}.part")


def lock_part(part: Path) -> BinaryIO:
    """The part file, open for writing and locked against other writers until it is closed.

    Raises :class:`Refused`: 423 while another one has it, 409 if it is complete, 410 if it is lost.
    """
    try:
        file = part.open("r+b")
    except FileNotFoundError as error:
        raise _gone_refusal() from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not part.exists():  # finished while this request waited to open it
            raise _complete_refusal()
    except BlockingIOError as error:
        file.close()
        sentence = "Another request is writing to this upload: wait for it, then ask for the offset."
        raise Refused(sentence, code="locked", status=423) from error
    except Refused:
        file.close()
        raise
    return file
