"""Stores what collectors push: finds or makes the job of each stream, and appends its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final, NamedTuple

from django.db.models import Q
from django.utils import timezone

from ingest.models import Attempt, Job, Upload
from ingest.models.outcome import Outcome
from ingest.refusals import Refused
from ingest.services.appending import rows_append
from ingest.services.clusters import cluster_choose
from ingest.services.jobs import attempt_get, job_create, slug_within
from ingest.services.quotas import quota_check
from ingest.services.resuming import upload_close
from ingest.wire.routing import Place, Rules, place_of, slug_of
from ingest.wire.rows import Rows, Stream, in_time_order, lines_of

#: jobs that one person's tokens make in an hour by sending lines; hostile labels could make thousands
MAX_NEW_JOBS_AN_HOUR: Final = 200
#: a file whose job has ended is complete after so long without a line
_QUIET_AFTER = timedelta(seconds=60)
_ENDED_OUTCOMES = (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELLED)
#: sentences, names and lines in an answer
MAX_SENTENCES, _MAX_NAMES, _MAX_SHOWN_ROWS = 3, 10, 5
_MAX_UPLOADS = 200


class BatchResult(NamedTuple):
    """What became of one request's rows. ``sentence`` says what was refused, or is a warning."""

    stored: int
    repeated: int
    refused: int
    sentence: str


def batch_take(*, user: Any, streams: Iterable[Stream], rules: Rules) -> BatchResult:
    """Store the rows of one request, in order of time within each file.

    Raises :class:`Refused`: 503 if it must be sent again as a whole. Rows that can never be stored are counted, with a
    sentence. O(rows).
    """
    rows_by_place, problems, future_count = _rows_by_place(streams, rules)
    stored = repeated = 0
    attempts: dict[tuple[str, int], dict[str, Rows]] = {}
    for place, rows in rows_by_place.items():
        attempts.setdefault((place.job, place.attempt), {})[place.path] = rows
    jobs: dict[str, Job | str] = {}
    for (name, number), files in attempts.items():
        if name not in jobs:
            jobs[name] = _job(user, name, rules)
        job = jobs[name]
        count = sum(map(len, files.values()))
        refusal = job if isinstance(job, str) else _beyond_quota(job)
        if isinstance(job, str) or refusal:
            problems[refusal] += count
            continue
        appended = rows_append(attempt=_attempt(job, number), batches=files, user=user)
        stored, repeated = stored + appended.stored, repeated + appended.repeated
        problems.update(appended.problems)
    refused = problems.total()
    sentences = [f"{count:,} refused: {sentence}" for sentence, count in problems.most_common(MAX_SENTENCES)]
    if future_count:
        sentences.append(
            f"{future_count:,} are dated more than a day in the future: they were stored with the time of arrival."
        )
    return BatchResult(stored, repeated, refused, " ".join(sentences))


def _beyond_quota(job: Job) -> str:
    """Why nothing more of the job is stored, as a sentence; empty if it is. A sender that tried again would keep back
    the lines of all other jobs.
    """
    try:
        quota_check(job.pk)
    except Refused as refusal:
        return refusal.detail
    return ""


def batch_show(*, streams: Iterable[Stream], rules: Rules) -> dict[str, Any]:
    """What :func:`batch_take` would store, for the debug mode: files with their first lines, and refusals."""
    rows_by_place, problems, future_count = _rows_by_place(streams, rules)
    now_ns = _now_ns()
    files = [
        {
            "job": place.job,
            "attempt": place.attempt,
            "path": place.path,
            "rows": len(rows),
            "lines": lines_of(rows[:_MAX_SHOWN_ROWS], "stamped", now_ns).decode("utf-8", "replace")[:4000].splitlines(),
        }
        for place, rows in list(rows_by_place.items())[:_MAX_NAMES]
    ]
    refusals = [{"rows": count, "sentence": sentence} for sentence, count in problems.items()]
    return {
        "stored": 0,
        "files": files,
        "all_files": len(rows_by_place),
        "refused": refusals,
        "in_the_future": future_count,
    }


def streams_close() -> None:
    """Complete the growing files of jobs that ended: a collector does not say when a file ends, and a follower may have
    been killed with its job. One query.
    """
    now = timezone.now()
    growing = Upload.objects.filter(state=Upload.State.RECEIVING, size_bytes=None)
    quiet = growing.filter(updated_at__lt=now - _QUIET_AFTER)
    ended = Q(job__declared_outcome__in=_ENDED_OUTCOMES) | Q(attempt__outcome__in=_ENDED_OUTCOMES)
    for upload in quiet.filter(ended).select_related("job", "attempt")[:_MAX_UPLOADS]:
        try:
            upload_close(upload=upload)
        except Refused:  # a line arrives, or its disk lost it: the next sweep looks again
            continue


def _rows_by_place(streams: Iterable[Stream], rules: Rules) -> tuple[dict[Place, Rows], Counter[str], int]:
    """Rows by place, in order of time; refused rows by sentence; how many are dated in the future."""
    rows_by_place: dict[Place, Rows] = {}
    problems: Counter[str] = Counter()
    for stream in streams:
        place = place_of(stream.labels, rules)
        if place is None:
            problems[_unnamed_job(stream.labels)] += len(stream.rows)
        elif place in rows_by_place:
            earlier, rows = rows_by_place[place], stream.rows
            earlier.extend(rows.times, rows.heads, rows.texts)
        else:
            rows_by_place[place] = stream.rows
    future_count, now_ns = 0, _now_ns()
    for place, rows in rows_by_place.items():
        rows_by_place[place], count = in_time_order(rows, now_ns)
        future_count += count
    return rows_by_place, problems, future_count


def _unnamed_job(labels: dict[str, str]) -> str:
    names = ", ".join(sorted(labels)[:_MAX_NAMES]) or "no labels"
    return f"nothing names the job (labels: {names}): send the header Faultline-Job or Faultline-Job-From."


def _job(user: Any, name: str, rules: Rules) -> Job | str:
    """The job with this id or name in the caller's cluster, made if missing; a sentence if that is refused."""
    try:
        cluster = cluster_choose(user=user, name=rules.cluster)
        slug = slug_of(name)
        # an id that was read on a page, or the one that this name gets
        jobs = Job.objects.filter(cluster=cluster, slug__in={name[:120], slug_within(cluster, slug)}).order_by("pk")
        if (job := jobs.first()) is not None:
            return job
        if not rules.makes_jobs:
            return f"there is no job “{name[:80]}”, and Faultline-New-Jobs refuses to make one."
        hour_ago = timezone.now() - timedelta(hours=1)
        if Job.objects.filter(created_by=user, created_at__gt=hour_ago).count() >= MAX_NEW_JOBS_AN_HOUR:
            return (
                f"you made {MAX_NEW_JOBS_AN_HOUR} jobs within an hour, the limit: route by a label with fewer values "
                "(Faultline-Job-From)."
            )
        try:
            outcome = Outcome.RUNNING
            return job_create(name=name, slug=slug, user=user, cluster=cluster, declared_outcome=outcome)
        except Refused as refusal:
            job = jobs.first() if refusal.code == "slug_in_use" else None  # another request made it just now
            if job is None:
                raise
            return job
    except Refused as refusal:
        if refusal.status >= 500:
            raise
        return refusal.detail


def _attempt(job: Job, number: int) -> Attempt:
    attempt = attempt_get(job=job, number=number)
    attempt.job = job
    return attempt


def _now_ns() -> int:
    return int(timezone.now().timestamp() * 1e6) * 1000
