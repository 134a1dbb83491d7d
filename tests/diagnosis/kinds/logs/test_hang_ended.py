"""Whoever ends a job that hung is not the cause of the hang."""

from __future__ import annotations

from pathlib import Path

from diagnosis.kinds.logs.decide import verdict
from tests.diagnosis.cases import case_of_files, case_of_lines

STEPS = [f"2026-03-01 10:{n:02d}:00 step {n} loss 2.1" for n in range(1, 30)]
CANCELLED = "2026-03-01 {hour}:30:00 slurmstepd: error: *** STEP 9.0 ON trn-1 CANCELLED AT 2026-03-01T{hour}:30:00 ***"


def test_a_cancel_hours_after_the_last_progress_is_only_the_end(tmp_path: Path) -> None:
    found = verdict.conclude(case_of_lines(tmp_path, *STEPS, CANCELLED.format(hour=14)))
    assert found.symptom == "hang"
    assert found.verdict.id == "unknown"


def test_a_cancel_while_training_goes_on_is_the_cause(tmp_path: Path) -> None:
    found = verdict.conclude(case_of_lines(tmp_path, *STEPS, CANCELLED.format(hour=10)))
    assert found.verdict.id == "platform.scheduler.cancelled"


def test_progress_that_stopped_while_monitors_write_on_is_a_hang(tmp_path: Path) -> None:
    steps = [f"2026-03-01 10:{n:02d}:00 step {n}/900 loss 2.1" for n in range(1, 30)]
    watch = [f"2026-03-01 {11 + n // 60}:{n % 60:02d}:07 exporter: gpu 0 draws {90 + n} W" for n in range(90)]
    found = verdict.conclude(case_of_lines(tmp_path / "a", *steps, *watch))
    assert (found.symptom, found.iteration) == ("hang", 30)
    evaluates = "2026-03-01 10:31:00 scoring the held-out documents"
    assert not verdict.conclude(case_of_lines(tmp_path / "b", *steps, evaluates, *watch)).is_failure
    unplanned = [step.replace("/900", "") for step in steps]
    assert not verdict.conclude(case_of_lines(tmp_path / "c", *unplanned, *watch)).is_failure
    shortly = [line.replace("2026-03-01 11:", "2026-03-01 10:") for line in watch[30:32]]
    assert not verdict.conclude(case_of_lines(tmp_path / "d", *steps, *shortly)).is_failure


def test_ranks_that_leave_with_a_warning_long_after_their_last_step_were_stopped_while_they_hung(
    tmp_path: Path,
) -> None:
    steps = [f"2026-03-01 10:{n:02d}:00 INFO rank {n % 4} step {n // 4} loss 2.1" for n in range(4, 52)]
    leaving = [f"2026-03-01 12:30:0{rank} {{level}} rank {rank}: ended by hand, good night" for rank in range(4)]
    warned = [line.format(level="WARNING") for line in leaving]
    assert verdict.conclude(case_of_lines(tmp_path / "a", *steps, *warned)).symptom == "hang"
    calm = [line.format(level="INFO") for line in leaving]
    assert not verdict.conclude(case_of_lines(tmp_path / "b", *steps, *calm)).is_failure
    assert not verdict.conclude(case_of_lines(tmp_path / "c", *steps, warned[0])).is_failure
    at_once = [line.replace("12:30", "10:52") for line in warned]
    assert not verdict.conclude(case_of_lines(tmp_path / "d", *steps, *at_once)).is_failure


def test_of_many_ranks_a_few_that_leave_do_not_show_that_all_were_stopped(tmp_path: Path) -> None:
    def leaving(work: Path, many: int) -> bool:
        files = {}
        for rank in range(8):
            steps = [f"2026-03-01 10:{n:02d}:00 INFO step {n} loss 2.1" for n in range(4, 52)]
            warned = ["2026-03-01 12:30:00 WARNING ended by hand, good night"] if rank < many else []
            files[f"logs/trn-{rank}/rank_{rank}.log"] = [*steps, *warned]
        return verdict.conclude(case_of_files(work, files)).is_failure

    assert leaving(tmp_path / "a", 6)
    assert not leaving(tmp_path / "b", 3)
