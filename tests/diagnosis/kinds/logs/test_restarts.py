"""Launches one after another in one log, which only the counter and told ends of processes separate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.diagnosis.kinds.logs.test_outlived import told_all

END = "2026-03-01 08:01:{:02d} {}\n"


def conclusion(folder: Path, *parts: str) -> dict[str, Any]:
    report = told_all(folder, run="".join(parts))
    return dict(report["conclusion"])


def update(first: int, last: int, minute: int) -> str:
    return "".join(f"2026-03-01 08:{minute:02d}:{n % 60:02d} update={n} loss 2.1\n" for n in range(first, last))


@pytest.mark.parametrize("end", ["worker 3 left with exit code 1", "launch.sh: attempt 1 gave status 1, trying again"])
def test_a_job_that_counts_again_after_a_bad_end_and_completes_has_recovered(end: str, tmp_path: Path) -> None:
    found = conclusion(
        tmp_path, update(1, 40, 0), END.format(5, end), update(31, 59, 2), "2026-03-01 08:03:00 training completed\n"
    )
    assert (found["condition"], found["outcome"]) == ("recovered", "succeeded")
    assert found["sentence"].endswith("9 iterations had to be run again.")


def test_a_helper_that_ended_badly_while_the_counter_went_on_is_no_launch(tmp_path: Path) -> None:
    found = conclusion(
        tmp_path,
        update(1, 40, 0),
        END.format(5, "upload worker 3 left with exit code 1"),
        update(40, 59, 2),
        "2026-03-01 08:03:00 training completed\n",
    )
    assert found["condition"] == "healthy"


def test_lines_of_the_beginning_that_a_failed_program_prints_again_begin_no_launch(tmp_path: Path) -> None:
    banner = "".join(
        f"2026-03-01 08:{{0:02d}}:00 {text}\n" for text in ("call to the log server", "mpi of vendor x", "version y")
    )
    frame = 'Traceback (most recent call last):\n  File "fit.py", line 3, in <module>\n'
    error = f"{frame}ValueError: bad input shape (9, 39)\n"
    found = conclusion(
        tmp_path, banner.format(0), error, banner.format(1), "2026-03-01 08:02:00 Process Exiting with Code: 1\n"
    )
    assert (found["outcome"], found["id"]) == ("failed", "user.code.shape")


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"


def test_an_error_of_a_file_whose_job_counts_on_in_a_later_file_ended_nothing(tmp_path: Path) -> None:
    former = f"{update(1, 20, 0)}{OOM}"
    report = told_all(tmp_path / "on", previous=former, current=update(15, 51, 40))
    assert report["conclusion"]["outcome"] == "running"
    again = f"{update(15, 51, 40)}ValueError: bad input shape (9, 39)\n"
    failed = told_all(tmp_path / "again", previous=former, current=again)
    assert failed["logs"]["id"] == "user.code.shape"


def test_an_error_of_a_file_whose_progress_overlaps_with_that_of_others_ended_them(
    tmp_path: Path,
) -> None:
    report = told_all(tmp_path, rank0=f"{update(1, 20, 0)}{OOM}", rank1=update(1, 22, 0))
    assert report["logs"]["id"] == "user.memory.cuda_oom"


def test_the_last_launch_decides_where_each_has_a_directory(tmp_path: Path) -> None:
    former, last = f"{update(1, 40, 0)}{OOM}", f"{update(31, 59, 2)}Training complete\n"
    found = told_all(tmp_path, **{"attempt_0/r0": former, "attempt_1/r0": last})["conclusion"]
    assert (found["condition"], found["outcome"]) == ("recovered", "succeeded")
    failed = told_all(tmp_path / "b", **{"attempt_0/r0": last, "attempt_1/r0": former})
    assert failed["logs"]["id"] == "user.memory.cuda_oom"
