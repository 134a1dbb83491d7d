"""One range of a growing log: its counters, the stage at its end, its decisive errors."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from diagnosis import ParseHints, parse
from diagnosis.live.news import nothing
from diagnosis.live.observe import observe

STEP = "2026-11-22 03:00:{0:02d},000 INFO [rank0] iteration {0}/1000 loss 2.5 lr 1e-4\n"


def seen(text: str, folder: Path) -> dict[str, Any]:
    data = text.encode()
    parsed = parse(io.BytesIO(data), "node-1/train.log", ParseHints(), folder)
    return observe(parsed, lambda offset, length: data[offset : offset + length])


def test_the_counters_of_a_range_are_read_in_order(tmp_path: Path) -> None:
    found = seen("".join(STEP.format(n) for n in range(10, 15)), tmp_path)
    (counted,) = found["counters"].values()
    assert [n for n, *_ in counted] == [10, 11, 12, 13, 14]
    assert counted[1][1] - counted[0][1] == 1_000_000_000
    assert (found["lines"], found["stage"], found["errors"]) == (5, None, [])


def test_a_checkpoint_that_begins_is_the_stage_until_steps_follow(tmp_path: Path) -> None:
    saving = "2026-11-22 03:00:20,000 INFO saving checkpoint at iteration 20\n"
    assert seen(STEP.format(20) + saving, tmp_path / "a")["stage"] == "checkpoint_save"
    assert seen(saving + STEP.format(21), tmp_path / "b")["stage"] == "training"


def test_a_decisive_error_is_reported_once_with_its_line(tmp_path: Path) -> None:
    error = "2026-11-22 03:00:30,000 ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    (row,) = seen(STEP.format(1) + error + error, tmp_path)["errors"]
    assert "out of memory" in row["text"]
    assert row["category"]


def test_a_range_without_lines_reports_nothing(tmp_path: Path) -> None:
    assert seen("", tmp_path) == nothing()


def test_a_stage_between_two_counts_and_the_last_planned_count_are_noted(tmp_path: Path) -> None:
    evaluating = "2026-11-22 03:00:11,500 INFO evaluating\n"
    (counted,) = seen(STEP.format(10) + STEP.format(11) + evaluating + STEP.format(12), tmp_path)["counters"].values()
    assert [[stage for stage, _ in row[2]] for row in counted] == [[], [], ["evaluation"]]
    last = "2026-11-22 03:00:59,000 INFO iteration 1000/1000 loss 2.5 lr 1e-4\n"
    (counted,) = seen(STEP.format(10) + last, tmp_path / "b")["counters"].values()
    assert [row[3] for row in counted] == [False, True]


def test_losses_are_read_beside_their_counts_and_nan_is_none(tmp_path: Path) -> None:
    bad = STEP.format(12).replace("loss 2.5", "loss nan")
    assert seen(STEP.format(11) + bad, tmp_path)["losses"] == [[11, 2.5], [12, None]]


def test_error_lines_retries_disks_and_writers_are_told(tmp_path: Path) -> None:
    at = "2026-11-22 03:00:13,000"
    text = (
        f"{at} ERROR shard 7 is not readable\n{at} WARNING read of shard 7 failed, retrying in 4 s\n"
        f"{at} WARNING disk usage of /ckpt is 91.5 %\n{at} INFO GPU utilization 97%\n"
    )
    found = seen(text, tmp_path)
    assert found["tallies"] == {"errors": 1, "retries": 1}
    assert found["disks"] == [["/ckpt", 91.5]]
    assert found["writers"] == ["node-1"]
