"""What real logs asked for: errors that were outlived, stops from outside, quoted causes, bare ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diagnosis.pipeline import diagnose
from diagnosis.report import to_json
from tests.diagnosis.synthetic import read_files

STEPS = [f"2026-03-01 10:{n:02d}:00 INFO step {n} loss 2.{n}" for n in range(1, 9)]


def logs_of(tmp_path: Path, *lines: str) -> dict[str, Any]:
    parsed, read = read_files({"train.log": "\n".join([*lines, ""]).encode()}, tmp_path)
    return dict(to_json(diagnose(parsed, read=read))["logs"])


def test_an_import_that_was_only_tried_is_no_cause_next_to_what_ended_the_process(tmp_path: Path) -> None:
    steps = [f"step {n} loss 2.{n}" for n in range(1, 9)]
    end = ["Traceback (most recent call last):", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"]
    logs = logs_of(tmp_path, "ModuleNotFoundError: No module named 'fastpath'", *steps, *end)
    assert logs["subcategory"] == "cuda_oom"
    assert logs["lines"][0]["line"] == 11


def test_what_is_printed_while_a_job_is_stopped_is_no_cause_of_the_stop(tmp_path: Path) -> None:
    stop = [
        "2026-03-01 10:08:20 slurmstepd: error: *** JOB 9 ON trn-1 CANCELLED AT 10:08:20 DUE TO TIME LIMIT ***",
        "2026-03-01 10:08:21 ERROR RuntimeError: DataLoader worker (pid 42) exited unexpectedly with exit code 1",
    ]
    logs = logs_of(tmp_path, *STEPS, *stop)
    assert logs["subcategory"] == "time_limit"
    assert logs["lines"][0]["line"] == 9


def test_a_limit_that_comes_after_a_cause_is_only_the_end(tmp_path: Path) -> None:
    end = [
        "2026-03-01 10:08:20 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        "2026-03-01 12:00:00 slurmstepd: error: *** JOB 9 ON trn-1 CANCELLED AT 12:00:00 DUE TO TIME LIMIT ***",
    ]
    logs = logs_of(tmp_path, *STEPS, *end)
    assert logs["subcategory"] == "cuda_oom"
    assert logs["lines"][0]["line"] == 9


@pytest.mark.parametrize(
    ("line", "subcategory"),
    [
        ("RuntimeError: NCCL error in: a.cpp:1, unhandled cuda error. Last error: CUDA out of memory", "cuda_oom"),
        ("NVRM: Xid (PCI:0000:4e:00): 45, pid=811, name=python3, Ch 00000010 caused by previous Xid 94", "gpu_ecc"),
        ("./run.sh: line 12:  4242 Killed                  python train.py", "process_killed"),
        ("Killed", "process_killed"),
        ("Getötet", "process_killed"),
        ("evicted: the worker may have exceeded the pod's memory limit (8Gi)", "host_oom"),
    ],
    ids=["last error", "previous code", "shell", "bare", "shell in German", "memory limit"],
)
def test_the_inner_cause_is_classified_not_its_wrapper(line: str, subcategory: str, tmp_path: Path) -> None:
    logs = logs_of(tmp_path, "step 1 loss 2.1", line)
    assert logs["subcategory"] == subcategory
    assert [ref["line"] for ref in logs["lines"]] == [2]


def test_a_log_that_reaches_its_last_step_has_succeeded(tmp_path: Path) -> None:
    logs = logs_of(tmp_path, *(f"step {n}/8 loss 2.{n}" for n in range(1, 9)))
    assert logs["outcome"] == "succeeded"


def test_an_exception_after_which_its_process_went_on_was_caught(tmp_path: Path) -> None:
    caught = ["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'quickops'"]
    end = ["Traceback (most recent call last):", "KeyError: 'labels'"]
    logs = logs_of(tmp_path, *caught, "building model with plain operations", *end)
    assert logs["category"] == "user"
    assert logs["lines"][0]["line"] == 5


def test_an_unknown_error_after_which_its_process_went_on_was_caught(tmp_path: Path) -> None:
    caught = "ERROR - could not read the table of codes: 'Quantiser' has no codebooks"
    logs = logs_of(tmp_path / "a", "loading tokenizer", caught, "starting training")
    assert not logs["is_failure"]
    assert logs_of(tmp_path / "b", "loading tokenizer", "starting training", caught)["is_failure"]


def test_a_problem_without_a_level_that_its_program_ignores_yields_to_the_cause(tmp_path: Path) -> None:
    ignored = "/models/m7 does not appear to have a file named options.json. Proceeding without it."
    cause = ["Traceback (most recent call last):", "FileNotFoundError: [Errno 2] No such file or directory: '/seg_33b'"]
    logs = logs_of(tmp_path, ignored, *cause)
    assert logs["lines"][0]["line"] == 3


def test_an_exception_that_ends_its_process_is_no_caught_one(tmp_path: Path) -> None:
    end = ["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'quickops'"]
    logs = logs_of(tmp_path, "building model", *end)
    assert logs["subcategory"] == "import_error"


TOLD = "2026-03-01 10:08:20 W elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers"
ABORTED = "2026-03-01 10:08:21 ERROR RuntimeError: NCCL communicator was aborted on rank 0"


def test_a_launcher_that_received_a_stop_explains_what_its_workers_print_then(tmp_path: Path) -> None:
    logs = logs_of(tmp_path, *STEPS, TOLD, ABORTED)
    assert (logs["outcome"], logs["subcategory"]) == ("cancelled", "cancelled")
    assert logs["lines"][0]["line"] == 9


def test_a_launcher_that_received_a_stop_after_an_error_explains_nothing(tmp_path: Path) -> None:
    oom = "2026-03-01 10:08:10 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    logs = logs_of(tmp_path, *STEPS, oom, TOLD, ABORTED)
    assert (logs["outcome"], logs["subcategory"]) == ("failed", "cuda_oom")


@pytest.mark.parametrize(
    "told",
    ["Epoch 0: 31%|###| 9/29\rEpoch 0: 32%|###| 10/29 [00:07<00:10][rank: 2] Received SIGTERM: 15", "Terminated"],
    ids=["Lightning behind a progress bar", "the shell"],
)
def test_a_program_that_was_told_to_stop_was_cancelled_whatever_its_workers_print_then(
    told: str, tmp_path: Path
) -> None:
    after = "RuntimeError: DataLoader worker (pid 811) is killed by signal: Terminated. "
    logs = logs_of(tmp_path, *STEPS, told, after)
    assert (logs["outcome"], logs["subcategory"]) == ("cancelled", "cancelled")
    assert logs["lines"][0]["line"] == 9
    assert "31%" not in logs["indicators"][0]["text"]  # an overwritten state of the bar


def test_who_ordered_the_stop_comes_before_who_received_it(tmp_path: Path) -> None:
    step = "slurmstepd: error: *** STEP 9.0 ON trn-1 CANCELLED AT 2026-03-01T10:08:20 ***"
    logs = logs_of(tmp_path, *STEPS, step, "Killing subprocess 811", "Main process received SIGTERM, exiting")
    assert (logs["outcome"], logs["lines"][0]["line"]) == ("cancelled", 9)
    (tmp_path / "alone").mkdir()
    logs = logs_of(tmp_path / "alone", *STEPS, "Killing subprocess 811", "Main process received SIGTERM, exiting")
    assert (logs["outcome"], logs["lines"][0]["line"]) == ("cancelled", 10)


def test_a_line_of_source_below_a_warning_is_no_failed_import(tmp_path: Path) -> None:
    quoted = ["/a/imports.py:22: UserWarning: deprecated", "  from pkg_resources import DistributionNotFound"]
    end = ["Traceback (most recent call last):", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"]
    assert logs_of(tmp_path, *quoted, *end)["subcategory"] == "cuda_oom"


def test_a_download_that_is_tried_again_is_no_outage(tmp_path: Path) -> None:
    lost = (
        "2026-03-01 10:09:00 WARNING (ReadTimeoutError(\"HTTPSConnectionPool(host='hub.example', port=443): Read timed"
        ' out.")) thrown while requesting GET https://hub.example/datasets/a/b.zst'
    )
    again = "2026-03-01 10:09:00 WARNING Retrying in 1s [Retry 1/5]."
    assert logs_of(tmp_path, *STEPS, lost, again)["category"] == "none"
    (tmp_path / "later").mkdir()
    assert logs_of(tmp_path / "later", *STEPS, lost, again, lost)["subcategory"] == "storage_outage"


def test_devices_that_a_library_looks_for_in_vain_are_no_cause(tmp_path: Path) -> None:
    probe = "INFO:jax._src.xla_bridge:925: Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so"
    end = ["Traceback (most recent call last):", "FileExistsError: Checkpoint directory /data/run7 already exists."]
    logs = logs_of(tmp_path, probe, *end)
    assert logs["category"] == "user"
    assert logs["lines"][0]["line"] == 3


def test_a_worker_that_died_hours_before_the_limit_is_the_cause(tmp_path: Path) -> None:
    lines = [
        "2026-03-01 10:00:00 INFO starting 4 workers",
        "2026-03-01 10:00:30 ERROR worker 3 exited with code -11",
        "2026-03-01 10:00:31 INFO 3 of 4 workers are here",
        "2026-03-01 14:00:00 slurmstepd: error: *** JOB 9 ON trn-1 CANCELLED AT 14:00:00 DUE TO TIME LIMIT ***",
    ]
    logs = logs_of(tmp_path, *lines)
    assert logs["subcategory"] == "native_crash"
    assert logs["lines"][0]["line"] == 2


def test_a_kill_that_follows_the_end_of_a_step_is_no_cause(tmp_path: Path) -> None:
    step = "slurmstepd: error: *** STEP 9.0 ON trn-1 CANCELLED AT 2026-03-01T10:08:20 ***"
    logs = logs_of(tmp_path, *STEPS, step, "srun: error: trn-1: task 0: Killed")
    assert (logs["outcome"], logs["subcategory"]) == ("cancelled", "cancelled")


def test_tasks_that_are_killed_while_a_failed_step_ends_are_no_cause(tmp_path: Path) -> None:
    logs = logs_of(
        tmp_path,
        "AssertionError: 3 of 4 labels",
        "srun: error: trn-1: task 0: Exited with exit code 1",
        "srun: Terminating job step 9.0",
        "slurmstepd: error: *** STEP 9.0 ON trn-1 CANCELLED AT 2026-03-01T10:08:20 ***",
        "srun: error: trn-1: tasks 2,6-7: Killed",
    )
    assert logs["lines"][0]["line"] == 1


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("shard 4: retry 3 succeeded", "running"),
        ("warm-up run completed successfully", "running"),
        ("handshake with worker 2 succeeded", "running"),
        ("Job 'nightly' succeeded", "succeeded"),
        ("训练已完成", "succeeded"),
        ("wandb: Run summary:", "succeeded"),
    ],
)
def test_a_word_of_success_must_name_the_job(line: str, outcome: str, tmp_path: Path) -> None:
    assert logs_of(tmp_path, *STEPS, line)["outcome"] == outcome


def test_an_exception_that_refers_to_another_message_is_not_the_cause(tmp_path: Path) -> None:
    found = logs_of(
        tmp_path,
        "RuntimeError: graph 1 was not run. The details refer to 'Device Messages'.",
        "EI0005: The arguments for collective communication are inconsistent between ranks: parameter [count]",
    )
    assert (found["subcategory"], found["lines"][0]["line"]) == ("collective_mismatch", 2)


def test_what_its_writer_calls_a_warning_yields_to_an_error(tmp_path: Path) -> None:
    found = logs_of(
        tmp_path,
        "[WARNING] adapter.cc:47: The environment variable MODE is not set",
        "[ERROR] store.cc:91: write /local/step_4: No space left on device",
    )
    assert (found["subcategory"], found["lines"][0]["line"]) == ("disk_full", 2)


def test_a_pod_that_got_its_place_is_no_failure(tmp_path: Path) -> None:
    waits = "Warning FailedScheduling 2m default-scheduler 0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    placed = "Normal Scheduled 19s default-scheduler Successfully assigned ml/worker-1 to gpu-4"
    assert logs_of(tmp_path / "a", waits)["is_failure"]
    assert not logs_of(tmp_path / "b", waits, placed)["is_failure"]


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: Node failure on K7QXM02",
        "Oct  7 12:58:23 gpu-node-07 kernel: NVRM: Xid (PCI:0000:07:00): 79, pid=1234, GPU has fallen off the bus.",
    ],
)
def test_the_only_machine_of_the_evidence_is_named_by_a_decisive_line_about_it(line: str, tmp_path: Path) -> None:
    (node,) = logs_of(tmp_path, "step 1 loss 2.1", "step 2 loss 2.1", line)["nodes"]
    assert node["node"] in line
    assert node["suspect"]


def test_a_note_directly_below_an_exception_is_no_next_step_of_its_process(tmp_path: Path) -> None:
    logs = logs_of(
        tmp_path,
        "INFO building the model",
        "SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
        "while reading model-00000-of-00030.safetensors of checkpoint 40050",
        "srun: error: trn-1: task 0: Exited with exit code 1",
    )
    assert logs["lines"][0]["line"] == 2
    assert logs["outcome"] == "failed"
