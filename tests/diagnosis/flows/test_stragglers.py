"""Who held up slow steps: each measure by itself, and recordings of real training with a slow machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from diagnosis.flows import stragglers
from diagnosis.flows.slowness import Slow


def burst(src: int, dst: int, start: float, size: float = 1e6, seconds: float = 0.01) -> dict[str, float]:
    return {"src": src, "dst": dst, "start": start, "end": start + seconds, "size": size, "low": 1, "step": 0}


def test_whoever_moved_least_when_all_stopped_is_waited_for() -> None:
    before = [burst(0, 1, 0.0), burst(0, 1, 0.02), burst(1, 2, 0.0), burst(1, 2, 0.02), burst(2, 3, 0.01)]
    after = [burst(a, b, 1.0 + n / 50) for n in range(4) for a, b in ((0, 1), (1, 2), (2, 3), (3, 0))]
    vote = stragglers._at_the_stall(pl.DataFrame(before + after), pause=0.05, usual=0.3)
    assert vote is not None
    assert (vote.member, vote.how) == (3, "stall")


def test_a_pause_as_long_as_usual_ones_is_no_stall() -> None:
    rows = pl.DataFrame([burst(0, 1, 0.0), burst(1, 2, 0.1), burst(2, 0, 0.5), burst(0, 1, 0.6)])
    assert stragglers._at_the_stall(rows, pause=0.35, usual=0.6) is None


def test_the_receiver_that_answers_late_is_named_and_a_tie_is_not() -> None:
    usual = {0: 0.001, 1: 0.001, 2: 0.001}
    late = pl.DataFrame({"step": [0] * 3, "dst": [0, 1, 2], "answer": [0.001, 0.2, 0.002]})
    vote = stragglers._late_answer(late, usual, usual=0.4)
    assert vote is not None
    assert (vote.member, vote.how) == (1, "answer")
    tie = pl.DataFrame({"step": [0] * 3, "dst": [0, 1, 2], "answer": [0.001, 0.2, 0.2]})
    assert stragglers._late_answer(tie, usual, usual=0.4) is None


def test_the_machine_at_both_ends_of_busy_hops_is_named() -> None:
    usual = {(0, 1): 0.01, (1, 2): 0.01, (2, 3): 0.01, (3, 0): 0.01}
    rows = pl.DataFrame({"step": [0] * 4, "src": [0, 1, 2, 3], "dst": [1, 2, 3, 0], "busy": [0.3, 0.3, 0.011, 0.01]})
    vote = stragglers._busiest(rows, usual, usual=0.4)
    assert vote is not None
    assert vote.member == 1


def test_a_named_machine_replaces_the_group_of_which_one_is_meant_and_is_told_once() -> None:
    ring = Slow("slow_group", 0.0, 10.0, "one ring", culprits=[1, 2, 3], nodes=["a", "b", "c"])
    one = Slow("slow_group", 2.0, 9.0, "answers late", culprits=[2], nodes=["b"])
    assert stragglers.settled([ring], [one]) == [one]
    assert stragglers.settled([one], [one]) == [one]


@pytest.mark.shared
@pytest.mark.parametrize(("name", "node"), [("slow_loader_rank", "gpu-node-01"), ("delay_100ms_node", "gpu-node-03")])
def test_a_slow_machine_of_a_recording_is_first_among_the_accused(shared: Path, name: str, node: str) -> None:
    path = shared / "data" / "testbed" / f"{name}.tar.gz"
    done = subprocess.run(
        [sys.executable, "-m", "diagnosis", str(path), "--json"], capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)["conclusion"]
    assert told["condition"] == "degraded"
    assert told["fault"][0]["name"] == node


@pytest.mark.shared
@pytest.mark.parametrize("name", ["healthy_ddp_a", "healthy_ddp_b", "healthy_pp2_a"])
def test_nobody_is_accused_in_a_healthy_recording(shared: Path, name: str) -> None:
    path = shared / "data" / "testbed" / f"{name}.tar.gz"
    done = subprocess.run(
        [sys.executable, "-m", "diagnosis", str(path), "--json"], capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)["conclusion"]
    assert told["condition"] == "healthy"
    assert told["fault"] == []
