"""When a job failed: symptom, stage and iteration."""

from __future__ import annotations

from pathlib import Path

from diagnosis.logs import phase
from tests.diagnosis.cases import case_of, case_of_lines
from tests.diagnosis.synthetic import Job

STEPS = [f"2026-03-01 10:{n:02d}:00 step {n} loss 2.{n}" for n in range(1, 9)]


def test_an_error_between_steps_is_a_crash_in_the_next_one(tmp_path: Path) -> None:
    when = phase.find(case_of_lines(tmp_path, *STEPS, "2026-03-01 10:08:30 RuntimeError: bad shape"))
    assert (when.symptom, when.stage, when.iteration) == ("crash", "training", 9)


def test_a_long_silence_before_a_time_out_is_a_hang(tmp_path: Path) -> None:
    job = Job(nodes=4, iterations=12)
    assert phase.find(case_of(job.timed_out(job.ends + 600), tmp_path)).symptom == "hang"


def test_an_excerpt_proves_nothing_about_a_launch(tmp_path: Path) -> None:
    when = phase.find(case_of_lines(tmp_path, "RuntimeError: bad shape"))
    assert when.symptom == "crash"
    assert when.stage is None
