"""From received bytes to an artifact or, for archives and compressed files, to an upload that waits to be opened."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

from django.conf import settings
from django.db import IntegrityError, transaction

from diagnosis.archive import archives
from ingest import storage, sums
from ingest.locks import lock_rows
from ingest.models import Artifact, Attempt, Blob, Job, Run, Upload
from ingest.refusals import Refused, translate_storage_errors
from ingest.services.artifacts import IncomingFile, artifacts_add
from ingest.services.jobs import attempt_get
from ingest.services.quotas import quota_check
from ingest.services.sending import run_enqueue

log = logging.getLogger(__name__)

#: how many members of a known archive are checked for lost bytes when it is sent again
_MAX_CHECKED_MEMBERS = 100


class Receipt(NamedTuple):
    """The result of receiving bytes. ``artifact`` is None for an archive: its members follow in the background."""

    upload: Upload
    artifact: Artifact | None
    is_new: bool


def artifact_receive(
    *,
    job: Job,
    path: str,
    chunks: Iterable[bytes],
    attempt: Attempt | int = 0,
    expected_sha256: str | None = None,
    user: Any = None,
) -> Receipt:
    """:func:`part_receive` for bytes that arrive in blocks. Bytes beyond a limit are not stored."""
    path = check_path(path)
    quota_check(job.pk)
    with translate_storage_errors(), storage.Part() as part:
        for chunk in chunks:
            part.write(chunk)
            check_size(path, part.size_bytes)
        return part_receive(job=job, path=path, part=part, attempt=attempt, expected_sha256=expected_sha256, user=user)


def part_receive(
    *,
    job: Job,
    path: str,
    part: storage.Part,
    attempt: Attempt | int = 0,
    expected_sha256: str | None = None,
    user: Any = None,
    is_diagnosis_wanted: bool = False,
) -> Receipt:
    """Store one file whose bytes are in ``part``, and queue its parsing. The same path and bytes again
    change nothing. ``is_diagnosis_wanted``: it is diagnosed as soon as it is read.

    Raises :class:`Refused` for an impossible name, too many bytes, a digest other than the announced one, a full disk.
    """
    path = check_path(path)
    check_size(path, part.size_bytes)
    if not isinstance(attempt, Attempt):
        attempt = attempt_get(job=job, number=attempt)
    with translate_storage_errors():
        sha256 = part.finish(is_synced=True)
        if expected_sha256 and sha256 != expected_sha256.lower():
            upload_refuse(job=job, attempt=attempt, path=path, sentence=digest_mismatch(path, sha256, expected_sha256))
        upload = Upload(job=job, attempt=attempt, path=path, size_bytes=part.size_bytes, created_by=user)
        return upload_take_in(
            upload=upload,
            part=part.path,
            sha256=sha256,
            is_diagnosis_wanted=is_diagnosis_wanted,
        )


def upload_take_in(
    *,
    upload: Upload,
    part: Any,
    sha256: str,
    is_diagnosis_wanted: bool = False,
) -> Receipt:
    """Turn a complete part file into a blob, and the blob into an artifact or an unpack run. Moves the part file.

    The same upload again changes nothing, unless the stored bytes were lost: then it replaces them.
    """
    earlier = _same_upload(upload, sha256)
    if earlier is not None and not _is_lost(earlier):
        part.unlink(missing_ok=True)
        return Receipt(earlier, _artifact_of(earlier), is_new=False)
    size = part.stat().st_size
    with part.open("rb") as file:
        kind = archives.format_of(file.read(archives.HEAD_BYTES), upload.path)
    storage.blob_put(part, sha256)
    try:
        with transaction.atomic():  # one commit: a small job that is sent at once has no other
            if is_diagnosis_wanted:
                Job.objects.filter(pk=upload.job_id).update(is_diagnosis_wanted=True)
            return _record(earlier or upload, IncomingFile(upload.path, sha256, size), is_archive=bool(kind))
    except IntegrityError:  # another connection stored the same file in between
        earlier = _same_upload(upload, sha256)
        if earlier is None:
            raise
        return Receipt(earlier, _artifact_of(earlier), is_new=False)


def upload_refuse(*, job: Job, attempt: Attempt, path: str, sentence: str, code: str = "digest_mismatch") -> None:
    """Record the sentence on the job, for its readers, and raise it for the sender."""
    Upload.objects.create(job=job, attempt=attempt, path=path, state=Upload.State.REFUSED, problem=sentence)
    raise Refused(sentence, code=code)


def check_path(path: str) -> str:
    try:
        return archives.clean_path(path)
    except ValueError as error:
        raise Refused(str(error), code="bad_path", fields={"path": str(error)}) from error


def digest_mismatch(path: str, got: str, expected: str) -> str:
    return (
        f"{path}: the bytes that arrived have SHA-256 {got[:12]}…, but {expected[:12].lower()}… was announced: the "
        "file changed while it was sent, or was damaged in transit. Send it again."
    )


def check_size(path: str, size_bytes: int) -> None:
    """Raises :class:`Refused` if a file has more bytes than this server accepts."""
    if size_bytes > settings.UPLOAD_MAX_BYTES:
        sentence = (
            f"{path} is larger than {settings.UPLOAD_MAX_BYTES:,} bytes, the limit of this server: send it in parts."
        )
        raise Refused(sentence, code="too_large", status=413)


def _record(upload: Upload, incoming: IncomingFile, *, is_archive: bool) -> Receipt:
    lock_rows(Job.objects).get(pk=upload.job_id)
    Blob.objects.bulk_create([Blob(sha256=incoming.sha256, size_bytes=incoming.size_bytes)], ignore_conflicts=True)
    upload.sha256, upload.blob_id, upload.is_archive = incoming.sha256, incoming.sha256, is_archive
    upload.size_bytes = upload.offset_bytes = incoming.size_bytes
    upload.state = Upload.State.RECEIVED if is_archive else Upload.State.SETTLED
    upload.save()
    if is_archive:
        run = Run.objects.create(
            job_id=upload.job_id, attempt_id=upload.attempt_id, kind=Run.Kind.UNPACK, upload=upload
        )
        run_enqueue(run)
        return Receipt(upload, None, is_new=True)
    added = artifacts_add(upload=upload, incoming=[incoming])
    return Receipt(upload, added[0], is_new=True)


def _same_upload(upload: Upload, sha256: str) -> Upload | None:
    """The earlier upload that brought these bytes under this path, if it is still current."""
    earlier = Upload.objects.filter(
        attempt=upload.attempt, path=upload.path, sha256=sha256, state__in=("received", "settled")
    ).first()
    if earlier is not None and not earlier.is_archive:
        artifact = _artifact_of(earlier)
        if artifact is None or artifact.is_superseded:  # deleted or replaced since then: the sender wants it back
            earlier.delete()
            return None
    return earlier


def _is_lost(upload: Upload) -> bool:
    """Whether stored bytes of this upload are missing or changed: a disk was lost, or somebody touched them.

    Of an opened archive it checks only the first members, because each costs a round trip to a remote storage.
    """
    if upload.is_archive and upload.state == Upload.State.SETTLED:
        blobs = Artifact.objects.filter(upload=upload, is_superseded=False).values_list("blob_id", flat=True)
        return not all(storage.blob_exists(sha256) for sha256 in blobs.order_by("pk")[:_MAX_CHECKED_MEMBERS])
    return not storage.blob_exists(upload.sha256) or bool(
        storage.blob_problem(upload.sha256, upload.size_bytes or 0, max_bytes=sums.ANY_BYTES)
    )


def _artifact_of(upload: Upload) -> Artifact | None:
    if upload.is_archive:
        return None
    return Artifact.objects.filter(attempt_id=upload.attempt_id, path=upload.path, blob_id=upload.sha256).first()
