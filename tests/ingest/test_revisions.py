"""When a revision of the evidence is closed and its one diagnosis queued."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from ingest import services, signals
from ingest.models import Job, Run, Upload
from ingest.services import sweeping
from tests.ingest.conftest import LOG

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ready() -> Any:
    """The signals to the upper layer."""
    told: list[dict[str, Any]] = []

    def hear(**said: Any) -> None:
        told.append({key: said[key] for key in ("job_id", "revision", "run_id")})

    signals.artifact_ready.connect(hear)
    yield told
    signals.artifact_ready.disconnect(hear)


def send(job: Job, path: str = "a.log", data: bytes = LOG) -> services.Receipt:
    return services.artifact_receive(job=job, path=path, chunks=[data])


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
    from ingest.services.artifact_parsing import artifacts_parse

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
