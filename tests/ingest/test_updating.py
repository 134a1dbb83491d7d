"""Columns of many rows are set together, each row to values of its own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ingest.models import Job, Upload
from ingest.services import resuming
from ingest.services.updating import update_each

pytestmark = pytest.mark.django_db


def test_each_row_gets_its_own_values_in_one_statement(job: Job, django_assert_num_queries: Any) -> None:
    uploads = [resuming.upload_begin(job=job, path=f"{n}.log", size_bytes=None) for n in range(3)]
    at = datetime(2026, 11, 24, 3, tzinfo=UTC)
    rows = [(upload.pk, n, bytes([n, 0, 255]), at) for n, upload in enumerate(uploads[:2])]
    with django_assert_num_queries(1):
        update_each(Upload, ("offset_bytes", "recent_batches", "updated_at"), rows)
    stored = Upload.objects.order_by("path").values_list("offset_bytes", "recent_batches", "updated_at")
    assert [(offset, bytes(recent), moment) for offset, recent, moment in stored[:2]] == [row[1:] for row in rows]
    assert stored[2][0] == 0
    assert stored[2][2] != at


def test_no_rows_ask_nothing(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        update_each(Upload, ("offset_bytes",), [])
