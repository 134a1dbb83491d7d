"""Jobs that somebody ended, and jobs that came to their end beside a complaint: whole small jobs."""

from pathlib import Path
from typing import Any

from tests.diagnosis.kinds.logs.test_outlived import steps, told_all

STEPS = steps(30, "INFO step {0}/90 loss 2.0{0}")


def ended(folder: Path, **files: str) -> tuple[Any, Any]:
    conclusion = told_all(folder, **files)["conclusion"]
    return conclusion["outcome"], conclusion["id"]


def test_a_process_that_its_parent_saw_end_by_sigterm_was_stopped(tmp_path: Path) -> None:
    end = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    spawn(work)\n'
    end += "spawn.ProcessExitedException: process 3 terminated with signal SIGTERM\n"
    assert ended(tmp_path, log=STEPS + end) == ("cancelled", "platform.scheduler.cancelled")


def killed_by_the_launcher(before: str = "") -> str:
    return (
        f"{STEPS}{before}\nC++ Traceback (most recent call last):\n0   paddle::work()\n\n"
        "FatalError: `Termination signal` is detected by the operating system.\n"
        "  [TimeInfo: *** Aborted at 1772352000 (unix time) ***]\n"
        "  [SignalInfo: *** SIGTERM (@0x11) received by PID 17 (TID 0x7f) from PID 3 ***]\n"
    )


def test_an_error_of_one_rank_before_the_stop_of_all_is_the_cause(tmp_path: Path) -> None:
    stopped = killed_by_the_launcher()
    error = "Traceback (most recent call last):\n  File \"train.py\", line 4, in <module>\nKeyError: 'labels'\n"
    found = ended(tmp_path, workerlog_0=killed_by_the_launcher(error), workerlog_1=stopped)
    assert found == ("failed", "user.code.exception")


THREAD = (
    "Exception in thread Thread-1 (_pin_memory_loop):\nTraceback (most recent call last):\n"
    '  File "loader.py", line 40, in run\n    item = queue.get()\n'
    "ConnectionRefusedError: [Errno 111] Connection refused\n"
)


def test_a_traceback_after_the_end_of_a_program_is_not_the_one_that_it_ignored(tmp_path: Path) -> None:
    ignored = "Exception ignored in: <function Loader.__del__ at 0x7f>\nTraceback (most recent call last):\n"
    frames = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
    found = ended(tmp_path, log=f"{STEPS}{ignored}Terminated\n{frames}KeyError: 'labels'\n")
    assert found == ("failed", "user.code.exception")
    assert ended(tmp_path, log=f"{STEPS}{ignored}KeyError: 'labels'\n")[0] == "running"


def test_what_a_finished_training_prints_of_a_text_is_no_error_of_its_program(tmp_path: Path) -> None:
    planned = steps(30, "INFO step {0}/30 loss 2.0{0}")
    text = "2026-03-01 08:01:00 INFO answer:\nWe see that 44 is not divisible by 3.\n"
    rest = "So she keeps some.\nThe others get more.\nNobody complains.\nThat is all.\n"
    end = "2026-03-01 08:01:01 INFO accuracy 0.5\n"
    assert ended(tmp_path, log=planned + text + rest + end)[0] == "succeeded"


def test_a_rank_wrote_on_though_its_later_lines_have_another_form(tmp_path: Path) -> None:
    error = "".join(f" {rank}: [gpu-1:77{rank}] PMIX ERROR: ERROR in file lock.c at line 168\n" for rank in range(4))
    calm = "".join(
        f" {rank}: gpu-1:77{rank}:77{rank} [{rank}] NCCL INFO {what}\n"
        for what in ("bootstrap up", "channels made", "rings made", "sum is right", "all freed")
        for rank in range(4)
    )
    assert ended(tmp_path, log=error + calm)[0] != "failed"


def test_a_launch_that_somebody_stopped_is_followed_by_another_one(tmp_path: Path) -> None:
    begin = "reading base.yaml\n12 blocks of the model\n4000 documents found\nusing device cuda\noptimizer adamw\n"
    stop = "W0301 08:00:32.000000 17 api.py:688] Received 15 death signal, shutting down workers\n"
    again = begin + "2026-03-01 08:02:00 INFO step 31/90 loss 2.1\n"
    assert ended(tmp_path, log=begin + STEPS + stop + again) == ("running", "none")
    assert ended(tmp_path, log=begin + STEPS + stop) == ("cancelled", "platform.scheduler.cancelled")
