"""A hang of a running job opens an incident at once; training that goes on leaves it as degraded, the end decides."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ingest.models import Job
from ingest.services import diagnosis_request, job_create, resuming, watching
from triage.models import Incident

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_hang_is_an_incident_while_the_job_runs_and_its_files_decide_at_the_end(
    monkeypatch: pytest.MonkeyPatch, goes_on: bool
) -> None:
    clock = [datetime(2026, 11, 22, 3, tzinfo=UTC)]
    monkeypatch.setattr(watching.timezone, "now", lambda: clock[0])
    job = job_create(name="Night run", declared_outcome="running")
    upload = resuming.upload_begin(job=job, path="node-1/train.log", size_bytes=None)

    def train(first: int, last: int) -> None:
        for n in range(first, last + 1):
            clock[0] += timedelta(seconds=2)
            line = f"{clock[0]:%Y-%m-%d %H:%M:%S},000 INFO iteration {n}/1000 loss 2.5\n".encode()
            upload.refresh_from_db()
            with closing(resuming.Piece(upload, resuming.upload_offset(upload), len(line))) as piece:
                piece.write(line)
                piece.finish()
            watching.attempt_observe(upload.attempt_id)

    train(1, 12)
    clock[0] += timedelta(seconds=60)
    watching.watches_judge()
    incident: Any = Incident.objects.get()
    assert incident.headline.startswith("The running job hangs. No progress after iteration 12")
    assert (incident.condition, incident.category, incident.is_withdrawn) == ("hung", "unknown", False)

    for _ in range(3):  # longer gaps are those of a site that was away
        clock[0] += timedelta(seconds=100)
        watching.watches_judge()
    incident.refresh_from_db()
    assert Incident.objects.count() == 1, "updated in place"

    if goes_on:
        train(13, 20)
        incident.refresh_from_db()
        assert (incident.condition, incident.is_withdrawn) == ("degraded", False)
        assert incident.headline.startswith("The running job had an alarm for 362 s and continued.")

    upload.refresh_from_db()
    resuming.upload_close(upload=upload)
    Job.objects.update(declared_outcome="failed")
    diagnosis_request(job=job)
    incident.refresh_from_db()
    assert incident.is_withdrawn or "The running job" not in incident.headline
    assert (incident.condition == "hung") is not goes_on
    if not goes_on:
        assert re.match(
            r"The job hung for [\d,]+ s until it was ended\. No progress after iteration 12", incident.headline
        )
