"""A hang of a running job opens an incident at once, and training that goes on withdraws it."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ingest.services import job_create, resuming, watching
from triage.models import Incident

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_hang_opens_an_incident_and_progress_withdraws_it(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert incident.headline.startswith("The running job hangs. No progress for 60 s after iteration 12")
    assert (incident.condition, incident.category, incident.is_withdrawn) == ("hung", "unknown", False)

    train(13, 20)
    incident.refresh_from_db()
    assert incident.is_withdrawn
