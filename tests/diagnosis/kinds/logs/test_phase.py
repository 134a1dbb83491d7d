"""When a job failed: symptom, stage and iteration."""

from __future__ import annotations

from pathlib import Path

from diagnosis.kinds.logs.causes import phase
from tests.diagnosis.cases import case_of, case_of_lines
from tests.diagnosis.synthetic import Job

STEPS = [f"2026-03-01 10:{n:02d}:00 step {n} loss 2.{n}" for n in range(1, 9)]


def test_an_error_between_steps_is_a_crash_in_the_next_one(tmp_path: Path) -> None:
    when = phase.find_moment(case_of_lines(tmp_path, *STEPS, "2026-03-01 10:08:30 RuntimeError: bad shape"))
    assert (when.symptom, when.stage, when.iteration) == ("crash", "training", 9)


def test_a_loss_that_is_no_number_failed_in_the_step_of_its_line(tmp_path: Path) -> None:
    lost = [f"2026-03-01 10:{n:02d}:00 step {n} loss nan" for n in range(9, 13)]
    assert phase.find_moment(case_of_lines(tmp_path, *STEPS, *lost)).iteration == 9


def test_a_long_silence_before_a_time_out_is_a_hang(tmp_path: Path) -> None:
    job = Job(nodes=4, iterations=12)
    assert phase.find_moment(case_of(job.timed_out(job.ends + 600), tmp_path)).symptom == "hang"


def test_an_excerpt_proves_nothing_about_a_launch(tmp_path: Path) -> None:
    when = phase.find_moment(case_of_lines(tmp_path, "RuntimeError: bad shape"))
    assert when.symptom == "crash"
    assert when.stage is None


def test_the_frames_of_an_excerpt_that_begins_within_a_traceback_tell_the_stage(tmp_path: Path) -> None:
    frames = [
        '  File "/team/train.py", line 83, in <module>',
        "    trainer.fit()",
        '  File "/team/loop.py", line 91, in evaluation_loop',
        "    value = metric(batch)",
    ]
    when = phase.find_moment(case_of_lines(tmp_path, *frames, "RuntimeError: bad shape"))
    assert (when.symptom, when.stage) == ("crash", "evaluation")


def test_reading_an_index_of_the_data_is_no_loading_of_a_checkpoint(tmp_path: Path) -> None:
    frames = [
        "Traceback (most recent call last):",
        '  File "/team/data.py", line 83, in build_datasets',
        "    index = np.load(path)",
        '  File "/env/numpy/lib/npyio.py", line 91, in load',
    ]
    assert phase.find_moment(case_of_lines(tmp_path, *frames, "FileNotFoundError: 'a.npy'")).stage == "model_build"


def test_an_excerpt_of_one_rank_does_not_show_that_the_job_did_not_start(tmp_path: Path) -> None:
    line = "[rank12]:[E817 17:40:34.227 ProcessGroupNCCL.cpp:1515] CUDA error: uncorrectable ECC error encountered"
    when = phase.find_moment(case_of_lines(tmp_path, line))
    assert when.symptom == "crash"
    assert when.stage is None


def test_a_refused_command_line_fails_a_launch_whatever_the_launch_before_it_did(tmp_path: Path) -> None:
    case = case_of_lines(tmp_path, *STEPS, "train.py: error: the following arguments are required: --data")
    when = phase.find_moment(case, category="user.config.argument")
    assert (when.stage, when.iteration) == ("launch", None)
    assert phase.find_moment(case, category="user.code.exception").stage == "training"
