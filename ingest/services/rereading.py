"""Parses evidence again if its column files are lost, changed, or of another version of the engine."""

from __future__ import annotations

import json

from django.core.files.storage import storages
from django.db import transaction

from diagnosis.files import parsed
from ingest import storage
from ingest.locks import lock_rows
from ingest.models import Artifact, Job, Run
from ingest.services.artifacts import evidence_changed, parse_queue

_READ_STATES = (Artifact.State.PARSED, Artifact.State.SKIPPED)


def artifacts_reread(*, job: Job, is_forced: bool = False) -> int:
    """Queue parsing of the job's files with unusable column files (``is_forced``: of all files), then a diagnosis.

    Returns how many. Opens one small file of the storage for each directory of column files.
    """
    standing = Artifact.objects.filter(attempt__job=job, state__in=_READ_STATES, is_superseded=False).exclude(
        parsed_key=""
    )
    rows = list(standing.select_related("blob"))
    keys = set() if is_forced else {row.parsed_key for row in rows}
    usable = set(filter(is_usable, keys))
    artifacts = [row for row in rows if row.parsed_key not in usable]
    with transaction.atomic():
        job = lock_rows(Job.objects).get(pk=job.pk)
        for start in range(0, len(artifacts), 500):
            ids = [row.pk for row in artifacts[start : start + 500]]
            Run.objects.filter(artifact__in=ids).delete()  # else a file that was cut counts as being read
            Artifact.objects.filter(pk__in=ids).update(state=Artifact.State.RECEIVED, problem="", settled_at=None)
        for attempt_id in sorted({row.attempt_id for row in artifacts}):
            of_attempt = [row for row in artifacts if row.attempt_id == attempt_id]
            sizes = {row.blob_id: row.blob.size_bytes for row in of_attempt}
            parse_queue(job=job, attempt_id=attempt_id, artifacts=of_attempt, sizes=sizes)
        if artifacts:
            evidence_changed(job)
            Job.objects.filter(pk=job.pk).update(is_diagnosis_wanted=True)
    return len(artifacts)


def is_usable(key: str) -> bool:
    """Whether the column files under ``key`` exist, are what was stored, and have the format of this
    engine. A remote store sends them all for that.
    """
    try:
        storage.directory_check(key, is_remote_read=True)
        with storages["parsed"].open(f"{key}/{parsed.FILE_NAME}", "rb") as file:
            return bool(json.load(file).get("format") == parsed.FORMAT)
    except (OSError, ValueError):
        return False
