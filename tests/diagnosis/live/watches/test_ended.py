"""A process that ended badly is an alarm soon, unless the job goes on without it."""

from __future__ import annotations

from typing import Any

DIED = "srun: error: node-7: task 12: Exited with exit code 1"


def test_a_job_that_stands_still_after_the_end_of_a_process_has_an_alarm_within_15_seconds(job: Any) -> None:
    job.trains(21).says("launcher.log", ended=DIED)
    assert job.waits(2).kinds == []
    assert (job.waits(4).kinds, job.text) == (["ended"], f"A process ended: {DIED}")


def test_a_long_step_is_waited_for(job: Any) -> None:
    job.step_s = 8.0
    job.trains(21).says("launcher.log", ended=DIED)
    assert job.waits(11).kinds == []
    assert job.waits(2).kinds == ["ended"]


def test_a_job_that_goes_on_without_the_process_has_no_alarm(job: Any) -> None:
    job.trains(21).says("launcher.log", ended=DIED)
    seen = [kind for _ in range(20) for kind in job.trains(1).kinds]
    assert seen == []


def test_the_alarm_ends_when_training_continues_and_the_next_end_is_another(job: Any) -> None:
    job.trains(21).says("launcher.log", ended=DIED).waits(20)
    assert "ended" in job.kinds
    assert job.trains(20).kinds == []
    job.says("launcher.log", ended="exited on signal 9").waits(6)
    assert job.text == "A process ended: exited on signal 9"


def test_counts_that_come_late_do_not_hide_it_and_a_second_end_does_not_replace_the_first(job: Any) -> None:
    job.trains(21).says("launcher.log", ended=DIED).trains(1, 1.0).says("launcher.log", ended="exited on signal 9")
    assert job.waits(6).text == f"A process ended: {DIED}"


def test_a_job_without_counts_has_the_alarm_too(job: Any) -> None:
    job.says("launcher.log", ended=DIED)
    assert job.waits(6).kinds == ["ended"]
