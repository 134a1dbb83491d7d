"""Steps of a large job that are done in another process."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diagnosis import report
from diagnosis.files import gathering
from diagnosis.kinds.logs.rows import events
from diagnosis.pipeline import diagnose
from diagnosis.processing import budgets

STEPS = {"watchdogs", "set-up", "measures"}


class Over:
    """Rings when a step begins for the ``time``-th time; can be sent, as the alarm of the command line."""

    def __init__(self, step: str, time: int) -> None:
        self._step = step
        self._left = time
        self._told = ""

    def now(self) -> float:
        return 0.0

    def set(self, moment: float) -> None:
        if self._told == self._step and moment < math.inf:
            self._left -= 1
            if not self._left:
                raise budgets.Over

    def tell(self, stage: str) -> None:
        self._told = stage


def elsewhere(done: list[str]) -> Callable[..., Callable[[], Any]]:
    """Does functions with what another process gets: copies of arguments and of results."""

    def aside(function: Callable[..., Any], /, *args: Any) -> Callable[[], Any]:
        sent = pickle.dumps((function, args))
        done.extend(arg for arg in args if isinstance(arg, str))

        def result() -> Any:
            act, given = pickle.loads(sent)
            return pickle.loads(pickle.dumps(act(*given)))

        return result

    return aside


def evidence(folder: Path) -> gathering.Evidence:
    (folder / "logs").mkdir()
    for node in range(4):
        began = [f"gpu-{node}:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE", f"[rank{node}]: torch 2.{node}.1"]
        steps = [
            f"2026-03-01 08:00:{n:02d} [rank{node}] step {n} compute {n % 3 + 40 * (node == 2)}.0 ms" for n in range(40)
        ]
        ends = f"WorkNCCL(SeqNum={7 + node // 3}, OpType=ALLREDUCE, Timeout(ms)=600000) timed out"
        said = f"2026-03-01 08:11:00 [rank{node}] [E ProcessGroupNCCL.cpp:632] [Rank {node}] Watchdog: {ends}"
        text = "\n".join([*began, *steps, said, ""])
        (folder / "logs" / f"gpu-{node}.log").write_text(text, "utf-8")
    return gathering.gather([folder / "logs"], folder / "work")


@pytest.mark.parametrize("kept", [0, events.MAX_KEPT_LINES])
def test_a_report_is_the_same_wherever_its_steps_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    found, done = evidence(tmp_path), list[str]()
    here = report.to_json(diagnose(found.parsed, read=found.read))
    monkeypatch.setattr(events, "MAX_KEPT_LINES", kept)
    beside = report.to_json(diagnose(found.parsed, read=found.read, aside=elsewhere(done)))
    assert STEPS.issuperset(done)
    assert len(done) >= 2
    assert beside == here


@pytest.mark.parametrize("time", [1, 2])  # when its messages are chosen, and when they are read
def test_what_is_said_of_a_step_in_another_process_is_said_once(tmp_path: Path, time: int) -> None:
    found = evidence(tmp_path)
    for aside in ({}, {"aside": elsewhere([])}):
        missing = diagnose(found.parsed, read=found.read, alarm=Over("measures", time), **aside).missing
        assert sum("(measures)" in sentence for sentence in missing) == 1


def test_another_process_gets_the_bytes_but_not_what_was_parsed(tmp_path: Path) -> None:
    found = evidence(tmp_path)
    there = pickle.loads(pickle.dumps(found))
    assert there.read("gpu-1.log", 0, 5) == found.read("gpu-1.log", 0, 5) == b"gpu-1"
    assert not there.parsed
