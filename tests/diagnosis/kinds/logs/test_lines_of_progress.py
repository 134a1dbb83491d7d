"""What stands in each line of progress measures the job, and ends none."""

from __future__ import annotations

from pathlib import Path

from diagnosis.kinds.logs.causes import survived
from tests.diagnosis.cases import case_of_files, case_of_lines


def test_a_stall_that_each_line_of_progress_states_is_no_cause(tmp_path: Path) -> None:
    lines = [f"08:{n // 60:02}:{n % 60:02} a1/0> minibatch {n} loss 2.{n} (0.70s, stall 0.05s)" for n in range(1, 80)]
    case = case_of_lines(tmp_path, *lines)
    assert survived.lines_of_progress(case)
    assert not case.roots.members
    stuck = case_of_lines(tmp_path, *lines, "08:30:00 a1/0> error: batch 80 is stuck: no data for 1800 s")
    assert stuck.roots.members


def test_an_error_behind_the_only_bar_ended_the_job(tmp_path: Path) -> None:
    bar = "Epoch 0:   6%|██        | 320/5000 [1:28:43<9:39:17, 1.4it/s, loss=2.1]"
    told = "[E ProcessGroupNCCL.cpp:821] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9)"
    case = case_of_lines(tmp_path, "building model", f"{bar}{told}", told, told)
    assert not survived.lines_of_progress(case)
    assert case.ending.outcome == "failed"


def test_the_machine_that_a_launcher_names_is_where_a_process_was_killed(tmp_path: Path) -> None:
    told = "mpirun noticed that process rank 7 with PID 4107 on node gpu-3 exited on signal 9 (Killed)."
    files = {
        f"gpu-{node}.log": [f"2026-03-02 08:00:{step:02} INFO step={step} loss=2.1" for step in range(1, 40)]
        for node in range(4)
    }
    files["gpu-0.log"] += [told]
    assert case_of_files(tmp_path, files).roots.nodes == ("gpu-3",)


def test_a_loss_that_is_no_number_may_be_the_cause_though_each_line_of_progress_states_it(tmp_path: Path) -> None:
    steps = [f"2026-03-02 08:00:{n:02} INFO step={n} loss: {'nan' if n > 20 else 2.1}" for n in range(1, 50)]
    case = case_of_lines(tmp_path, *steps)
    lost = case.events.filter(case.events["signature"] == "numerics.nan_progress")["event"].to_list()
    assert lost and not survived.lines_of_progress(case).intersection(lost)
