"""The sweep repairs what a broker that is down or a dead worker left, and deletes what nobody uses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerDown

from ingest import processes, selectors, services, tasks
from ingest.models import Artifact, Blob, Job, Run, Upload
from ingest.services import sweeping
from tests.archives import zip_of
from tests.ingest.conftest import LOG

pytestmark = pytest.mark.django_db(transaction=True)


def send(job: Job, path: str = "a.log", data: bytes = LOG) -> services.Receipt:
    return services.artifact_receive(job=job, path=path, chunks=[data])


def test_the_sweeps_that_many_workers_send_at_once_are_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[None] = []
    monkeypatch.setattr(sweeping, "sweep", lambda: done.append(None))
    cache.delete("swept")
    for _worker in range(3):
        tasks.sweep()
    assert len(done) == 1
    cache.delete("swept")  # a while later
    tasks.sweep()
    assert len(done) == 2


def test_a_broker_that_is_down_costs_nothing_but_time(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*_: Any, **__: Any) -> None:
        raise BrokerDown("no")

    with monkeypatch.context() as patched:
        patched.setattr("celery.canvas.Signature.apply_async", down)
        send(job)
        assert Artifact.objects.get().state == "received"
        patched.setattr("ingest.broker.queue_length", lambda: None)
        sweeping.sweep()
        assert Artifact.objects.get().state == "received"
    monkeypatch.setattr("ingest.broker._ask_again_at", 0.0)  # a while later
    sweeping.sweep()
    assert Artifact.objects.get().state == "parsed"


def test_a_broker_known_to_be_down_is_not_asked_for_every_file(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def down(*_: Any, **__: Any) -> None:
        asked.append(1)
        raise BrokerDown("no")

    monkeypatch.setattr("celery.canvas.Signature.apply_async", down)
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


def test_small_files_sent_one_by_one_share_a_unit_of_work(job: Job, paused: Any, settings: Any) -> None:
    for n in range(20):
        send(job, f"rank{n}.log", LOG + b"%d\n" % n)
    assert Run.objects.filter(kind="parse").count() == 1
    settings.PARSE_UNIT_BYTES = 3 * len(LOG)
    for n in range(20, 30):
        send(job, f"rank{n}.log", LOG + b"%d\n" % n)
    assert Run.objects.filter(kind="parse").count() == 6


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
