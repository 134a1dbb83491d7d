"""Whoever ends a job that hung is not the cause of the hang."""

from __future__ import annotations

from pathlib import Path

from diagnosis.kinds.logs.decide import verdict
from tests.diagnosis.cases import case_of_lines

STEPS = [f"2026-03-01 10:{n:02d}:00 step {n} loss 2.1" for n in range(1, 30)]
CANCELLED = "2026-03-01 {hour}:30:00 slurmstepd: error: *** STEP 9.0 ON trn-1 CANCELLED AT 2026-03-01T{hour}:30:00 ***"


def test_a_cancel_hours_after_the_last_progress_is_only_the_end(tmp_path: Path) -> None:
    found = verdict.conclude(case_of_lines(tmp_path, *STEPS, CANCELLED.format(hour=14)))
    assert found.symptom == "hang"
    assert found.verdict.id == "unknown"


def test_a_cancel_while_training_goes_on_is_the_cause(tmp_path: Path) -> None:
    found = verdict.conclude(case_of_lines(tmp_path, *STEPS, CANCELLED.format(hour=10)))
    assert found.verdict.id == "platform.scheduler.cancelled"
