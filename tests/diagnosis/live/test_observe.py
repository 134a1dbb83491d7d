"""One range of a growing log: its counters, the stage at its end, its decisive errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from diagnosis.live import Observation, encode
from diagnosis.live.observation import DiskUse
from diagnosis.live.reading.observe import MAX_STATES, Range, observe

STEP = "2026-11-22 03:00:{0:02d},000 INFO [rank0] iteration {0}/1000 loss 2.5 lr 1e-4\n"


def seen(text: str) -> Any:
    """The observation as a reader process sends it."""
    data = text.encode()
    return json.loads(json.dumps(encode(observe([Range("node-1/train.log", data, data)])[0])))


def test_the_counters_of_a_range_are_read_in_order() -> None:
    found = seen("".join(STEP.format(n) for n in range(10, 15)))
    (counted,) = found["counters"].values()
    assert [n for n, *_ in counted] == [10, 11, 12, 13, 14]
    assert counted[1][1] - counted[0][1] == 1_000_000_000
    assert (found["lines"], found["stage"], found["errors"]) == (5, None, [])


def test_a_checkpoint_that_begins_is_the_stage_until_steps_follow() -> None:
    saving = "2026-11-22 03:00:20,000 INFO saving checkpoint at iteration 20\n"
    assert seen(STEP.format(20) + saving)["stage"] == "checkpoint_save"
    assert seen(saving + STEP.format(21))["stage"] == "training"


@pytest.mark.parametrize(
    ("last", "is_closing"),
    [
        ("[rank0] all steps done", True),
        ("[default] worker group successfully finished. Waiting 300 seconds", True),
        ("[rank0] evaluation of 20 documents done", False),
        ("[rank0] not all ranks are done", False),
    ],
)
def test_a_closing_message_begins_the_end_until_steps_follow(last: str, is_closing: bool) -> None:
    line = f"2026-11-22 03:00:30,000 INFO {last}\n"
    assert (seen(STEP.format(20) + line)["stage"] == "shutdown") is is_closing
    assert seen(line + STEP.format(21))["stage"] != "shutdown"


def test_a_decisive_error_is_reported_once_with_its_line() -> None:
    error = "2026-11-22 03:00:30,000 ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    (row,) = seen(STEP.format(1) + error + error)["errors"]
    assert "out of memory" in row["text"]
    assert row["category"]


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: node-7: task 12: Exited with exit code 1",
        "[E] failed (exitcode: -9) local_rank: 3 (pid: 4711) of binary: python",
        "mpirun noticed that process rank 5 with PID 77 on node b exited on signal 11 (Segmentation fault).",
        "Warning ContainerDied pod/w-3 on node n1: container main Terminated Reason: OOMKilled Exit Code: 137",
    ],
)
def test_a_line_that_tells_the_bad_end_of_a_process_is_reported(line: str) -> None:
    good = "worker 3 exited with exit code 0\n"
    assert seen(STEP.format(1) + good + f"{line}\n")["ended"] == line


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: node-7: task 12: Exited with exit code 0",
        "torch.distributed.elastic Received Signals.SIGTERM death signal 15, shutting down workers",
        "[W] failed (exitcode: -15) local_rank: 3",
        "Exited with exit code 143",
        "the request finished with status 200",
        "step 1 loss 2.5 code 1",
    ],
)
def test_stops_and_good_ends_are_no_bad_ends(line: str) -> None:
    assert seen(STEP.format(1) + f"{line}\n")["ended"] == ""


def bar(n: int) -> str:
    """As tqdm draws it: each state is another text."""
    full, eighths = divmod(n * 80 // 100, 8)
    drawn = "█" * full + (" ▏▎▍▌▋▊▉"[eighths] if eighths else "")
    return f"Training: {n:3d}%|{drawn:10s}| {n}/100 [00:{n % 60:02d}<00:12,  1.00it/s]"


def test_each_state_of_a_progress_bar_is_a_count() -> None:
    found = seen("".join(f"\r{bar(n)}" for n in range(60)) + "\r")
    (counted,) = found["counters"].values()
    assert [n for n, *_ in counted] == list(range(60))


def test_a_bar_that_is_drawn_again_and_again_costs_its_last_states() -> None:
    often = seen("".join(f"\r{bar(n // 400)}" for n in range(40_000)) + "\r")
    assert often["lines"] <= MAX_STATES
    assert max(n for rows in often["counters"].values() for n, *_ in rows) == 99


def test_lines_that_end_as_in_windows_are_as_many_as_without() -> None:
    text = "".join(STEP.format(n) for n in range(10, 15))
    assert seen(text.replace("\n", "\r\n")) == seen(text)


def test_a_range_without_lines_reports_nothing() -> None:
    assert observe([Range("node-1/train.log", b"", b"")]) == [Observation()]


def test_a_stage_between_two_counts_and_the_last_planned_count_are_noted() -> None:
    evaluating = "2026-11-22 03:00:11,500 INFO evaluating\n"
    (counted,) = seen(STEP.format(10) + STEP.format(11) + evaluating + STEP.format(12))["counters"].values()
    assert [[stage for stage, _ in row[2]] for row in counted] == [[], [], ["evaluation"]]
    last = "2026-11-22 03:00:59,000 INFO iteration 1000/1000 loss 2.5 lr 1e-4\n"
    (counted,) = seen(STEP.format(10) + last)["counters"].values()
    assert [row[3] for row in counted] == [False, True]


def test_losses_are_read_beside_their_counts_and_nan_is_none() -> None:
    bad = STEP.format(12).replace("loss 2.5", "loss nan")
    assert seen(STEP.format(11) + bad)["losses"] == [[11, 2.5], [12, None]]


def test_error_lines_retries_disks_and_writers_are_told() -> None:
    at = "2026-11-22 03:00:13,000"
    text = (
        f"{at} ERROR shard 7 is not readable\n{at} WARNING read of shard 7 failed, retrying in 4 s\n"
        f"{at} WARNING disk usage of /ckpt is 91.5 %\n{at} INFO GPU utilization 97%\n"
    )
    found = seen(text)
    assert found["tallies"] == {"errors": 1, "retries": 1}
    assert found["disks"] == [["/ckpt", 91.5]]
    assert found["writers"] == ["node-1"]


def test_ranges_of_many_files_are_observed_as_each_alone() -> None:
    saving = "2026-11-22 03:00:20,000 INFO saving checkpoint at iteration 20\n"
    error = "2026-11-22 03:00:30,000 ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    yearless = "".join(f"Nov 22 03:00:{n:02d} node-4 trainer: iteration {n}/1000 loss 2.5\n" for n in range(10, 15))
    colour = "\x1b[31m2026-11-22 03:00:31,000 WARNING disk usage of /ckpt is 91.5 %\x1b[0m\n"
    texts = {
        "node-1/a.log": "".join(STEP.format(n) for n in range(10, 15)).encode(),
        "node-2/b.log": (STEP.format(20) + saving + STEP.format(21)).encode(),
        "node-3/c.log": (error + STEP.format(22).replace("2.5", "nan") + error).encode(),
        "node-4/d.log": yearless.encode(),
        "node-5/e.log": (STEP.format(30) + saving).encode("utf-16"),
        "node-6/f.log": colour.encode(),
        "node-7/core.1": b"\x7fELF\0\0\0" * 50,
        "node-8/g.log": b"",
    }
    ranges = [Range(path, data, data) for path, data in texts.items()]
    together = observe(ranges)
    assert together == [observe([one])[0] for one in ranges]
    assert [len(one.counters) for one in together] == [1, 1, 1, 1, 1, 0, 0, 0]
    assert together[4].stage == "checkpoint_save"
    assert together[5].disks == (DiskUse("/ckpt", 91.5),)
    assert together[6] == together[7] == Observation()


def test_a_later_range_is_read_as_the_head_of_its_file_says() -> None:
    whole = "".join(STEP.format(n) for n in range(10, 15)).encode("utf-16")
    begin = len(STEP.format(10).encode("utf-16"))
    (found,) = observe([Range("node-1/a.log", whole[:begin], whole[begin:], begin)])
    (counted,) = found.counters.values()
    assert [row.number for row in counted] == [11, 12, 13, 14]


def test_of_very_many_new_messages_the_worst_are_read() -> None:
    error = "2026-11-22 03:00:30,000 ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    letters = "abcdefghij"
    data = ("".join(f"{''.join(letters[int(d)] for d in str(n))} of it\n" for n in range(60_000)) + error).encode()
    (found,) = observe([Range("node-1/a.log", data, data)])
    assert found.lines == 60_001
    assert [row.category for row in found.errors] != []


def test_what_a_line_of_progress_states_is_no_error() -> None:
    measured = "epoch 0 minibatch 3 loss 6.877 (0.61s, stall 0.08s)"
    assert seen(f"{measured}\n")["errors"] == []
    alone = "the loader of rank 3 did not return a batch for 240 s"
    assert [error["signature"] for error in seen(f"{alone}\n")["errors"]] == ["loader.stuck"]


def test_a_line_of_progress_that_says_that_its_numbers_are_none_is_an_error() -> None:
    found = seen("step 91, 0.61 s: ValueError: loss is nan at step 91, stopping\n")["errors"]
    assert [error["signature"] for error in found] == ["numerics.nan"]
