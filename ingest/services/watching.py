"""Monitors running jobs: reads new bytes of their growing files, and raises or ends alarms.

A live upload is read in ranges of whole lines, each once, in a reader process. When an alarm begins or ends, the
current content of the files becomes evidence of the job and is diagnosed; later bytes replace it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from diagnosis import live
from diagnosis.files.recognise import whole_lines
from diagnosis.live.step_time import step_s
from ingest import storage
from ingest.isolation import ReaderLost
from ingest.models import Artifact, Attempt, Job, Upload, Watch
from ingest.services.artifacts import IncomingFile, artifacts_add
from ingest.services.engine_calls import call_again
from ingest.services.resuming import part_path_of
from ingest.services.revisions import diagnosis_request
from ingest.services.updating import update_each

log = logging.getLogger(__name__)

#: maximum bytes of one file per read, the others are read next time; and of the files that one call reads
_RANGE_BYTES = 16 << 20
_MAX_TOGETHER = 64
#: a longer line is read in pieces
_LINE_BYTES = 1 << 20
#: they show the encoding
_HEAD_BYTES = 4 << 10
#: for how long a look holds its attempt; reading a batch renews it. If its worker is killed, another one looks then.
_CLAIM_FOR = timedelta(minutes=2)
#: what a judgement stores
_JUDGED_FIELDS = (
    *("state", "alarm", "alarm_text", "alarm_since"),
    *("iteration", "step_s", "stage", "advanced_at", "observed_at"),
)
#: maximum attempts per sweep
_MAX_WATCHES = 500


def attempts_due() -> list[int]:
    """Attempts with live uploads that have unread bytes. One query."""
    grown = Upload.objects.filter(
        state=Upload.State.RECEIVING, size_bytes=None, offset_bytes__gt=F("observed_bytes")
    ).order_by()
    return list(grown.values_list("attempt_id", flat=True).distinct()[:_MAX_WATCHES])


def watches_judge() -> None:
    """Judge every followed attempt: a silent job has no new bytes that would start a look. Two queries."""
    now = timezone.now()
    open_files = Upload.objects.filter(state=Upload.State.RECEIVING, size_bytes=None)
    for watch in Watch.objects.filter(attempt__in=open_files.values("attempt")).select_related("attempt")[
        :_MAX_WATCHES
    ]:
        if watch.claimed_until is None or watch.claimed_until < now:
            _judge(watch, live.decode_state(watch.state, now.timestamp()), now)


def attempt_observe(attempt_id: int) -> None:
    """Read the new bytes of the attempt's live uploads, and judge. Does nothing while another worker does it."""
    now = timezone.now()
    attempt = Attempt.objects.select_related("job").filter(pk=attempt_id).first()
    if attempt is None:
        return
    if not Watch.objects.filter(attempt=attempt).exists():
        state = live.new_state(now.timestamp(), _former_state(attempt))
        Watch.objects.get_or_create(attempt=attempt, defaults={"state": live.encode(state)})
    free = Q(claimed_until=None) | Q(claimed_until__lt=now)
    if not Watch.objects.filter(free, attempt=attempt).update(claimed_until=now + _CLAIM_FOR):
        return
    watch = Watch.objects.select_related("attempt__job").get(attempt=attempt)
    job_state = live.decode_state(watch.state, now.timestamp())
    live.note_judgement(job_state, timezone.now().timestamp())
    try:
        uploads = attempt.uploads.filter(state=Upload.State.RECEIVING, size_bytes=None).order_by("path")
        new_lines = [_new_lines(upload) for upload in uploads.filter(offset_bytes__gt=F("observed_bytes"))]
        for batch in _batches([lines for lines in new_lines if lines is not None]):
            _observe(watch, job_state, batch)
        _judge(watch, job_state, timezone.now())
    except _ClaimLost:
        log.info("attempt %s: this look took too long, another worker has the attempt", attempt_id)
    finally:
        _claimed_row(watch).update(claimed_until=None)


class _ClaimLost(Exception):
    """Another look holds the attempt."""


def _claimed_row(watch: Watch) -> QuerySet[Watch]:
    """The row, if nobody claimed it since ``watch`` was read or renewed."""
    return Watch.objects.filter(pk=watch.pk, claimed_until=watch.claimed_until)


def _former_state(attempt: Attempt) -> live.JobState | None:
    """The state of the job's last watched attempt before this one, else of the last job of the same name and person:
    long training is often a chain of jobs. At most two queries.
    """
    job = attempt.job
    of_job = Watch.objects.filter(attempt__job=job, attempt__number__lt=attempt.number).order_by("-attempt__number")
    chain = Watch.objects.filter(
        attempt__job__name=job.name, attempt__job__cluster=job.cluster_id, attempt__job__created_by=job.created_by_id
    )
    chain = chain.filter(attempt__job__lt=job.pk).order_by("-attempt__job_id", "-attempt__number")
    states = (rows.values_list("state", flat=True).first() for rows in (of_job, chain))
    stored = next((state for state in states if state is not None), None)
    return None if stored is None else live.decode_state(stored, 0.0)


class _NewLines(NamedTuple):
    """New whole lines of one growing file."""

    upload: Upload
    begin: int
    end: int

    def arguments(self) -> dict[str, Any]:
        """The arguments by which a reader reads them."""
        names = {"source": str(part_path_of(self.upload)), "path": self.upload.path}
        return {**names, "start": self.begin, "length": self.end - self.begin}


