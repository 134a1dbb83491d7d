"""A complaint that its writer took back explains nothing; another program's death is not the job's."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from diagnosis import report
from diagnosis.files.parsing import parse
from diagnosis.kinds.logs.meaning.signatures import load
from diagnosis.model import Parsed, ParseHints
from diagnosis.pipeline import diagnose

WAITING = "[3820109.825023] nfs: server nas-48 not responding, still trying"
BACK = "[3820119.825023] nfs: server nas-48 OK"


def job(folder: Path, kernel: list[str]) -> list[Parsed]:
    """A job of two nodes that ends in an assertion, and the kernel log of one of them, which states no time of day."""
    steps = [f"2026-03-01 08:{n // 60:02d}:{n % 60:02d} [rank{{rank}}] step {n} loss 1.5" for n in range(90)]
    end = ["Traceback (most recent call last):", "AssertionError: bad batch"]
    logs = {
        "n1/train.log": [line.format(rank=0) for line in steps] + end,
        "n2/train.log": [line.format(rank=1) for line in steps] + end,
        "n1/dmesg.log": ["[3820100.000001] eth0: link is up", *kernel],
    }
    parsed = []
    for number, (path, lines) in enumerate(logs.items()):
        stream = io.BytesIO("\n".join([*lines, ""]).encode())
        parsed.append(parse(stream, path, ParseHints(), folder / str(number)))
    return parsed


def category(parsed: list[Parsed]) -> str:
    found = diagnose(parsed, read=lambda path, offset, length: b"")
    return str(report.to_json(found)["logs"]["id"])


def test_a_server_that_answers_again_is_no_cause(tmp_path: Path) -> None:
    assert category(job(tmp_path, [WAITING, BACK])).startswith("user.")


def test_a_server_that_never_answers_is_one(tmp_path: Path) -> None:
    assert category(job(tmp_path, [BACK, WAITING])) == "platform.storage.outage"


@pytest.mark.parametrize(
    ("program", "rule"),
    [("rsync", "kernel.oom_other"), ("python3", "kernel.oom_kill"), ("pt_main_thread", "kernel.oom_kill")],
)
def test_an_out_of_memory_kill_counts_by_the_program_that_was_killed(program: str, rule: str) -> None:
    text = f"Memory cgroup out of memory: Killed process 811 ({program}) total-vm:91kB"

    assert load().match_texts([text]) == [rule]
