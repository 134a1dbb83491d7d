"""Records that are coarser than a delay accuse nobody, and say that they cannot tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from diagnosis.kinds.flows.capture.capture import Capture, Flows
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.slow.exactness import drop_unclear, exact_to_s, why_unclear
from diagnosis.kinds.flows.slow.slowness import SlowReport
from diagnosis.kinds.flows.steps.steps import Steps
from tests.diagnosis.kinds.flows.helpers import analysed
from tests.diagnosis.kinds.flows.simulate import Job, Slow, simulate


def exact(length: Any, pause_s: float) -> float:
    """What the times of one pair are exact to, if its records are so long and have such pauses."""
    lengths = np.asarray(length, float)
    start = np.append(0.0, np.cumsum(lengths + pause_s)[:-1])
    nothing = np.zeros(len(lengths), np.int32)
    flags = np.zeros(len(lengths), bool)
    flows = Flows(start, start + lengths, nothing, nothing + 1, lengths, nothing, nothing, flags, flags)
    pairs = cast("Any", type("Pairs", (), {"a": np.array([0])}))
    return exact_to_s(JobFlows(np.array([0, 1]), flows), pairs, Capture(flows, ["a", "b"], [], 0.0))


def test_records_that_a_time_out_cuts_are_exact_to_it() -> None:
    rng = np.random.default_rng(1)
    assert exact(rng.uniform(0.93, 1.0, 200), pause_s=0.1) == 1.0
    assert exact(np.append(rng.uniform(4.8, 5.0, 100), rng.uniform(0, 5, 100)), pause_s=0.2) == 5.0


@pytest.mark.parametrize(
    ("lengths", "pause_s"),
    [
        (np.full(200, 0.97), 9.0),  # one long transfer a step
        (np.full(200, 0.72), 0.1),  # no usual time-out
        (np.full(200, 1.4), 0.1),
        (np.random.default_rng(1).uniform(0, 1, 200) ** 4, 0.1),  # few are long
    ],
)
def test_transfers_are_exact_to_their_stamps(lengths: Any, pause_s: float) -> None:
    assert exact(lengths, pause_s) == 1e-6


def test_what_is_lost_must_be_longer_than_the_times_are_exact_to() -> None:
    late = SlowReport("slow_group", 0.0, 9.0, "", factor=1.3)
    step = SlowReport("slow_step", 0.0, 9.0, "", factor=1.3)
    assert drop_unclear([late, step], usual=2.0, exact_s=1e-3) == [late, step]
    assert drop_unclear([late, step], usual=2.0, exact_s=0.2) == [step]


def test_too_few_and_too_coarse_records_cannot_tell_that_nobody_is_slow() -> None:
    def steps(count: int) -> Steps:
        edges = np.arange(count + 1.0)
        return Steps(edges[:-1], edges[1:], edges, np.ones(count), "DP", "gaps")

    assert why_unclear(steps(30), 1.0, 1e-3) == ""
    assert why_unclear(steps(4), 1.0, 1e-3).endswith(": 4 steps are too few to compare.")
    assert why_unclear(steps(30), 1.0, 0.1).endswith(": their times are exact to 100 ms, and a step takes 1.00 s.")


@pytest.mark.parametrize("slow", [(), (Slow("gpu", 0, 99, 1.6, dp=1, pp=1),)])
def test_an_active_time_out_of_a_second_accuses_nobody_and_says_what_it_hides(
    tmp_path: Path, slow: tuple[Slow, ...]
) -> None:
    capture = simulate(Job(tp=1, pp=4, dp=4, gpus=1, microbatches=12, forward=0.06, steps=24, slow=slow))
    joined = active_time_out(capture.records, 1.0)
    report = analysed([capture], tmp_path, joined)
    assert [row for row in report["suspects"] if row["suspect"]] == []
    assert "exact to 1.00 s" in report["cannot_tell"] or not report["usable_for_timeline"]


def active_time_out(records: pl.DataFrame, seconds: float) -> pl.DataFrame:
    """The records as an exporter gives them that joins what one sends to another for so many seconds."""
    kept: list[dict[str, Any]] = []
    open_row: dict[tuple[str, str], dict[str, Any]] = {}
    for row in records.sort("start_time").to_dicts():
        pair = row["src"], row["dst"]
        first = open_row.get(pair)
        until = row["start_time"] + row["duration"]
        if first is not None and until - first["start_time"] < seconds:
            first["duration"] = max(first["duration"], until - first["start_time"])
            first["bytes"] += row["bytes"]
            continue
        open_row[pair] = row
        kept.append(row)
    return pl.DataFrame(kept, records.schema)
