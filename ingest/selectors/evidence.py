"""A job's evidence, for the engine and the log viewer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl
from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet

from diagnosis import JobHints, Parsed
from diagnosis.files import kept_lines as stored_lines
from diagnosis.files import parsed
from diagnosis.kinds.logs.columns import joined, physical
from diagnosis.kinds.logs.rows import stored_rows
from diagnosis.kinds.logs.rows.stored_rows import Rows
from diagnosis.live import decode_alarms
from diagnosis.live.watches import hang
from diagnosis.model import LOG_KINDS, AlarmNote, Kind
from ingest import storage
from ingest.models import Artifact, Attempt, Job, Run, RunLog, Upload, Watch
from ingest.selectors.access import jobs_visible_to

_READ_STATES = (Artifact.State.PARSED, Artifact.State.SKIPPED)


def jobs_with_files(user: Any, digests: Sequence[str]) -> QuerySet[Job]:
    """The visible jobs to which all files of these SHA-256 were sent, as files or as archives."""
    received = Q(uploads__state__in=(Upload.State.RECEIVED, Upload.State.SETTLED))
    jobs = jobs_visible_to(user).filter(received, uploads__sha256__in=digests)
    counted = jobs.annotate(files=Count("uploads__sha256", distinct=True))
    return counted.filter(files=len(set(digests)))


def artifacts_of(job: Job) -> QuerySet[Artifact]:
    """The job's current artifacts by attempt and path, with their blobs."""
    standing = Artifact.objects.filter(attempt__job=job, is_superseded=False)
    return standing.select_related("attempt", "blob").order_by("attempt__number", "path", "pk")


def parsed_for(attempt: Attempt, work: Path) -> list[Parsed]:
    """What the engine diagnoses: every parsed artifact of the attempt, by path.

    Copies column files below ``work`` only if they are in a remote storage. One query; loads no tables into memory.
    """
    artifacts = Artifact.objects.filter(attempt=attempt, is_superseded=False, state__in=_READ_STATES).exclude(
        parsed_key=""
    )
    common: dict[str, list[Parsed]] = {}
    found: list[Parsed] = []
    for key, number in artifacts.order_by("path", "pk").values_list("parsed_key", "parsed_number"):
        if number is None:
            found.append(parsed.load(_directory(key, storage.PARSED_FILES, work)))
            continue
        if key not in common:
            common[key] = parsed.load_together(_directory(key, storage.PARSED_FILES, work))
        found.append(common[key][number])
    return found


def parsed_of(artifact: Artifact, names: Sequence[str] = ()) -> Parsed:
    """What was read of one artifact, with the column files ``names``. Remote files are copied once.

    Raises ``FileNotFoundError`` if they are lost, ``ValueError`` if they are of another version.
    """
    folder = storage.directory_get(artifact.parsed_key, (parsed.FILE_NAME, *names))
    return parsed.load(folder, artifact.parsed_number)


def is_removed(attempt: Attempt) -> bool:
    """Whether evidence of the attempt was removed: a new diagnosis of the rest would know less than the stored one."""
    return Artifact.objects.filter(attempt=attempt, is_superseded=False, state=Artifact.State.REMOVED).exists()


def lost_evidence() -> QuerySet[RunLog]:
    """Sentences about whole archives of the jobs with ``OuterRef("pk")``: cut off, damaged, read in
    part.
    """
    unpacked = RunLog.objects.filter(run__job=OuterRef("pk"), run__kind=Run.Kind.UNPACK)
    return unpacked.exclude(level=RunLog.Level.INFO).filter(path=F("run__upload__path"))


def has_whole_evidence(job: Job) -> bool:
    """Whether no archive of the job was cut off or damaged, as far as anybody can tell. One
    query.
    """
    return not Job.objects.filter(pk=job.pk).filter(Exists(lost_evidence())).exists()


def read_range(artifact: Artifact, offset: int, length: int) -> bytes:
    """``length`` raw bytes from ``offset`` on, fewer at the end. Cost grows with ``length``, not the file's size.

    Raises FileNotFoundError if the bytes are lost, its subclass :class:`ingest.sums.Changed` if they were changed.
    """
    storage.blob_check(artifact.blob_id, artifact.blob.size_bytes)
    return storage.blob_range(artifact.blob_id, offset, length)


def lines_of(artifact: Artifact) -> Rows | None:
    """A log's physical lines, to be read; None if the file is not a log. Remote files are copied once."""
    if artifact.kind not in LOG_KINDS:
        return None
    if artifact.parsed_number is not None:
        return stored_rows.lines_of(parsed_of(artifact, ("columns.parquet",)))
    table = _table(artifact)
    return None if table is None else Rows(table, None, artifact.lines)


