"""Claims, retries and the sweep: work is done once, and done again when its worker died."""

from __future__ import annotations

import errno
import os
from datetime import timedelta
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError
from django.db.models import QuerySet
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerDown

from ingest import processes, selectors, services, signals
from ingest.isolation import Lost
from ingest.models import Artifact, Blob, Job, Run, Upload
from ingest.refusals import Refused
from ingest.services import runs, sweeping
from tests.archives import zip_of
from tests.factories import make_job
from tests.ingest.conftest import LOG

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ready() -> Any:
    """What the upper layer is told."""
    told: list[dict[str, Any]] = []

    def hear(**said: Any) -> None:
        told.append({key: said[key] for key in ("job_id", "revision", "run_id")})

    signals.artifact_ready.connect(hear)
    yield told
    signals.artifact_ready.disconnect(hear)


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Messages are sent, but nobody works."""
    monkeypatch.setattr("ingest.tasks.unpack.apply_async", lambda *_, **__: None)
    monkeypatch.setattr("ingest.tasks.parse.apply_async", lambda *_, **__: None)


def send(job: Job, path: str = "a.log", data: bytes = LOG) -> services.Receipt:
    return services.artifact_receive(job=job, path=path, chunks=[data])


def a_run(**fields: Any) -> Run:
    return Run.objects.create(job=make_job(), kind=Run.Kind.PARSE, **fields)


def test_a_run_is_claimed_once_while_its_worker_lives() -> None:
    run = a_run()
    assert runs.run_claim(run.pk) is not None
    assert runs.run_claim(run.pk) is None


def test_a_run_whose_process_is_gone_is_claimed_again_at_once() -> None:
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


def test_a_run_that_is_silent_for_longer_than_its_lease_is_claimed_though_its_process_lives() -> None:
    run = a_run()
    runs.run_claim(run.pk)
    Run.objects.update(worker=f"{processes.machine()}#{processes.started(os.getppid())}")
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
    Run.objects.update(worker=f"{processes.machine()}#{processes.started(os.getppid())}")
    sweeping.sweep()
    run.refresh_from_db()
    assert run.state == "running"
    Run.objects.update(started_at=timezone.now() - timedelta(days=2), heartbeat_at=timezone.now())
    sweeping.sweep()
    run.refresh_from_db()
    assert (run.state, "longer than the 86,400 seconds" in run.error) == ("failed", True)


def test_a_run_that_takes_too_long_ends_itself_where_it_tells_its_progress(settings: Any) -> None:
    run = a_run()

    def slow(work: runs.Work) -> None:
        work.run.started_at = timezone.now() - timedelta(days=2)
        work.write(stage="still")

    services.run_do(run.pk, slow)
    run.refresh_from_db()
    assert (run.state, "Send the evidence in smaller parts" in run.error) == ("failed", True)


def test_a_panic_of_a_native_library_is_an_error_like_others() -> None:
    import polars as pl

    run = a_run()

    def panicking(work: runs.Work) -> None:
        raise pl.exceptions.PanicException("index out of range")

    for expected in ("queued", "queued", "failed"):
        services.run_do(run.pk, panicking)
        run.refresh_from_db()
        assert run.state == expected
    assert "PanicException: index out of range" in run.error


def test_an_interrupt_is_no_error_of_the_work() -> None:
    run = a_run()

    def interrupted(work: runs.Work) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        services.run_do(run.pk, interrupted)


def test_a_reading_that_is_lost_fails_its_run_with_the_sentence() -> None:
    run = a_run()

    def losing(work: runs.Work) -> None:
        raise Lost("Reading this needs more memory.")

    services.run_do(run.pk, losing)
    run.refresh_from_db()
    assert (run.state, run.error) == ("failed", "Reading this needs more memory.")


def test_a_worker_that_lost_its_claim_writes_nothing_more() -> None:
    run = a_run()

    def act(work: runs.Work) -> None:
        Run.objects.update(tries=5)  # someone else claimed it meanwhile
        work.write(stage="late")

    services.run_do(run.pk, act)
    run.refresh_from_db()
    assert (run.stage, run.state) == ("", "running")


def test_an_unexpected_error_is_tried_again_and_fails_in_the_end_with_a_sentence() -> None:
    run = a_run()

    def broken(work: runs.Work) -> None:
        raise KeyError("no such thing")

    for expected in ("queued", "queued", "failed"):
        services.run_do(run.pk, broken)
        run.refresh_from_db()
        assert run.state == expected
    assert "KeyError" in run.error


def test_a_database_that_does_not_answer_costs_no_work() -> None:
    run = a_run()

    def locked(work: runs.Work) -> None:
        raise OperationalError("database is locked")

    for _ in range(5):  # oftener than a run is tried that ends its workers
        services.run_do(run.pk, locked)
        run.refresh_from_db()
        assert (run.state, run.sent_at) == ("queued", None)
        assert "database did not answer" in selectors.progress(run.job).waiting
    services.run_do(run.pk, lambda work: None)
    run.refresh_from_db()
    assert (run.state, run.error) == ("succeeded", "")


def test_a_full_disk_is_waited_for_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run()

    def full(work: runs.Work) -> None:
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

    def gone(work: runs.Work) -> None:
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


def test_a_refusal_fails_at_once_and_a_retry_begins_anew() -> None:
    run = a_run()

    def refusing(work: runs.Work) -> None:
        raise Refused("No. Do this instead.")

    services.run_do(run.pk, refusing)
    run.refresh_from_db()
    assert (run.state, run.error) == ("failed", "No. Do this instead.")
    assert services.run_retry(run=run)
    run.refresh_from_db()
    assert run.state == "succeeded"  # a unit without artifacts
    assert not services.run_retry(run=run)


def test_progress_is_written_at_most_once_a_second() -> None:
    run = a_run()

    def act(work: runs.Work) -> None:
        for n in range(1000):
            work.stage("reading", n, 1000)
        run.refresh_from_db()
        assert (run.stage, run.done) == ("reading", 0)

    services.run_do(run.pk, act)


def test_a_broker_that_is_down_costs_nothing_but_time(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*_: Any, **__: Any) -> None:
        raise BrokerDown("no")

    with monkeypatch.context() as patched:
        patched.setattr("ingest.tasks.parse.apply_async", down)
        send(job)
        assert Artifact.objects.get().state == "received"
        patched.setattr("ingest.tasks.queue_length", lambda: None)
        sweeping.sweep()
        assert Artifact.objects.get().state == "received"
    monkeypatch.setattr("ingest.tasks._ask_again_at", 0.0)  # a while later
    sweeping.sweep()
    assert Artifact.objects.get().state == "parsed"


def test_a_broker_known_to_be_down_is_not_asked_for_every_file(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def down(*_: Any, **__: Any) -> None:
        asked.append(1)
        raise BrokerDown("no")

    monkeypatch.setattr("ingest.tasks.parse.apply_async", down)
    monkeypatch.setattr("ingest.tasks.unpack.apply_async", down)
    for n in range(5):
        send(job, f"{n}.zip", zip_of({f"{n}.log": LOG}))
    assert len(asked) == 1
    assert Run.objects.filter(sent_at=None).count() == 5


def test_a_lost_message_is_sent_again(job: Job, paused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    send(job)
    monkeypatch.undo()
    sweeping.sweep()
    assert Artifact.objects.get().state == "received"  # it may still be on its way
    Run.objects.update(sent_at=timezone.now() - timedelta(minutes=1))
    sweeping.sweep()
    assert Artifact.objects.get().state == "parsed"


def test_the_run_of_a_dead_worker_is_done_again_and_nothing_is_doubled(job: Job, paused: Any, monkeypatch: Any) -> None:
    send(job, "all.zip", zip_of({"a.log": LOG, "b.log": LOG + b"x\n"}))
    run = Run.objects.get(kind="unpack")
    Run.objects.filter(pk=run.pk).update(state="running", tries=1, worker=f"{processes.machine()}#999999999:1")
    monkeypatch.undo()
    sweeping.sweep()
    services.run_do(run.pk, lambda work: pytest.fail("it was done already"))
    assert Artifact.objects.count() == 2
    assert Run.objects.get(pk=run.pk).tries == 2


def test_a_file_is_read_again_after_one_dead_worker_and_left_out_after_two(job: Job, paused: Any) -> None:
    send(job, "a.log")
    send(job, "b.log", LOG + b"more\n")
    run = Run.objects.get(kind="parse")
    from ingest.services.parsing import artifacts_parse

    gone = f"{processes.machine()}#999999999:1"
    for tries, expected in ((1, {"a.log": "parsed", "b.log": "parsed"}), (2, {"a.log": "failed", "b.log": "parsed"})):
        Artifact.objects.update(state="received", settled_at=None)
        Artifact.objects.filter(path="a.log").update(state="parsing")
        Run.objects.filter(pk=run.pk).update(state="running", tries=tries, worker=gone)
        services.run_do(run.pk, artifacts_parse)
        assert dict(Artifact.objects.values_list("path", "state")) == expected
    assert "Two workers died" in Artifact.objects.get(path="a.log").problem


def test_small_files_sent_one_by_one_share_a_unit_of_work(job: Job, paused: Any, settings: Any) -> None:
    for n in range(20):
        send(job, f"rank{n}.log", LOG + b"%d\n" % n)
    assert Run.objects.filter(kind="parse").count() == 1
    settings.PARSE_UNIT_BYTES = 3 * len(LOG)
    for n in range(20, 30):
        send(job, f"rank{n}.log", LOG + b"%d\n" % n)
    assert Run.objects.filter(kind="parse").count() == 6


def test_a_revision_is_closed_when_asked_for_and_once(job: Job, ready: list[Any]) -> None:
    send(job)
    assert not ready
    run = services.diagnosis_request(job=job)
    assert run is not None
    assert services.diagnosis_request(job=job) == run
    assert ready == [{"job_id": job.pk, "revision": 1, "run_id": run.pk}]


def test_a_revision_is_closed_by_itself_when_nothing_more_comes(job: Job, ready: list[Any], settings: Any) -> None:
    send(job)
    sweeping.sweep()
    assert not ready
    settings.DIAGNOSE_AFTER_S = 0
    sweeping.sweep()
    sweeping.sweep()
    assert [said["revision"] for said in ready] == [1]


def test_asking_before_the_evidence_is_read_diagnoses_as_soon_as_it_is(job: Job, ready: list[Any], paused: Any) -> None:
    send(job)
    assert services.diagnosis_request(job=job) is None
    from ingest.services.parsing import artifacts_parse

    services.run_do(Run.objects.get().pk, artifacts_parse)
    assert len(ready) == 1


def test_evidence_that_comes_during_a_diagnosis_is_diagnosed_after_it(job: Job, ready: list[Any]) -> None:
    send(job)
    first = services.diagnosis_request(job=job)
    send(job, "b.log", LOG + b"more\n")
    assert services.diagnosis_request(job=job) is None
    assert first is not None
    services.run_do(first.pk, lambda work: None)
    job.refresh_from_db()
    assert (job.diagnosed_revision, [said["revision"] for said in ready]) == (1, [1, 2])


def test_the_same_evidence_is_diagnosed_again_only_by_force(job: Job, ready: list[Any]) -> None:
    send(job)
    run = services.diagnosis_request(job=job)
    assert run is not None
    services.run_do(run.pk, lambda work: None)
    assert services.diagnosis_request(job=job) == run
    again = services.diagnosis_request(job=job, is_forced=True)
    assert again is not None
    assert again.pk != run.pk


def test_a_diagnosis_whose_message_was_lost_is_announced_again(job: Job, ready: list[Any]) -> None:
    send(job)
    services.diagnosis_request(job=job)
    Run.objects.filter(kind="diagnose").update(sent_at=timezone.now() - timedelta(minutes=1))
    sweeping.sweep()
    assert [said["run_id"] for said in ready] == [ready[0]["run_id"]] * 2


def test_an_upload_that_still_grows_holds_the_diagnosis_back_until_it_stalls(job: Job, settings: Any) -> None:
    settings.DIAGNOSE_AFTER_S = 0
    attempt = services.attempt_get(job=job)
    upload = Upload.objects.create(job=job, attempt=attempt, path="b.log", size_bytes=10)
    send(job)
    assert services.diagnosis_request(job=job) is None
    Upload.objects.filter(pk=upload.pk).update(updated_at=timezone.now() - timedelta(minutes=3))
    assert services.diagnosis_request(job=job) is not None


def test_bytes_that_nothing_refers_to_are_thrown_away_after_a_while(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    send(job, "all.zip", zip_of({"a.log": LOG}))
    assert Blob.objects.count() == 2
    sweeping.tidy()
    assert Blob.objects.count() == 2
    monkeypatch.setattr(sweeping, "_BLOB_KEPT", timedelta(seconds=-1))
    sweeping.tidy()
    (blob,) = Blob.objects.all()
    artifact = Artifact.objects.get()
    assert artifact.blob_id == blob.pk
    assert selectors.read_range(artifact, 0, len(LOG)) == LOG


def test_an_upload_that_was_never_finished_is_tidied_away_with_a_sentence(job: Job) -> None:
    attempt = services.attempt_get(job=job)
    upload = Upload.objects.create(job=job, attempt=attempt, path="b.log", size_bytes=10)
    Upload.objects.filter(pk=upload.pk).update(updated_at=timezone.now() - timedelta(days=3))
    sweeping.tidy()
    upload.refresh_from_db()
    assert upload.state == "refused"
    assert "not sent completely" in upload.problem
