"""Messages about the end of a job."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from diagnosis.kinds.logs.causes import outcome
from diagnosis.knowledge import words
from tests.diagnosis.cases import case_of_lines


def says_success(line: str) -> bool:
    messages = pl.DataFrame({"masked": [1], "text": [line], "example": [line]})
    return bool(outcome.end_messages(messages)["success"])


@pytest.mark.parametrize("meaning", ["success", "end", "cancelled", "time_limit"])
def test_all_rows_of_a_meaning_are_searched(meaning: str) -> None:
    lines = [line for word in words.load("outcome") for line in (*word.example, *word.counter)]
    joined = pl.Series(lines).str.contains(words.pattern("outcome", meaning))
    assert outcome.has_meaning(pl.Series(lines), meaning).to_list() == joined.to_list()


@pytest.mark.parametrize(
    "line",
    [
        "training finished",
        "Job 'a7' succeeded",
        "State: COMPLETED (exit code 0)",
        "INFO lib.checkpoint - Finished training after 850 step(s) on rank 0.",
    ],
)
def test_the_end_of_a_job_is_success(line: str) -> None:
    assert says_success(line)


@pytest.mark.parametrize(
    "line",
    [
        "attempt 2 succeeded",
        "upload job 4 completed successfully",
        "training not completed",
        "evaluation run succeeded",
    ],
)
def test_the_end_of_one_action_is_not(line: str) -> None:
    assert not says_success(line)


def test_a_wrappers_message_counts_only_if_nothing_failed(tmp_path: Path) -> None:
    end = "wandb: Run summary:"
    assert case_of_lines(tmp_path / "a", "step 1", end).ending.outcome == "succeeded"
    assert case_of_lines(tmp_path / "b", "step 1", "RuntimeError: bad shape", end).ending.outcome == "failed"


def test_an_exception_that_is_retried_ends_nothing(tmp_path: Path) -> None:
    steps = [f"2026-03-01 10:{n:02d}:00 step {n} loss 2.{n}" for n in range(1, 9)]
    retry = "Retrying (Retry(total=3)) after connection broken by ReadTimeoutError: /api/metrics"
    assert case_of_lines(tmp_path, *steps, retry).ending.outcome == "running"


def test_a_final_save_that_raises_a_known_error_has_failed_after_the_training(tmp_path: Path) -> None:
    end = "[after training is done] datetime: 2026-03-01 10:09:00"
    full = "OSError: [Errno 28] No space left on device"
    assert case_of_lines(tmp_path / "a", "step 1", end, full).ending.outcome == "failed"
    assert case_of_lines(tmp_path / "b", "step 1", end, "KeyError: 'x'").ending.outcome == "succeeded"


def test_a_step_that_its_launcher_ends_after_a_worker_failed_was_not_cancelled(tmp_path: Path) -> None:
    steps = [f"2026-03-01 10:{n:02d}:00 step {n} loss 2.{n}" for n in range(1, 9)]
    failed = "srun: error: n4: task 9: Exited with exit code 1"
    ended = [
        "srun: Terminating StepId=7.0",
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-03-01T10:09:00 ***",
    ]
    assert case_of_lines(tmp_path / "a", *steps, failed, *ended).ending.outcome == "failed"
    after = "srun: error: n4: task 9: Exited with exit code 143"
    assert case_of_lines(tmp_path / "b", *steps, *ended[1:], after).ending.outcome == "cancelled"
