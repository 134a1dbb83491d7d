"""Artifacts: added in bulk, replaced by later bytes of the same path, grouped into units of parsing work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Sum
from django.utils import timezone

from ingest.locks import lock_rows
from ingest.models import Artifact, Blob, Job, Run, Upload
from ingest.services.kept_lines import kept_lines_forget
from ingest.services.sending import run_enqueue

#: small files have few bytes but many rows: a unit also ends at this number
MAX_UNIT_FILES = 500


class IncomingFile(NamedTuple):
    path: str
    sha256: str
    size_bytes: int
    note: str = ""


@transaction.atomic
def artifacts_add(*, upload: Upload, incoming: Sequence[IncomingFile]) -> list[Artifact]:
    """Create artifacts for stored blobs, in order, and queue them for parsing. Existing ones do not change.

    If another upload of the attempt has other bytes under a path, the new file is stored under its archive's name. A
    path sent again by the same name replaces the older artifact. O(1) queries for any number of files.
    """
    job = lock_rows(Job.objects).get(pk=upload.job_id)
    incoming = _with_unique_paths(upload, incoming)
    paths = {row.path for row in incoming}
    existing = {
        (artifact.path, artifact.blob_id): artifact
        for artifact in Artifact.objects.filter(attempt_id=upload.attempt_id, path__in=paths)
    }
    blobs = [Blob(sha256=row.sha256, size_bytes=row.size_bytes) for row in sorted(incoming, key=_digest_of)]
    Blob.objects.bulk_create(blobs, ignore_conflicts=True, batch_size=500)
    fresh = {
        (row.path, row.sha256): Artifact(
            attempt_id=upload.attempt_id,
            path=row.path,
            blob_id=row.sha256,
            upload=upload,
            notes=[row.note] if row.note else [],
        )
        for row in incoming
        if (row.path, row.sha256) not in existing
    }
    created = Artifact.objects.bulk_create(fresh.values(), batch_size=500)
    last = {row.path: row.sha256 for row in incoming}
    older = [a.pk for a in (*existing.values(), *created) if a.blob_id != last[a.path] and not a.is_superseded]
    reread = [a.pk for a in existing.values() if a.blob_id == last[a.path] and a.is_superseded]
    back = [a for a in existing.values() if a.state == Artifact.State.REMOVED]
    Artifact.objects.filter(pk__in=older).update(is_superseded=True)
    Artifact.objects.filter(pk__in=reread).update(is_superseded=False)
    Artifact.objects.filter(pk__in=[a.pk for a in back]).update(
        state=Artifact.State.RECEIVED,
        parsed_key="",
        parsed_number=None,
        settled_at=None,
        kept=None,
        kept_lines=0,
    )
    if created or reread or back:
        evidence_changed(job)
        sizes = {row.sha256: row.size_bytes for row in incoming}
        archive = upload if upload.is_archive else None
        parse_queue(job=job, attempt_id=upload.attempt_id, artifacts=[*created, *back], sizes=sizes, archive=archive)
    rows = {**existing, **fresh}
    return [rows[row.path, row.sha256] for row in incoming]


def evidence_changed(job: Job) -> None:
    """Begin a new revision."""
    now = timezone.now()
    Job.objects.filter(pk=job.pk).update(revision=F("revision") + 1, evidence_changed_at=now)


def parse_queue(
    *,
    job: Job,
    attempt_id: int,
    artifacts: Sequence[Artifact],
    sizes: dict[str, int],
    archive: Upload | None = None,
) -> None:
    """Group artifacts into units of about ``PARSE_UNIT_BYTES`` and queue a run for each.

    A unit that is still queued takes more artifacts: thousands of small files sent one by one become
    few tasks. ``archive``: they are its members, and are no unit with other files, which do not wait.
    """
    unit, room, members, is_open = _open_unit(job, attempt_id, archive)
    joined: dict[int, list[int]] = {}
    for artifact in artifacts:
        size = sizes.get(artifact.blob_id, 0)
        if unit is None or size > room or members >= MAX_UNIT_FILES:
            if unit is not None and not is_open:
                run_enqueue(unit)
            unit = Run.objects.create(job=job, attempt_id=attempt_id, kind=Run.Kind.PARSE, upload=archive)
            room, members, is_open = settings.PARSE_UNIT_BYTES, 0, False
        joined.setdefault(unit.pk, []).append(artifact.pk)
        artifact.run_id = unit.pk
        room -= size
        members += 1
    if unit is not None and not is_open and members:
        run_enqueue(unit)
    for run_id, ids in joined.items():
        Artifact.objects.filter(pk__in=ids).update(run_id=run_id)


def _open_unit(job: Job, attempt_id: int, archive: Upload | None) -> tuple[Run | None, int, int, bool]:
    """A queued unit with room (its row is locked, so that no worker claims it), its free bytes and its members."""
    waiting = Run.objects.filter(
        job=job,
        attempt_id=attempt_id,
        kind=Run.Kind.PARSE,
        state=Run.State.QUEUED,
        artifact=None,
        upload=archive,
        tries=0,
    )
    unit = lock_rows(waiting).order_by("-pk").first()
    if unit is None:
        return None, 0, 0, False
    contents = unit.artifacts.aggregate(size=Sum("blob__size_bytes"), count=Count("pk"))
    return unit, settings.PARSE_UNIT_BYTES - (contents["size"] or 0), contents["count"], True


def _digest_of(incoming: IncomingFile) -> str:
    return incoming.sha256


def _with_unique_paths(upload: Upload, incoming: Sequence[IncomingFile]) -> list[IncomingFile]:
    """Two archives may each contain a ``dmesg.txt``: both stay, under different paths."""
    if not upload.is_archive:
        return list(incoming)
    other_files = dict(
        Artifact.objects.filter(
            attempt_id=upload.attempt_id, path__in={row.path for row in incoming}, is_superseded=False
        )
        .exclude(upload__path=upload.path)
        .values_list("path", "blob_id")
    )
    return [
        row._replace(path=f"{upload.path}/{row.path}") if other_files.get(row.path, row.sha256) != row.sha256 else row
        for row in incoming
    ]


@transaction.atomic
def artifact_delete(*, artifact: Artifact, user: Any = None) -> None:
    """Remove a file from its job: a new revision without it. The next tidying deletes its bytes unless another file
    shares them.
    """
    job = lock_rows(Job.objects).get(attempts__artifacts=artifact)
    Upload.objects.filter(attempt_id=artifact.attempt_id, path=artifact.path, sha256=artifact.blob_id).delete()
    kept_lines_forget(artifact)
    artifact.delete()
    evidence_changed(job)
