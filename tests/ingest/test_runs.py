"""Claims, leases and errors of runs: work is done once, and done again when its worker died."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError
from django.db.models import QuerySet
from django.utils import timezone

from ingest import processes, selectors, services
from ingest.isolation import ReaderLost
from ingest.models import Machine, Run
from ingest.refusals import Refused
from ingest.services import machines, runs, sweeping, work
from ingest.services.work import Work
from tests.factories import make_job

pytestmark = pytest.mark.django_db(transaction=True)


def a_run(**fields: Any) -> Run:
    return Run.objects.create(job=make_job(), kind=Run.Kind.PARSE, **fields)


def test_a_run_is_claimed_once_while_its_worker_lives() -> None:
    run = a_run()
    assert runs.run_claim(run.pk) is not None
    assert runs.run_claim(run.pk) is None


def test_a_run_whose_process_is_missing_is_claimed_again_at_once() -> None:
    run = a_run()
    runs.run_claim(run.pk)
    Run.objects.update(worker=f"{processes.machine()}#999999999:1")
    claimed = runs.run_claim(run.pk)
    assert claimed is not None
    assert claimed.tries == 2


def test_a_run_of_another_machine_is_left_alone_until_it_is_silent_for_long() -> None:
    run = a_run()
    runs.run_claim(run.pk)
    Run.objects.update(worker="elsewhere#1:1")
    assert runs.run_claim(run.pk) is None
    Run.objects.update(heartbeat_at=timezone.now() - runs.lease() - timedelta(seconds=1))
    assert runs.run_claim(run.pk) is not None


def test_a_run_of_a_machine_that_gives_no_sign_of_life_for_a_minute_is_claimed() -> None:
    run = a_run()
    runs.run_claim(run.pk)
    Run.objects.update(worker="elsewhere#1:1")
    seen = Machine.objects.create(name="elsewhere", seen_at=timezone.now() - timedelta(seconds=50))
    assert runs.run_claim(run.pk) is None
    Machine.objects.filter(pk=seen.pk).update(seen_at=timezone.now() - timedelta(seconds=70))
    assert runs.run_claim(run.pk) is not None


def test_signing_again_keeps_one_row_a_machine() -> None:
    machines.signal_alive()
    Machine.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    assert machines.is_silent(processes.process_name())
    machines.signal_alive()
    assert not machines.is_silent(processes.process_name())
    assert Machine.objects.count() == 1


@pytest.mark.parametrize("off", [timedelta(hours=-1), timedelta(hours=1)])
def test_a_worker_whose_clock_is_wrong_keeps_its_run(monkeypatch: pytest.MonkeyPatch, off: timedelta) -> None:
    run = a_run()
    with monkeypatch.context() as there:
        there.setattr(runs.timezone, "now", lambda: datetime.now(UTC) + off)
        claimed = runs.run_claim(run.pk)
        assert claimed is not None
        Work(claimed).write()
    Run.objects.update(worker="elsewhere#1:1")
    assert runs.run_claim(run.pk) is None


def test_a_run_that_is_silent_for_longer_than_its_lease_is_claimed_though_its_process_lives() -> None:
    run = a_run()
    runs.run_claim(run.pk)
    Run.objects.update(worker=f"{processes.machine()}#{processes.id_and_start(os.getppid())}")
    assert runs.run_claim(run.pk) is None
    Run.objects.update(heartbeat_at=timezone.now() - runs.lease() - timedelta(seconds=1))
    claimed = runs.run_claim(run.pk)
    assert claimed is not None
    assert claimed.tries == 2


def test_the_lease_outlasts_the_silence_that_a_reading_is_allowed(settings: Any) -> None:
    settings.READING_SILENCE_S = 5000
    assert runs.lease() > timedelta(seconds=5000)


def test_a_run_that_renews_its_lease_for_ever_is_ended_by_the_sweep() -> None:
    run = a_run()
    runs.run_claim(run.pk)
    Run.objects.update(worker=f"{processes.machine()}#{processes.id_and_start(os.getppid())}")
    sweeping.sweep()
    run.refresh_from_db()
    assert run.state == "running"
    Run.objects.update(started_at=timezone.now() - timedelta(days=2), heartbeat_at=timezone.now())
    sweeping.sweep()
    run.refresh_from_db()
    assert (run.state, "longer than the 86,400 seconds" in run.error) == ("failed", True)


def test_a_run_that_takes_too_long_ends_itself_where_it_tells_its_progress(settings: Any) -> None:
    run = a_run()

    def slow(work: Work) -> None:
        work.run.started_at = timezone.now() - timedelta(days=2)
        work.write(stage="still")

    services.run_do(run.pk, slow)
    run.refresh_from_db()
    assert (run.state, "Send the evidence in smaller parts" in run.error) == ("failed", True)


def test_a_panic_of_a_native_library_is_an_error_like_others() -> None:
    import polars as pl

    run = a_run()

    def panicking(work: Work) -> None:
        raise pl.exceptions.PanicException("index out of range")

    for expected in ("queued", "queued", "failed"):
        services.run_do(run.pk, panicking)
        run.refresh_from_db()
        assert run.state == expected
    assert "PanicException: index out of range" in run.error


def test_an_interrupt_is_no_error_of_the_work() -> None:
    run = a_run()

    def interrupted(work: Work) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        services.run_do(run.pk, interrupted)


def test_a_reading_that_is_lost_fails_its_run_with_the_sentence() -> None:
    run = a_run()

    def losing(work: Work) -> None:
        raise ReaderLost("Reading this needs more memory.")

    services.run_do(run.pk, losing)
    run.refresh_from_db()
    assert (run.state, run.error) == ("failed", "Reading this needs more memory.")


def test_a_worker_that_lost_its_claim_writes_nothing_more() -> None:
    run = a_run()

    def act(work: Work) -> None:
        Run.objects.update(tries=5)  # someone else claimed it meanwhile
        work.write(stage="late")

    services.run_do(run.pk, act)
    run.refresh_from_db()
    assert (run.stage, run.state) == ("", "running")


def test_an_unexpected_error_is_tried_again_and_fails_in_the_end_with_a_sentence() -> None:
    run = a_run()

    def broken(work: Work) -> None:
        raise KeyError("no such thing")

    for expected in ("queued", "queued", "failed"):
        services.run_do(run.pk, broken)
        run.refresh_from_db()
        assert run.state == expected
    assert "KeyError" in run.error


def test_a_database_that_does_not_answer_costs_no_work() -> None:
    run = a_run()

    def locked(work: Work) -> None:
        raise OperationalError("database is locked")

    for _ in range(5):  # oftener than a run is tried that ends its workers
        services.run_do(run.pk, locked)
        run.refresh_from_db()
        assert (run.state, run.sent_at) == ("queued", None)
        assert "database did not answer" in selectors.progress(run.job).waiting
    services.run_do(run.pk, lambda work: None)
    run.refresh_from_db()
    assert (run.state, run.error) == ("succeeded", "")


def test_a_full_disk_is_waited_for_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run()

    def full(work: Work) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(runs, "MAX_WAITS", 4)
    for _ in range(5):
        services.run_do(run.pk, full)
        run.refresh_from_db()
        assert (run.state, "disk is full" in selectors.progress(run.job).waiting) == ("queued", True)
    services.run_do(run.pk, full)
    run.refresh_from_db()
    assert (run.state, "disk is full" in run.error) == ("failed", True)


def test_a_database_that_is_away_for_a_moment_gets_the_run_back(monkeypatch: pytest.MonkeyPatch) -> None:
    run, slept = a_run(), []

    def gone(work: Work) -> None:
        broken.setattr(QuerySet, "update", away)
        raise InterfaceError("connection already closed")

    def away(*_: Any, **__: Any) -> int:
        raise OperationalError("the server closed the connection")

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        broken.undo()

    with monkeypatch.context() as broken:
        broken.setattr(runs.time, "sleep", sleep)
        services.run_do(run.pk, gone)
    run.refresh_from_db()
    assert (run.state, slept) == ("queued", [1])


def test_a_refusal_fails_at_once_and_a_retry_begins_again() -> None:
    run = a_run()

    def refusing(work: Work) -> None:
        raise Refused("No. Do this instead.")

    services.run_do(run.pk, refusing)
    run.refresh_from_db()
    assert (run.state, run.error) == ("failed", "No. Do this instead.")
    assert services.run_retry(run=run)
    run.refresh_from_db()
    assert run.state == "succeeded"  # a unit without artifacts
    assert not services.run_retry(run=run)


def test_progress_is_written_at_most_once_a_second_and_of_short_work_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = a_run()

    def act(working: Work) -> None:
        for n in range(1000):
            working.stage(f"stage {n % 3}", n, 1000)
        run.refresh_from_db()
        assert (run.stage, run.done) == ("", 0)
        monkeypatch.setattr(work, "_PROGRESS_EVERY_S", 0.0)
        working.check()  # a reader may say nothing for minutes after it began a stage
        run.refresh_from_db()
        assert (run.stage, run.done) == ("stage 0", 999)

    services.run_do(run.pk, act)
