"""A person ends a job: what its programs print before and meanwhile is no reason for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnosis.kinds.logs.decide import verdict
from diagnosis.records.result import LogDiagnosis
from tests.diagnosis.cases import case_of, case_of_files, case_of_lines
from tests.diagnosis.synthetic import Job


def stopped(work: Path, order: str, *told: tuple[float, int, str]) -> LogDiagnosis:
    """Eight machines that train until the launcher states the order; some say something so many seconds before."""
    job = Job(iterations=30)
    for seconds, node, text in told:
        job.say(job.ends - seconds, node, text)
    return verdict.conclude(case_of(job.say(job.ends + 4, None, order).torn_down(job.ends + 5), work))


@pytest.mark.parametrize(
    "order",
    [
        "level=INFO msg=service run-7b removed by ada.l",
        "job is terminated on request of ada, status Terminated",
        "利用者 ada の依頼によりジョブ 88213 を停止",
    ],
)
def test_whoever_ended_it_is_the_cause(order: str, tmp_path: Path) -> None:
    assert stopped(tmp_path, order).verdict.id == "platform.scheduler.cancelled"


@pytest.mark.parametrize("order", ["task 3 was killed by the kernel", "job 7 terminated by signal 15"])
def test_programs_that_end_others_are_nobody(order: str, tmp_path: Path) -> None:
    assert stopped(tmp_path, order).verdict.id != "platform.scheduler.cancelled"


def test_a_problem_that_the_program_says_it_ignores_is_no_reason_for_the_stop(tmp_path: Path) -> None:
    order = "Normal Suspended pytorchjob/run7 PyTorchJob run7 is suspended by user ada."
    ignored = "WARNING | Handling webdataset error (OSError('image file is truncated (3 bytes)')). Ignoring."
    found = stopped(tmp_path, order, *((seconds, 3, ignored) for seconds in (200, 90, 6)))
    assert found.verdict.id == "platform.scheduler.cancelled"


def test_a_consequence_without_a_time_does_not_show_that_the_stop_came_after_it(tmp_path: Path) -> None:
    """Its lower bound is the line before it, which is older than the order."""
    job = Job(iterations=30)
    job.say(job.ends + 4, None, "Normal Suspended pytorchjob/run7 PyTorchJob run7 is suspended by user ada.")
    files = job.files()
    files["logs/gpu-0003.log"] += b"terminate called without an active exception\n"
    job.files = lambda: files  # type: ignore[method-assign]
    assert verdict.conclude(case_of(job, tmp_path)).verdict.id == "platform.scheduler.cancelled"


def test_a_stop_that_a_known_cause_explains_does_not_lead(tmp_path: Path) -> None:
    """A numeric library whose threads could not be started interrupts its own program."""
    refused = "OpenBLAS blas_thread_init: pthread_create failed for thread 61 of 64: Resource temporarily unavailable"
    raised = ["Traceback (most recent call last):", '  File "t.py", line 3, in <module>', "    import numpy as np"]
    case = case_of_lines(tmp_path, "begin", *[refused] * 3, *raised, "KeyboardInterrupt")
    assert case.lead.signature == "kernel.task_limit"


def test_the_dump_of_a_handler_of_signals_shows_a_stop_and_no_crash(tmp_path: Path) -> None:
    dump = [
        "C++ Traceback (most recent call last):",
        "0   lib::imperative::Context::Init()",
        "FatalError: `Termination signal` is detected by the operating system.",
        '  [TimeInfo: *** Aborted at 1700000000 (unix time) try "date -d @1700000000" if you are using GNU date ***]',
        "  [SignalInfo: *** SIGTERM (@0x2c1) received by PID 811 (TID 0x7f10) from PID 700 ***]",
    ]
    files = {f"workerlog.{rank}": ["I0301 10:00:00.000000 81 comm.cc:2] Server listening", *dump] for rank in (1, 2)}
    found = verdict.conclude(case_of_files(tmp_path, files))
    assert (found.verdict.id, found.outcome) == ("platform.scheduler.cancelled", "cancelled")
