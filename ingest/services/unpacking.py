"""Opens an archive or a compressed file: one artifact per member, one sentence per member that is skipped."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from diagnosis.archive import archives
from ingest import storage, temp_files
from ingest.isolation import ReaderLost
from ingest.locks import lock_rows
from ingest.models import Job, Run, RunLog, Upload
from ingest.refusals import Refused
from ingest.services.artifact_parsing import MAX_DIGEST_BYTES
from ingest.services.artifacts import IncomingFile, artifacts_add
from ingest.services.ends import after_progress
from ingest.services.engine_calls import engine_call
from ingest.services.work import Work

#: members recorded in one transaction
_BATCH_SIZE = 500
_EMPTY = "Nothing in {path} could be read as evidence; see the messages about its members."


def upload_unpack(work: Work) -> None:
    """Store every member as a blob, in batches. A second call goes on behind the last batch that was recorded; between
    batches the run gives way to others.
    """
    upload = Upload.objects.select_related("job").get(runs=work.run)
    if upload.blob_id is None:
        return
    if changed := storage.blob_problem(upload.blob_id, upload.size_bytes or 0, max_bytes=MAX_DIGEST_BYTES):
        raise Refused(changed)
    receiver = _MemberReceiver(upload, work)
    with temp_files.temp_dir() as folder:
        source, _ = storage.blob_local(upload.blob_id, folder / "source")
        (folder / "members").mkdir()
        arguments = {"source": str(source), "path": upload.path, "limits": limits(), "folder": str(folder / "members")}
        try:
            size = source.stat().st_size
            engine_call(
                work,
                "unpack",
                {"taken": receiver.rows},
                receiver.begin_again,
                input_bytes=size,
                begin=receiver.begun.position,
                spent_bytes=receiver.begun.size_bytes,
                **arguments,
            )
        except ReaderLost as lost:
            receiver.problem(
                upload.path, f"The archive was read up to its member {receiver.found_count:,} only. {lost}"
            )
        receiver.flush()
    state, problem = Upload.State.SETTLED, _summary(receiver.found_count, receiver.refused_count)
    if not receiver.found_count:
        state, problem = Upload.State.REFUSED, receiver.own_problem or _EMPTY.format(path=upload.path)
    with transaction.atomic():
        work.write(stage="unpacked", done=receiver.found_count, total=receiver.found_count)
        Upload.objects.filter(pk=upload.pk).update(state=state, problem=problem, updated_at=timezone.now(), blob=None)


class _Reached(NamedTuple):
    """How far an archive was opened and recorded: the number of the next member, members and bytes that were stored,
    those that were refused, sentences in the run's log.
    """

    position: int = 0
    found: int = 0
    size_bytes: int = 0
    refused: int = 0
    log_rows: int = 0


class _MemberReceiver:
    """Stores members that the reader reports, and makes their rows. ``own_problem``: about the whole archive;
    ``begun``: where this turn began.
    """

    def __init__(self, upload: Upload, work: Work) -> None:
        self.upload, self.work = upload, work
        self.begun = _Reached(**work.run.parameters.get(Run.UNPACKED, {}))
        self._began_at = time.monotonic()
        self._passed_s: float | None = None  # until the first member that was not there before
        self._begin()

    def _begin(self) -> None:
        self._position, self.found_count, self._size_bytes, self.refused_count, _ = self.begun
        self.own_problem = ""
        self._batch: list[IncomingFile] = []
        self._digests: set[str] = set()  # of the batch
        self._waiting = 0

    def begin_again(self) -> None:
        """Forget what a reader reported that was ended; stored members are found stored."""
        self._begin()
        self.work.forget_log(self.begun.log_rows)
        self.work.done |= {"files": 0, "bytes": 0}

    def rows(self, rows: list[list[Any]]) -> None:
        for kind, *row in rows:
            if kind == "problem":
                self.problem(*row)
            else:
                self._member(*row)

    def problem(self, path: str, sentence: str) -> None:
        self.refused_count += 1
        if path == self.upload.path and not self.found_count:
            self.own_problem = sentence
            return
        self.work.log(sentence, level=RunLog.Level.WARNING, path=path)

    def _member(self, number: int, path: str, file: str, sha256: str, size: int, note: str) -> None:
        if self._passed_s is None:
            self._passed_s = time.monotonic() - self._began_at
        if file:  # the reader makes none for bytes that it has reported before
            self._store(Path(file), sha256)
        self._position = number + 1
        self.found_count += 1
        self._size_bytes += size
        self.work.count(files=1, size_bytes=size)
        self._waiting += size
        self._batch.append(IncomingFile(path, sha256, size, note))
        if note:
            self.work.log(note, level=RunLog.Level.WARNING, path=path)
        if len(self._batch) >= _BATCH_SIZE or self._waiting > settings.PARSE_UNIT_BYTES:
            self.flush()
            self.work.give_way(self._passed_s)
        self.work.stage("unpacking", self.found_count)

    def _store(self, file: Path, sha256: str) -> None:
        """Store equal members of a batch once: a file system may wait for the disk each time it replaces a file that is
        still being written, and a remote store takes a request.
        """
        if sha256 in self._digests:
            file.unlink()
            return
        storage.blob_put(file, sha256)
        self._digests.add(sha256)

    def flush(self) -> None:
        if self._batch:
            run = self.work.run
            parameters = {**after_progress(run.parameters), Run.UNPACKED: self._reached()._asdict()}
            with transaction.atomic():
                lock_rows(Job.objects).get(pk=self.upload.job_id)
                self.work.write(parameters=parameters)  # raises if another worker holds the run now
                artifacts_add(upload=self.upload, incoming=self._batch)
            run.parameters = parameters  # not before: who postpones the run writes them
        self._batch, self._digests, self._waiting = [], set(), 0

    def _reached(self) -> _Reached:
        return _Reached(self._position, self.found_count, self._size_bytes, self.refused_count, self.work.log_rows)


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
