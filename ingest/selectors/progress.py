"""The progress of the work on a job's evidence, and its problems, for the job's page."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, Sum
from django.template.defaultfilters import filesizeformat
from django.utils import timezone

from ingest.models import Artifact, Job, Run, RunLog, Upload

MAX_PROBLEMS = 50
_WAITING_STATES = (Artifact.State.RECEIVED, Artifact.State.PARSING)
#: work that waits longer than this gets a sentence
_EXPECTED_WAIT = timedelta(seconds=20)
_OPEN_STATES = (Run.State.QUEUED, Run.State.RUNNING)
_STOPPED_STATES = (Run.State.FAILED, Run.State.CANCELLED)


@dataclass(frozen=True, slots=True)
class Step:
    """One line of progress. ``state`` is ``waiting``, ``active``, ``done`` or ``failed``; ``total`` is 0 if unknown."""

    name: str
    state: str
    text: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """A sentence about one path. ``run_id`` is set if the work can be retried."""

    path: str
    sentence: str
    is_error: bool
    run_id: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What the page polls. ``is_active`` while anything can still change without a user."""

    job: Job
    steps: list[Step]
    problems: list[Problem]
    problem_count: int
    failed: list[Run]
    #: by a person, the newest first
    cancelled: list[Run]
    #: work is queued or running, which a person may cancel
    has_work: bool
    is_active: bool
    is_diagnosed: bool
    #: nothing is worked on: files of a running job grow, and may do so for weeks
    is_following: bool = False
    #: why nothing moves although it should
    waiting: str = ""


def progress(job: Job) -> Progress:
    """The progress of a job. Six queries for any number of files, one more while large files are read.

    One more query if a diagnosis ended after ``job`` was read: its revisions are read again, so that the last poll does
    not report a failure that did not happen.
    """
    files = _files(job)
    uploads = list(job.uploads.filter(state__in=("receiving", "received")).order_by("created_at")[:50])
    runs_shown = job.runs.filter(state__in=(*_OPEN_STATES, *_STOPPED_STATES)).exclude(kind=Run.Kind.PART)
    runs_shown = runs_shown.exclude(kind=Run.Kind.CONDENSE, state__in=_OPEN_STATES)
    runs = list(runs_shown.order_by("-pk")[:50])
    active = [run for run in runs if run.state in _OPEN_STATES]
    if not active and job.diagnosed_revision < job.diagnosing_revision:
        job.refresh_from_db(fields=["revision", "diagnosing_revision", "diagnosed_revision"])
    is_pending = job.revision > job.diagnosing_revision and bool(files["total"])
    problems, count = _problems(job, files)
    return Progress(
        job=job,
        steps=_steps(job, files, uploads, active, is_pending=is_pending),
        problems=problems,
        problem_count=count,
        failed=[run for run in runs if run.state == Run.State.FAILED],
        cancelled=[run for run in runs if run.state == Run.State.CANCELLED],
        has_work=bool(active),
        is_active=bool(active or uploads or is_pending),
        is_diagnosed=bool(job.diagnosed_revision),
        is_following=bool(uploads) and not active and all(_is_growing(upload) for upload in uploads),
        waiting=_waiting(active),
    )


def busy_jobs(jobs: Collection[int]) -> set[int]:
    """Of these jobs those whose evidence is being received, read or diagnosed. A file that grows while its job runs
    counts for nothing. One query.
    """
    runs = Run.objects.filter(job=OuterRef("pk"), state__in=_OPEN_STATES).exclude(kind=Run.Kind.CONDENSE)
    uploads = Upload.objects.filter(job=OuterRef("pk"))
    arriving = Q(state=Upload.State.RECEIVED) | Q(state=Upload.State.RECEIVING, size_bytes__isnull=False)
    files = Artifact.objects.filter(attempt__job=OuterRef("pk"), is_superseded=False)
    is_due = Q(revision__gt=F("diagnosing_revision")) & Exists(files)
    busy = Job.objects.filter(Exists(runs) | Exists(uploads.filter(arriving)) | is_due, pk__in=jobs)
    return set(busy.order_by().values_list("pk", flat=True))


def _waiting(active: list[Run]) -> str:
    """A sentence if work has been queued for a while and no worker took it; else empty."""
    if not active or any(run.state == Run.State.RUNNING for run in active):
        return ""
    if error := next((run.error for run in active if run.error), ""):
        return error
    long_ago = timezone.now() - _EXPECTED_WAIT
    if any(run.sent_at is None and run.created_at < long_ago for run in active):
        return "The queue cannot be reached: your files are stored and will be read when the queue is back."
    if all(run.created_at < long_ago for run in active):
        return "No worker has started this yet: all are busy with other jobs, or none is running."
    return ""


def _files(job: Job) -> dict[str, Any]:
    return Artifact.objects.filter(attempt__job=job, is_superseded=False).aggregate(
        total=Count("pk"),
        settled=Count("pk", filter=~Q(state__in=_WAITING_STATES)),
        troubled=Count("pk", filter=~Q(problem="")),
        size=Sum("blob__size_bytes", default=0),
        lines=Sum("lines", default=0),
    )


