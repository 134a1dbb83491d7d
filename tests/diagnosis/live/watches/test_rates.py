"""More lines of one sort than the stage's own history has."""

from __future__ import annotations

from typing import Any


def lines(errors: int = 0, retries: int = 0) -> dict[str, Any]:
    return {"tallies": {"errors": errors, "retries": retries}}


def test_a_burst_of_error_lines_is_an_alarm_and_ends_when_it_is_over(job: Any) -> None:
    job.trains(150).says(**lines(errors=500))
    assert (job.kinds, job.text) == (["burst"], "500 error lines within 30 s; at most 0 before.")
    assert job.trains(60).kinds == []


def test_a_job_that_always_prints_errors_has_no_burst(job: Any) -> None:
    for _ in range(40):
        job.trains(5, **lines(errors=6))
        assert job.kinds == []


def test_the_warnings_of_launches_evaluations_and_checkpoints_are_their_own(job: Any) -> None:
    job.says(stage="model_build", **lines(errors=200)).trains(150)
    for stage in ("checkpoint_save", "evaluation"):
        job.says(stage=stage, **lines(errors=200))
        assert job.kinds == []
        job.trains(60)


def test_warnings_of_a_save_that_few_saves_before_did_not_print_are_no_burst(job: Any) -> None:
    """Before, each of the windows of a long save counted: eight silent saves were 49 windows without an error."""
    for _ in range(8):
        job.trains(150).says(stage="checkpoint_save")
        for _ in range(18):
            job.waits(10).says()
    job.trains(150).says(stage="checkpoint_save", **lines(errors=30))
    assert job.kinds == []


def test_errors_that_a_launch_brings_are_not_of_the_evaluation_that_it_ends(job: Any) -> None:
    for _ in range(70):
        job.trains(40).says(stage="evaluation")
    assert job.says(stage="launch", **lines(errors=25)).kinds == []


def test_retries_are_an_alarm_once_they_stay_many(job: Any) -> None:
    job.trains(250).says(**lines(retries=40))
    assert job.kinds == [], "one minute may pass"
    job.trains(32).says(**lines(retries=80))
    assert job.kinds == ["retries"]
    assert job.trains(200).kinds == []


def test_retries_are_told_in_a_job_that_saves_every_minute(job: Any) -> None:
    for _ in range(60):
        job.trains(30).says(stage="checkpoint_save", **lines(retries=1)).says(stage="training")
    assert job.kinds == []
    for _ in range(4):
        job.trains(30, **lines(retries=2)).says(stage="checkpoint_save").says(stage="training")
    assert job.kinds == ["retries"]