def _new_lines(upload: Upload) -> _NewLines | None:
    """What is new of a file; None if no whole line is."""
    begin = upload.observed_bytes
    try:
        end = end_of_lines(part_path_of(upload), begin, upload.offset_bytes)
    except FileNotFoundError:  # finished in between
        return None
    return _NewLines(upload, begin, end) if end > begin else None


def _batches(new_lines: Sequence[_NewLines]) -> Iterator[list[_NewLines]]:
    """Files that one call reads: a call, and storing its result, cost more than reading a few lines."""
    batch: list[_NewLines] = []
    size = 0
    for lines in new_lines:
        if batch and (len(batch) == _MAX_TOGETHER or size + lines.end - lines.begin > _RANGE_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(lines)
        size += lines.end - lines.begin
    if batch:
        yield batch


def _observe(watch: Watch, job_state: live.JobState, new_lines: Sequence[_NewLines]) -> None:
    for lines, observation in zip(new_lines, _observations(new_lines, watch.attempt.job.time_zone), strict=True):
        live.learn(job_state, lines.upload.path, observation, timezone.now().timestamp())
    watch.state = live.encode(job_state)
    until = timezone.now() + _CLAIM_FOR
    with transaction.atomic():  # a worker that dies between the two would lose what the ranges say
        if not _claimed_row(watch).update(state=watch.state, claimed_until=until):
            raise _ClaimLost
        watch.claimed_until = until
        update_each(Upload, ("observed_bytes",), [(lines.upload.pk, lines.end) for lines in new_lines])


def _observations(new_lines: Sequence[_NewLines], time_zone: str) -> list[live.Observation]:
    """The observations, in this order. If a reader does not survive several files, each is read alone."""
    ranges = [lines.arguments() for lines in new_lines]
    handlers = {"beat": lambda: None}
    arguments = {"ranges": ranges, "time_zone": time_zone}
    size = sum(one["length"] for one in ranges)
    try:
        sent = call_again("observe_ranges", handlers, lambda: None, input_bytes=size, **arguments)
        return [live.decode_observation(one) for one in sent]
    except ReaderLost as lost:
        if len(new_lines) > 1:
            return [observation for lines in new_lines for observation in _observations([lines], time_zone)]
        log.warning("a range of %s is not watched: %s", new_lines[0].upload.path, lost)
        return [live.Observation()]


def end_of_lines(part: Path, begin: int, confirmed: int) -> int:
    """The end of the last complete line, at most one range after ``begin``. Reads only the tail of the range.

    Bytes beyond ``confirmed`` may still be cut off again.
    """
    end = min(part.stat().st_size, confirmed, begin + _RANGE_BYTES)
    with part.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        file.seek(begin + max(0, end - begin - _LINE_BYTES) // 2 * 2)  # at a character, also of UTF-16
        tail = file.read(end - file.tell())
    if length := whole_lines(tail, head):
        return end - len(tail) + length
    return begin + (end - begin) // 2 * 2 if end - begin >= _LINE_BYTES else begin


def _judge(watch: Watch, job_state: live.JobState, now: datetime) -> None:
    """Store the current state and alarms, unless somebody else did since ``watch`` was read. When an alarm begins or
    ends, request a diagnosis of the current evidence.
    """
    row = _claimed_row(watch).filter(observed_at=watch.observed_at)
    live.note_judgement(job_state, now.timestamp())
    alarms = live.judge(job_state, now.timestamp())
    is_changed = live.record(job_state, alarms, now.timestamp())
    first = alarms[0] if alarms else None
    watch.alarm, watch.alarm_text = (first.kind, first.text) if first else ("", "")
    watch.alarm_since = _moment(first.since) if first else None
    watch.state = live.encode(job_state)
    watch.iteration, watch.step_s = job_state.iteration, step_s(job_state)
    watch.stage, watch.advanced_at = job_state.stage or "", _moment(job_state.advanced_at)
    watch.observed_at = now
    if not row.update(**{name: getattr(watch, name) for name in _JUDGED_FIELDS}):
        return
    if is_changed:
        log.info("attempt %s: %s", watch.attempt_id, watch.alarm_text or "the alarm ended")
        evidence_snapshot(watch.attempt)


def evidence_snapshot(attempt: Attempt) -> None:
    """Make the current content of the live uploads evidence, and request a diagnosis. Copies the files that grew since
    the last time.
    """
    job = Job.objects.get(pk=attempt.job_id)
    standing = attempt.artifacts.filter(is_superseded=False).exclude(state=Artifact.State.REMOVED)
    sizes = dict(standing.values_list("upload", "blob__size_bytes"))
    for upload in attempt.uploads.filter(state=Upload.State.RECEIVING, size_bytes=None):
        if sizes.get(upload.pk) == upload.offset_bytes:
            continue
        part = part_path_of(upload)
        try:
            size = upload.offset_bytes
            with storage.Part() as copy, part.open("rb") as file:
                while size and (block := file.read(min(size, storage.BLOCK_BYTES))):
                    copy.write(block)
                    size -= len(block)
                if not copy.size_bytes:
                    continue
                sha256 = copy.finish(is_synced=True)
                storage.blob_put(copy.path, sha256)
                with transaction.atomic():
                    artifacts_add(upload=upload, incoming=[IncomingFile(upload.path, sha256, copy.size_bytes)])
        except FileNotFoundError:  # finished in between
            continue
    Job.objects.filter(pk=job.pk).update(revision=F("revision") + 1)  # the alarm is news though no byte came
    diagnosis_request(job=job)


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
