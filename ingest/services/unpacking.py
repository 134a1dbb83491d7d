"""Opens an archive or a compressed file: one artifact per member, one sentence per member that is skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from diagnosis import archives
from ingest import storage, temp_files
from ingest.isolation import Lost
from ingest.models import RunLog, Upload
from ingest.services.artifacts import Incoming, artifacts_add
from ingest.services.engine_calls import engine_call
from ingest.services.work import Work

#: members recorded in one transaction
_BATCH = 500
_EMPTY = "Nothing in {path} could be read as evidence; see the messages about its members."


def upload_unpack(work: Work) -> None:
    """Store every member as a blob, in batches. A second call finds them stored and adds nothing."""
    upload = Upload.objects.select_related("job").get(runs=work.run)
    if upload.blob_id is None:
        return
    taking = _Taking(upload, work)
    with temp_files.temp_dir() as folder:
        source, _ = storage.blob_local(upload.blob_id, folder / "source")
        (folder / "members").mkdir()
        said = {"source": str(source), "path": upload.path, "limits": limits(), "folder": str(folder / "members")}
        try:
            engine_call(work, "unpack", {"taken": taking.rows}, taking.begin_again, **said)
        except Lost as lost:
            taking.problem(upload.path, f"The archive was read up to its member {taking.found:,} only. {lost}")
        taking.flush()
    state, problem = Upload.State.SETTLED, _summary(taking.found, taking.refused)
    if not taking.found:
        state, problem = Upload.State.REFUSED, taking.own or _EMPTY.format(path=upload.path)
    with transaction.atomic():
        work.write(stage="unpacked", done=taking.found, total=taking.found)
        Upload.objects.filter(pk=upload.pk).update(state=state, problem=problem, updated_at=timezone.now(), blob=None)


class _Taking:
    """Takes members from the reader into the storage and onto rows. ``own`` are sentences about the whole archive."""

    def __init__(self, upload: Upload, work: Work) -> None:
        self.upload, self.work = upload, work
        self._begin()

    def _begin(self) -> None:
        self.found = self.refused = 0
        self.own = ""
        self._batch: list[Incoming] = []
        self._waiting = 0

    def begin_again(self) -> None:
        """Forget what a reader reported that was ended; stored members are found stored."""
        self._begin()
        self.work.forget_log()

    def rows(self, rows: list[list[Any]]) -> None:
        for kind, *row in rows:
            if kind == "problem":
                self.problem(*row)
            else:
                self._member(*row)

    def problem(self, path: str, sentence: str) -> None:
        self.refused += 1
        if path == self.upload.path and not self.found:
            self.own = sentence
            return
        self.work.log(sentence, level=RunLog.Level.WARNING, path=path)

    def _member(self, path: str, file: str, sha256: str, size: int, note: str) -> None:
        storage.blob_put(Path(file), sha256)
        self.found += 1
        self._waiting += size
        self._batch.append(Incoming(path, sha256, size, note))
        if note:
            self.work.log(note, level=RunLog.Level.WARNING, path=path)
        if len(self._batch) >= _BATCH or self._waiting > settings.PARSE_UNIT_BYTES:
            self.flush()
        self.work.stage("unpacking", self.found)

    def flush(self) -> None:
        if self._batch:
            artifacts_add(upload=self.upload, incoming=self._batch)
        self._batch, self._waiting = [], 0


def limits() -> archives.Limits:
    """The limits of an archive, from the settings."""
    return archives.Limits(
        members=settings.ARCHIVE_MAX_MEMBERS,
        total_bytes=settings.ARCHIVE_MAX_BYTES,
        ratio=settings.ARCHIVE_MAX_RATIO,
        depth=settings.ARCHIVE_MAX_DEPTH,
    )


def _summary(found: int, refused: int) -> str:
    return f"{refused:,} of {found + refused:,} members were skipped; see the messages." if refused else ""
