"""Background work: claimed once, repeated if its worker died, recorded on its ``Run`` row.

The row is the truth; a broker message only wakes a worker. A claim is a compare-and-set that increments ``tries``. Only
the holder of the latest claim may record progress or a result, so a message delivered twice doubles nothing.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable
from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from diagnosis.processing import faults
from ingest import processes, slots, spans, tracing
from ingest.isolation import End, ReaderLost
from ingest.locks import lock_rows
from ingest.models import Job, Run, RunLog
from ingest.refusals import DATABASE_ERRORS, Refused, StoreAway
from ingest.services import ends, machines
from ingest.services.revisions import revision_close
from ingest.services.run_lines import run_log
from ingest.services.sending import run_enqueue
from ingest.services.settling import SETTLING
from ingest.services.work import Postponed, Superseded, Work
from ingest.signals import run_failed

log = logging.getLogger(__name__)

MAX_TRIES = 3
#: after the longest silence allowed to a reader, a run has this much time to report progress
_GRACE = timedelta(minutes=5)
#: seconds between attempts to requeue work while the database is unreachable
_ASK_AGAIN_S = (1, 2, 5, 10, 20, 30, 60, 60)
#: how often a run may be requeued for reasons outside it
MAX_WAITS = 100


def run_do(run_id: int, act: Callable[[Work], None], slot: slots.Slot | None = None) -> Work | None:
    """Claim the run, do its work, record the result. Without a claim (finished, or held by another worker) nothing
    happens.

    ``slot`` is for work that is known to be long; it is released afterwards. Returns the work; None without a claim.

    An expected problem (:class:`Refused`) fails the run with its sentence; after an unexpected one it may be retried.
    """
    run = run_claim(run_id)
    work = Work(run, slot) if run is not None else None
    try:
        if work is not None:
            with tracing.tracing(work.run.trace, work.run.span), spans.span(*_span_of(work.run)):
                began = time.monotonic()
                _work_do(work, act)
                run_log(work, time.monotonic() - began)
    finally:
        held_slot = work.slot if work is not None else slot
        if held_slot is not None:
            held_slot.release()
    return work


def _span_of(run: Run) -> tuple[str, str, spans.Attributes]:
    return (
        f"{run.kind} run",
        "CONSUMER",
        {"faultline.run": run.pk, "faultline.job": run.job_id, "faultline.try": run.tries},
    )


def _work_do(work: Work, act: Callable[[Work], None]) -> None:
    run = work.run
    try:
        work.forget_log(run.parameters.get(Run.UNPACKED, {}).get("log_rows", 0))
        act(work)
        work.close_log()
        run_succeed(run)
    except Superseded:
        work.outcome = "was left to another worker"
    except Postponed as postponed:
        work.outcome = "goes on later"
        _postpone(run, is_long=postponed.is_long)
    except Refused as refusal:
        _fail(work, refusal.detail)
    except ReaderLost as lost:
        _fail(work, str(lost))
    except DATABASE_ERRORS as error:
        work.outcome, work.problem = "waits for the database", str(error)
        _release_when_it_answers(run, f"The database did not answer ({error}). The work continues when it does.")
    except StoreAway as error:
        work.outcome, work.problem = "waits for the store", str(error)
        _release_when_it_answers(run, "The store of evidence does not answer. The work continues when it does.")
    except BaseException as error:
        if not faults.is_fault(error):
            raise
        if not work.is_held():  # cancelled, or deleted with its job: what it looked for is not there any more
            return
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            work.outcome = "waits for space on the disk"
            _release_when_it_answers(run, "The server's disk is full. The work continues when there is space.")
            return
        log.exception("run %s failed", run.pk)
        what = f"{type(error).__name__}: {error}"
        sentence = f"An unexpected error ({what}) stopped this; retry it, and report it if it persists."
        if run.own_tries >= MAX_TRIES:
            _fail(work, sentence)
        else:
            work.outcome, work.problem = "is repeated", sentence
            run_release(run, sentence)


def _fail(work: Work, sentence: str) -> None:
    work.outcome, work.problem = "failed", sentence
    run_fail(work.run, sentence)


def run_claim(run_id: int) -> Run | None:
    """The run, now claimed; None if it is finished or a live worker holds it. Safe to call from many workers."""
    run = Run.objects.filter(pk=run_id).first()
    if run is None or run.state not in (Run.State.QUEUED, Run.State.RUNNING):
        return None
    before, parameters = run.error, run.parameters
    if run.state == Run.State.RUNNING:
        end = end_of(run)
        if end is None:
            return None
        parameters = ends.with_end(run, end)
    claimed = Run.objects.filter(pk=run.pk, state=run.state, tries=run.tries).update(
        state=Run.State.RUNNING,
        parameters=ends.at_claim(parameters),
        tries=F("tries") + 1,
        worker=processes.process_name(),
        heartbeat_at=Now(),
        started_at=timezone.now(),
        error="",
    )
    if not claimed:
        return None
    run.refresh_from_db()
    if sentence := ends.run_refusal(run):
        run_fail(run, sentence)
        return None
    if run.parameters.get(Run.HOLDS, 0) > MAX_WAITS:
        run_fail(run, before)
        return None
    return run


@transaction.atomic
def run_succeed(run: Run) -> None:
    # runs of a job finish one by one, so that exactly one range is the last
    job = lock_rows(Job.objects).filter(pk=run.job_id).first()
    if job is not None and _conclude(run, Run.State.SUCCEEDED):
        SETTLING[Run.Kind(run.kind)].on_success(run)
        revision_close(job_id=run.job_id)


@transaction.atomic
def run_fail(run: Run, sentence: str) -> None:
    """Fail the run for good, and settle its artifacts or upload, so that the rest of the job continues."""
    job = lock_rows(Job.objects).filter(pk=run.job_id).first()
    if job is None or not _conclude(run, Run.State.FAILED, sentence):
        return
    RunLog.objects.create(run=run, level=RunLog.Level.ERROR, message=sentence)
    spans.mark_failed(sentence)
    SETTLING[Run.Kind(run.kind)].on_failure(run, sentence)
    transaction.on_commit(lambda: run_failed.send_robust(sender=Run, run_id=run.pk))
    revision_close(job_id=run.job_id)


def run_release(run: Run, sentence: str, **values: object) -> None:
    """Requeue the run without a message: the next sweep sends one."""
    Run.objects.filter(pk=run.pk, state=Run.State.RUNNING, tries=run.tries).update(
        state=Run.State.QUEUED, sent_at=None, error=sentence, worker="", **values
    )


def run_abandon(run: Run, end: End) -> None:
    """Requeue the run of a worker that no longer holds it."""
    log.warning("run %s was left by its worker %s", run.pk, run.worker)
    sentence = "The worker that did this died or went silent; it is repeated."
    run_release(run, sentence, parameters=ends.with_end(run, end))


def _postpone(run: Run, *, is_long: bool) -> None:
    """Requeue the run without counting the try. Releasing a slot for long work wakes the next run that needs one."""
    parameters = {**run.parameters, Run.WAITS: int(run.parameters.get(Run.WAITS, 0)) + 1}
    Run.objects.filter(pk=run.pk, state=Run.State.RUNNING, tries=run.tries).update(
        state=Run.State.QUEUED, sent_at=timezone.now(), worker="", is_long=is_long, parameters=parameters
    )
    if not is_long:
        run_enqueue(run)


def _release_when_it_answers(run: Run, sentence: str) -> None:
    """Requeue the run without counting the try; retries for some minutes if the database is unreachable."""
    waited = {name: int(run.parameters.get(name, 0)) + 1 for name in (Run.WAITS, Run.HOLDS)}
    parameters = {**run.parameters, **waited}
    held = Run.objects.filter(pk=run.pk, state=Run.State.RUNNING, tries=run.tries)
    for pause in (*_ASK_AGAIN_S, None):
        try:
            if not connection.in_atomic_block:
                connection.close_if_unusable_or_obsolete()
            held.update(state=Run.State.QUEUED, sent_at=None, error=sentence, worker="", parameters=parameters)
        except DATABASE_ERRORS:
            if pause is None:
                raise
            time.sleep(pause)
        else:
            return


@transaction.atomic
def run_retry(*, run: Run) -> bool:
    """Begin a failed or cancelled run again with its artifacts. False if it is neither.

    Claims go on counting: who held an earlier one may still be at work, and must not write.
    """
    parameters = {**ends.after_progress(run.parameters), Run.WAITS: run.tries}  # none of its own tries counts any more
    parameters.pop(Run.UNPACKED, None)
    values = {"state": Run.State.QUEUED, "error": "", "sent_at": None, "ended_at": None, "parameters": parameters}
    ended = Run.objects.filter(pk=run.pk, state__in=(Run.State.FAILED, Run.State.CANCELLED), tries=run.tries)
    if not ended.update(**values):
        return False
    SETTLING[Run.Kind(run.kind)].on_retry(run)
    run_enqueue(run)
    return True


def lease() -> timedelta:
    """How long a silent run stays with its worker. Only the work itself renews the lease."""
    return timedelta(seconds=settings.READING_SILENCE_S) + _GRACE


def end_of(run: Run) -> End | None:
    """How the worker that holds the run lost it: it has ended, its machine gives no sign of life, or it was silent for
    longer than the lease. None: it holds it.

    A live process proves nothing: it may hang. ``tries`` fences off what it writes later.
    """
    is_gone: bool | None = False
    if run.worker != processes.process_name():
        is_gone = processes.has_ended(run.worker)
        if is_gone:
            return End.OWN if ends.was_short_of_memory(run) else End.OUTSIDE
        if is_gone is None and machines.is_silent(run.worker):
            return End.OUTSIDE
    if Run.objects.filter(pk=run.pk, heartbeat_at__gte=Now() - lease()).exists():
        return None
    return End.OUTSIDE if is_gone is None else End.OWN


def _conclude(run: Run, state: str, error: str = "") -> int:
    claimed = Run.objects.filter(pk=run.pk, state=Run.State.RUNNING, tries=run.tries)
    return claimed.update(state=state, error=error, ended_at=timezone.now(), worker="", stage="")