def messages_of(artifacts: Iterable[Artifact], work: Path | None = None) -> Iterator[tuple[Artifact, Rows]]:
    """Those of the artifacts that have distinct messages, with these, to be read. Opens each
    directory of column files once; remote files are copied once, or below ``work``.
    """
    name = "uniques.parquet"
    common: dict[str, list[Parsed]] = {}
    for artifact in artifacts:
        key, number = artifact.parsed_key, artifact.parsed_number
        if not key:
            continue
        if number is None:
            file = storage.directory_get(key, (name,), work) / name
            if file.exists():
                yield artifact, Rows(file, None, 0)
            continue
        if key not in common:
            folder = storage.directory_get(key, (parsed.FILE_NAME, name), work)
            common[key] = parsed.load_together(folder)
        yield artifact, stored_rows.messages_of(common[key][number])


def records_path(artifact: Artifact) -> Path | None:
    """A local path to the records of a flow capture; None if the file is not one. A remote file is copied once."""
    return _table(artifact) if artifact.kind == Kind.FLOW else None


def kept_lines(artifact: Artifact) -> pl.DataFrame:
    """The kept lines of a condensed log (`diagnosis.files.kept_lines.KEPT_SCHEMA`), in order. Reads those of the
    whole attempt.
    """
    assert artifact.kept_id is not None
    with storage.blob_open(artifact.kept_id) as file:
        table = stored_lines.read(file.read())
    return table.filter(pl.col("path") == artifact.path)


def _table(artifact: Artifact) -> Path | None:
    if not artifact.parsed_key:
        return None
    for names in ((physical.NAME, "columns.parquet"), (joined.NAME,)):
        folder = _directory(artifact.parsed_key, names)
        table = next((folder / name for name in names if (folder / name).exists()), None)
        if table is not None:
            return table
    return None


def _directory(key: str, names: Sequence[str], work: Path | None = None) -> Path:
    """A local directory with these files of a parsed artifact, and below it the columns of its ranges."""
    folder = storage.directory_get(key, names, work)
    if (folder / joined.NAME).exists():
        for place in joined.files_of(folder / joined.NAME):
            storage.directory_get(str(PurePosixPath(key, place).parent), [PurePosixPath(place).name], work)
    return folder


def reader_for(attempt: Attempt) -> Callable[[str, int, int], bytes]:
    """How the engine reads raw bytes: ``read(path, offset, length)``; empty for an unknown path."""
    blobs = dict(Artifact.objects.filter(attempt=attempt, is_superseded=False).values_list("path", "blob_id"))

    def read(path: str, offset: int, length: int) -> bytes:
        sha256 = blobs.get(path)
        return storage.blob_range(sha256, offset, length) if sha256 else b""

    return read


def reader_of_several(attempt: Attempt) -> Callable[[list[str], int, int], list[bytes]]:
    """How a reader in a process of its own asks for raw bytes: the same range of several paths in one message."""
    read = reader_for(attempt)

    def read_each(paths: list[str], offset: int, length: int) -> list[bytes]:
        return [read(path, offset, length) for path in paths]

    return read_each


def hints_for(job: Job, attempt: Attempt | None = None) -> JobHints:
    """What people stated about the job, and the alarms of an attempt while it runs, for the engine."""
    world = job.layout.get("world_size") if isinstance(job.layout, dict) else None
    return JobHints(
        job_id=job.slug,
        name=job.name,
        family=job.pool,
        framework=job.declared_framework,
        nodes=tuple(name for name in job.nodes_text.replace(",", "\n").split() if name),
        world_size=world if isinstance(world, int) else None,
        layout=job.layout if isinstance(job.layout, dict) else {},
        time_zone=job.time_zone,
        started_at=job.started_at.timestamp() if job.started_at else None,
        ended_at=job.ended_at.timestamp() if job.ended_at else None,
        outcome="" if job.declared_outcome == "unknown" else job.declared_outcome,
        alarms=() if attempt is None else _alarms_of(attempt),
    )


def _alarms_of(attempt: Attempt) -> tuple[AlarmNote, ...]:
    """The alarms that hold and those that ended, while files of the attempt still grow; afterwards a hang that held to
    the end of a job that did not end well.

    A sender that vanished states no end: the silence may have been its own.
    """
    watch = Watch.objects.filter(attempt=attempt).first()
    rows = [] if watch is None else decode_alarms(watch.state)
    ended_at = None
    if rows and not attempt.uploads.filter(state=Upload.State.RECEIVING, size_bytes=None).exists():
        is_stated = attempt.job.declared_outcome in ("failed", "cancelled")
        last = attempt.uploads.aggregate(at=Max("updated_at"))["at"]
        is_held = is_stated and last is not None
        rows = [row for row in rows if is_held and row.is_open and row.kind == hang.id]
        ended_at = last.timestamp() if last is not None else None
    return tuple(AlarmNote(row.kind, row.text, row.since, row.until, row.category, ended_at) for row in rows)