def _steps(
    job: Job, files: dict[str, Any], uploads: list[Upload], active: list[Run], *, is_pending: bool
) -> list[Step]:
    unpacking = next((run for run in active if run.kind == Run.Kind.UNPACK), None)
    diagnosing = next((run for run in active if run.kind == Run.Kind.DIAGNOSE), None)
    total, settled_count = files["total"], files["settled"]
    pieces = [run for run in active if run.artifact_id is not None]
    steps = [_received(files, uploads, unpacking)]
    if total:
        done = settled_count == total
        text = f"{settled_count:,} of {total:,} file{'' if total == 1 else 's'} read, {files['lines']:,} lines"
        if pieces:
            text += f"; {_large(job)}"
        steps.append(Step("parsing", "done" if done and not unpacking else "active", text, settled_count, total))
    if diagnosing:
        stage = diagnosing.stage or ("queued" if diagnosing.state == Run.State.QUEUED else "starting")
        steps.append(Step("diagnosing", "active", stage.replace("_", " "), diagnosing.done, diagnosing.total))
    elif is_pending and settled_count == total and not uploads:
        text = "begins now" if job.is_diagnosis_wanted else "starts when no more files arrive"
        steps.append(Step("diagnosing", "waiting", text))
    elif job.diagnosed_revision:
        steps.append(Step("diagnosing", "done", "done"))
    return steps


def _large(job: Job) -> str:
    """The progress of files that several workers read: bytes, lines, rate, time left. One query."""
    ranges = job.runs.filter(parameters__has_key="part", artifact__settled_at=None).exclude(artifact=None)
    rows = list(ranges.order_by("pk").values_list("state", "parameters", "started_at", "artifact__path"))
    total = sum(parameters["length"] for _, parameters, _, _ in rows)
    read = [parameters for state, parameters, _, _ in rows if state == Run.State.SUCCEEDED]
    read_bytes, lines = sum(row["length"] for row in read), sum(row.get("lines", 0) for row in read)
    names = list(dict.fromkeys(path for *_, path in rows))
    what = names[0] if len(names) == 1 else f"{len(names):,} large files"
    text = f"{what}: {filesizeformat(read_bytes)} of {filesizeformat(total)} and {lines:,} lines read".replace(
        "\xa0", " "
    )
    first_start = min((at for _, _, at, _ in rows if at is not None), default=None)
    seconds = (timezone.now() - first_start).total_seconds() if first_start else 0.0
    if not read_bytes or seconds <= 0:
        return text
    if read_bytes == total:
        return f"{text}, being joined"
    rate = filesizeformat(read_bytes / seconds).replace("\xa0", " ")
    return f"{text}, {rate} a second, about {_duration((total - read_bytes) * seconds / read_bytes)} left"


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"


def _is_growing(upload: Upload) -> bool:
    """Whether it is the file of a running job, whose size nobody knows."""
    return upload.state == Upload.State.RECEIVING and upload.size_bytes is None


def _received(files: dict[str, Any], uploads: list[Upload], unpacking: Run | None) -> Step:
    receiving = [upload for upload in uploads if upload.state == Upload.State.RECEIVING]
    sized = [upload for upload in receiving if not _is_growing(upload)]
    if receiving and not sized:
        size = sum(upload.offset_bytes for upload in receiving)
        files_s = "" if len(receiving) == 1 else "s"
        return Step("following", "active", f"{len(receiving):,} growing file{files_s}, {size:,} bytes so far", 0, 0)
    if sized:
        done = sum(upload.offset_bytes for upload in sized)
        whole = sum(upload.size_bytes or 0 for upload in sized)
        names = ", ".join(upload.path for upload in sized[:3])
        return Step("receiving", "active", names, done, whole)
    if unpacking:
        return Step("unpacking", "active", f"{unpacking.done:,} files so far", 0, 0)
    if not files["total"]:
        return Step("received", "waiting", "no evidence yet")
    return Step("received", "done", f"{files['total']:,} file{'' if files['total'] == 1 else 's'}")


def _problems(job: Job, files: dict[str, Any]) -> tuple[list[Problem], int]:
    """Refused uploads, members skipped while unpacking, files that could not be read: worst first."""
    refused = [Problem(u.path, u.problem, True) for u in job.uploads.exclude(problem="").filter(state="refused")[:20]]
    left_out = (
        RunLog.objects.filter(run__job=job, run__kind=Run.Kind.UNPACK).exclude(level=RunLog.Level.INFO).exclude(path="")
    )
    lines = [
        Problem(row.path, row.message, row.level == RunLog.Level.ERROR, row.run_id)
        for row in left_out.order_by("pk")[:MAX_PROBLEMS]
    ]
    standing = Artifact.objects.filter(attempt__job=job, is_superseded=False).exclude(problem="")
    unread = [
        Problem(row.path, row.problem, row.state == Artifact.State.FAILED, row.run_id)
        for row in standing.order_by(F("state").asc(), "path")[:MAX_PROBLEMS]
    ]
    rows = [*refused, *lines, *unread]
    count = len(refused) + left_out.count() + files["troubled"]
    return sorted(rows, key=lambda row: not row.is_error)[:MAX_PROBLEMS], count
