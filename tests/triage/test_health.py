"""What an operator's monitoring reads."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from ingest.models import Run
from tests.factories import make_job
from tests.pages import page_text

pytestmark = pytest.mark.django_db


def figures(client: Any) -> dict[str, float]:
    lines = page_text(client.get("/metrics")).splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_work_that_waits_is_recognised_by_its_age(client: Any) -> None:
    assert figures(client)["faultline_oldest_queued_run_seconds"] == 0
    run = Run.objects.create(job=make_job(), kind=Run.Kind.PARSE)
    Run.objects.filter(pk=run.pk).update(created_at=timezone.now() - timedelta(minutes=5))
    found = figures(client)
    assert 299 < found["faultline_oldest_queued_run_seconds"] < 400
    assert (found['faultline_runs{state="queued"}'], found["faultline_jobs"]) == (1, 1)


def test_space_and_queue_are_reported(client: Any) -> None:
    found = figures(client)
    assert found["faultline_data_free_bytes"] > 0
    assert found["faultline_broker_up"] in (0, 1)
    assert found["faultline_evidence_bytes"] == 0
