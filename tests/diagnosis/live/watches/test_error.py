"""A decisive error is an alarm until training continues."""

from __future__ import annotations

from typing import Any

from diagnosis.live import encode

ERROR = {"signature": "x", "category": "hardware.gpu.ecc", "title": "GPU memory error", "text": "Xid 48", "at": None}


def test_a_decisive_error_is_an_alarm_until_training_continues(job: Any) -> None:
    job.trains(21).says("node-2/dmesg", errors=[ERROR])
    assert (job.kinds, job.text) == (["error"], "GPU memory error: Xid 48")
    assert job.trains(20).kinds == []


def test_stored_errors_are_bounded(job: Any) -> None:
    job.says(errors=[{**ERROR, "signature": str(n)} for n in range(100)])
    assert len(encode(job.state)["watches"]["error"]["rows"]) == 20
