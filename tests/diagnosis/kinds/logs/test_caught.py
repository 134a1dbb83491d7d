"""Errors that a program says it handled end nothing; the same errors without such words do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.cases import case_of_files, case_of_lines

FRAMES = (
    "Traceback (most recent call last):",
    '  File "/opt/job/env.py", line 4, in act',
    "    x, y = text",
)
WORK = [f"worker {n}: using a fast tokenizer of kind {name}" for n, name in enumerate(("a", "b", "c", "d"))]


def outcome(tmp_path: Path, *lines: str) -> str:
    return case_of_lines(tmp_path, *lines).ending.outcome


def test_an_exception_that_was_logged_before_others_go_on_was_caught(tmp_path: Path) -> None:
    logged = [
        "ERROR:2026-12-25 23:46:30,691:" + FRAMES[0],
        *FRAMES[1:],
        "TypeError: cannot unpack NoneType object",
    ]
    assert outcome(tmp_path, "INFO begin", *logged, *WORK) != "failed"


def test_an_exception_at_the_end_was_not_caught(tmp_path: Path) -> None:
    raised = [*FRAMES, "TypeError: cannot unpack NoneType object"]
    assert outcome(tmp_path, "INFO begin", *WORK, *raised) == "failed"


def test_a_traceback_whose_lines_all_are_warnings_was_caught(tmp_path: Path) -> None:
    header = "[rank3]:W0311 10:02:17.101000 7711 torch/bundler.py:228] "
    lines = [header + line for line in (*FRAMES, "FileNotFoundError: [Errno 2] No such file: '/tmp/a/b'")]
    assert outcome(tmp_path, *lines) != "failed"
    assert outcome(tmp_path / "plain", *[line.removeprefix(header) for line in lines]) == "failed"


def test_a_message_that_says_what_is_done_instead_is_no_cause(tmp_path: Path) -> None:
    notice = "WARNING: could not find index map files, building the indices on rank 0 ..."
    assert outcome(tmp_path, "begin", notice, *WORK) != "failed"


def test_a_warning_that_python_shows_ends_nothing(tmp_path: Path) -> None:
    path = f"/opt/{'long/' * 30}amp.py:266: UserWarning: "
    said = "a device was asked for, but CUDA is not available. Disabling"
    assert outcome(tmp_path / "a", "begin", path + said, "  warnings.warn(") != "failed"
    assert outcome(tmp_path / "b", "begin", said) == "failed"


def test_an_error_of_the_logging_itself_ends_nothing(tmp_path: Path) -> None:
    raised = [*FRAMES, "OSError: [Errno 116] Stale file handle", "Call stack:"]
    assert outcome(tmp_path / "a", "begin", "--- Logging error ---", *raised) != "failed"
    assert outcome(tmp_path / "b", "begin", *raised) == "failed"


def test_an_exception_that_ended_the_program_after_its_success_is_a_failure(tmp_path: Path) -> None:
    trained = ["step 1 loss 2", "Training complete. Best accuracy: 90.9"]
    head, inner, error = FRAMES[0], FRAMES[1], "NameError: name 'show' is not defined"
    raised = [head, '  File "/opt/job/train.py", line 9, in <module>', error]
    assert outcome(tmp_path / "a", *trained, *raised) == "failed"
    assert outcome(tmp_path / "b", *trained[:1], *raised, *trained[1:]) == "succeeded"
    assert outcome(tmp_path / "c", *trained, head, inner, error) == "succeeded"


def test_what_is_skipped_is_no_cause(tmp_path: Path) -> None:
    said = "failed to load b.ckpt: it was written on another device"
    work = [f"the {name} table was written" for name in ("first", "second", "third", "last")]
    assert outcome(tmp_path / "a", "begin", f"[skip] {said}", *work) != "failed"
    assert outcome(tmp_path / "b", "begin", said) == "failed"


def test_what_a_wrapper_says_before_the_ranks_begin_did_not_stop_them(tmp_path: Path) -> None:
    hook = ["Traceback (most recent call last):", '  File "/opt/hook", line 5', "    import x"]
    wrapper = [*hook, "ModuleNotFoundError: No module named 'dataclasses'"]
    ranks = [f"  {rank}: [rank{rank}]: {text}" for text in ("begin", "read settings", "build model") for rank in (0, 1)]
    error = "AssertionError: class input value 5 and checkpoint value 6 do not match"
    raised = [f"  {rank}: [rank{rank}]: {text}" for text in (*hook, error) for rank in (0, 1)]
    case = case_of_lines(tmp_path, *wrapper, *ranks, *raised, "srun: error: n2: task 1: Exited with exit code 1")
    assert "class input value" in case.lead.example


def test_a_launch_that_was_refused_after_one_that_completed_has_failed(tmp_path: Path) -> None:
    completed = ["{'train_runtime': 1234.1, 'train_loss': 0.69}", "***** train metrics *****"]
    refused = [
        "usage: tune-cli [-h] [--lr LR]",
        "tune-cli: error: the following arguments are required: --out",
    ]
    assert outcome(tmp_path, *completed, *refused) == "failed"
    assert outcome(tmp_path / "alone", *completed) == "succeeded"


def test_an_exception_below_the_line_that_says_it_is_ignored_ends_nothing(tmp_path: Path) -> None:
    lines = [f"step {n} of 40: loss {3 - n / 50:.3f}" for n in range(1, 41)]
    raised = [*FRAMES, "OSError: [Errno 9] Bad file descriptor"]
    ignored = ["Exception ignored in: <function Connection.__del__ at 0x7f12>", *raised]
    stamped = [f"2026-05-04T09:00:00.{n:06d}Z stderr F {line}" for n, line in enumerate(ignored)]
    assert outcome(tmp_path, *lines, *stamped) == "succeeded"
    assert outcome(tmp_path / "raised", *lines[:30], *stamped[1:]) == "failed"
    assert outcome(tmp_path / "later", *lines[:20], *stamped, *lines[20:30], *WORK * 20, *raised) == "failed"


def test_a_warning_that_its_program_went_on_after_is_no_reason_for_a_stop(tmp_path: Path) -> None:
    said = ["INFO - begin", "WARNING - Error running lspci: [Errno 2] No such file: 'lspci'"]
    work = [f"INFO - {text}" for text in WORK]
    lines = [f"2026-12-25 23:46:3{n},100 - {text}" for n, text in enumerate([*said, *work])]
    stop = "W1225 23:56:30.113000 19018 torch/api.py:725] Received 15 death signal, shutting down"
    case = case_of_lines(tmp_path, *lines, stop)
    assert case.lead.category == "platform.scheduler.cancelled"


def test_a_report_of_the_end_above_the_output_was_not_survived(tmp_path: Path) -> None:
    report = [
        "Subject: Job 771: <tune> in cluster <gpu> Exited",
        "",
        "TERM_MEMLIMIT: job killed after reaching its limit.",
    ]
    steps = [f"step {n} | loss {5 - n / 50}" for n in range(60)]
    assert outcome(tmp_path, *report, "The output (if any) follows:", *steps) == "failed"
    assert outcome(tmp_path / "b", *report, *steps) == "running"


def test_a_vague_error_fails_no_training_that_came_to_its_planned_end(tmp_path: Path) -> None:
    vague = "slurmstepd: error: task_p_pre_launch: using the default binding"
    steps = [f"step {n}/60 | loss {5 - n / 50}" for n in range(1, 61)]
    files = {"job.err": [vague], "job.out": steps}
    assert case_of_files(tmp_path, files).ending.outcome == "succeeded"
    cut = files | {"job.out": steps[:40]}
    assert case_of_files(tmp_path / "cut", cut).ending.outcome == "failed"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("slurmstepd: error: Unable to unlink socket `/run/x`: No such file or directory", "succeeded"),
        (
            "[  812.114912] CPU31: Package temperature above threshold, cpu clock throttled (total events = 7)",
            "succeeded",
        ),
        ("[  812.114912] NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.", "failed"),
        ("[  812.114912] Out of memory: Killed process 3321 (python3) total-vm:9kB", "failed"),
    ],
)
def test_what_a_daemon_or_a_kernel_says_fails_no_completed_training(line: str, expected: str, tmp_path: Path) -> None:
    steps = [f"step {n}/60 | loss {5 - n / 50}" for n in range(1, 61)]
    assert outcome(tmp_path, *steps, line) == expected
    assert outcome(tmp_path / "cut", *steps[:40], line) == "failed"


def test_a_container_that_began_again_takes_its_back_off_back(tmp_path: Path) -> None:
    back_off = "  Warning  BackOff  44m   kubelet  Back-off restarting failed container main in w-0"
    started = "  Normal   Started  43m   kubelet  Started container main"
    steps = [f"2026-03-01 10:{n:02}:00 INFO step={n} loss=2.1" for n in range(40)]
    files = {"events.txt": [back_off, started], "main.log": steps}
    assert case_of_files(tmp_path, files).ending.outcome == "running"
    fails = files | {"events.txt": [started, back_off]}
    assert case_of_files(tmp_path / "fails", fails).ending.outcome == "failed"


def test_an_error_of_one_request_that_a_server_logs_does_not_end_it(tmp_path: Path) -> None:
    served = [f"INFO 05-13 14:16:{n:02d} [api.py:9] answered request {n} of 10.1.2.3" for n in range(40)]
    refused = [f"ERROR 05-13 14:16:21 [api.py:9] {line}" for line in (*FRAMES, "ValueError: the prompt is too long")]
    assert outcome(tmp_path, "INFO begin", *served[:20], *refused, *served[20:]) != "failed"
    assert outcome(tmp_path / "last", "INFO begin", *served, *refused) == "failed"
    assert (
        outcome(tmp_path / "raised", "INFO begin", *served[:20], *FRAMES, *refused, *FRAMES, "KeyError: 'a'")
        == "failed"
    )
