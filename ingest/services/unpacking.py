"""Opens an archive or a compressed file: one artifact per member, one sentence per member that cannot be taken."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from diagnosis import archives
from ingest import storage
from ingest.models import RunLog, Upload
from ingest.refusals import told
from ingest.services.artifacts import Incoming, artifacts_add
from ingest.services.runs import Work

#: members recorded by one transaction
_BATCH = 500
_EMPTY = "Nothing in {path} could be read as evidence; see the messages about its members."


def upload_unpack(work: Work) -> None:
    """Store every member as a blob, in batches. Done twice it finds all that is there already and adds nothing."""
    upload = Upload.objects.select_related("job").get(runs=work.run)
    if upload.blob_id is None:
        return
    found, refused, waiting, own = 0, 0, 0, ""
    batch: list[Incoming] = []

    def problem(path: str, sentence: str) -> None:
        nonlocal refused, own
        refused += 1
        if path == upload.path and not found:  # of the archive as a whole, and said of the upload
            own = sentence
            return
        work.log(sentence, level=RunLog.Level.WARNING, path=path)

    with told(), storage.blob_open(upload.blob_id) as file:
        for member in archives.walk(file, upload.path, limits=limits(), on_problem=problem):
            try:
                incoming = _store(member)
            except archives.Refused as refusal:
                problem(member.path, str(refusal))
                continue
            found, waiting = found + 1, waiting + incoming.size_bytes
            batch.append(incoming)
            if incoming.note:
                work.log(incoming.note, level=RunLog.Level.WARNING, path=member.path)
            if len(batch) >= _BATCH or waiting > settings.PARSE_UNIT_BYTES:
                artifacts_add(upload=upload, incoming=batch)
                batch, waiting = [], 0
            work.stage("unpacking", found)
    if batch:
        artifacts_add(upload=upload, incoming=batch)
    state, problem_text = Upload.State.SETTLED, _summary(found, refused)
    if not found:
        state, problem_text = Upload.State.REFUSED, own or _EMPTY.format(path=upload.path)
    with transaction.atomic():
        work.write(stage="unpacked", done=found, total=found)
        Upload.objects.filter(pk=upload.pk).update(
            state=state, problem=problem_text, updated_at=timezone.now(), blob=None
        )


def limits() -> archives.Limits:
    """What the settings allow of an archive."""
    return archives.Limits(
        members=settings.ARCHIVE_MAX_MEMBERS,
        total_bytes=settings.ARCHIVE_MAX_BYTES,
        ratio=settings.ARCHIVE_MAX_RATIO,
        depth=settings.ARCHIVE_MAX_DEPTH,
    )


def _store(member: archives.Member) -> Incoming:
    """The member's bytes as a blob; its row follows with the batch."""
    with storage.Part() as part:
        while data := member.stream.read(storage.BLOCK_BYTES):
            part.write(data)
        sha256, size = part.finish(), part.size_bytes
        storage.blob_put(part.path, sha256)
    return Incoming(member.path, sha256, size, member.note)


def _summary(found: int, refused: int) -> str:
    return f"{refused:,} of {found + refused:,} members were left out; see the messages." if refused else ""
