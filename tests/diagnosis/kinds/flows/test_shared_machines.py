"""Jobs that share machines in turn, machines that no inventory knows, and what a step is next to a pause."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from diagnosis.kinds.flows.slow.slowness import slow_steps
from diagnosis.kinds.flows.steps.steps import Steps
from tests.diagnosis.kinds.flows.helpers import analysed, job_of, layout, step_errors, wrong_pairs
from tests.diagnosis.kinds.flows.simulate import T0, Capture, Job, noisy, simulate

FIRST = Job(tp=8, pp=2, dp=4, steps=14)


def after(capture: Capture, job: Job, pause: float) -> Capture:
    """A job that begins so many seconds after another's end."""
    return simulate(replace(job, begin=capture.ends[-1] - T0 + pause))


@pytest.mark.parametrize("poor", [False, True])
def test_two_jobs_in_turn_on_the_same_machines_are_two(poor: bool, tmp_path: Path) -> None:
    one = simulate(FIRST)
    two = after(one, Job(tp=4, dp=16, steps=20, buckets=(170_000_000, 48_000_000), seed=4), 4.0)
    records = pl.concat([one.records, two.records])
    report = analysed([one], tmp_path, noisy(records, loss=0.05, split=0.03) if poor else records)
    first, second = sorted(report["jobs"], key=lambda j: j["steps"][0]["start"])
    for found, capture, size in ((first, one, (8, 2, 4)), (second, two, (4, 1, 16))):
        assert layout(found) == size
        assert wrong_pairs(found, capture) == []
        assert step_errors(found, capture)[:2] == (0, 0)


def test_a_restarted_job_is_one_and_its_standstill_is_reported(tmp_path: Path) -> None:
    one = simulate(FIRST)
    two = after(one, replace(FIRST, seed=3), 7.0)
    whole = replace(one, ends=one.ends + two.ends)
    job = job_of(analysed([one], tmp_path, pl.concat([one.records, two.records])), whole)
    assert layout(job) == (8, 2, 4)
    assert step_errors(job, whole)[:2] == (0, 0)
    (pause,) = [d for d in job["diagnoses"] if d["kind"] == "slow_step"]
    assert pause["step"] == 15
    assert pause["reason"].startswith("No traffic for 7.")
    assert "stood still" in pause["reason"]


def test_a_job_that_loses_a_machine_stays_one(tmp_path: Path) -> None:
    one = simulate(Job(tp=8, dp=8, steps=14))
    two = after(one, Job(tp=8, dp=7, steps=14, seed=3), 5.0)
    whole = replace(one, ends=one.ends + two.ends)
    job = job_of(analysed([one], tmp_path, pl.concat([one.records, two.records])), whole)
    assert step_errors(job, whole)[:2] == (0, 0)


def test_machines_missing_from_the_inventory_train_with_the_others_and_storage_does_not(tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, dp=4, steps=16))
    dice = np.random.default_rng(3)
    reads = capture.records.sample(400, seed=2, with_replacement=True).with_columns(
        src=pl.lit("10.250.0.1"),
        src_port=pl.lit(7777, dtype=pl.Int64),
        bytes=pl.Series(dice.integers(1_000_000, 90_000_000, 400)),
    )
    known = replace(capture, inventory=[row for row in capture.inventory if row["node"] != "node-0002"])
    job = job_of(analysed([known], tmp_path, pl.concat([capture.records, reads])), capture)
    assert layout(job) == (8, 1, 4)


def test_where_switches_add_up_the_machines_are_the_members(tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, dp=6, steps=16))
    rail = pl.col("src").str.extract(r"10\.(\d+)\.")
    up = capture.records.with_columns(dst=pl.format("10.99.{}.1", rail))
    down = up.with_columns(src="dst", dst="src")
    job = job_of(analysed([capture], tmp_path, pl.concat([up, down])), capture)
    assert {p["type"] for p in job["pairs"]} == {"DP"}
    assert layout(job) == (8, 1, 6)
    assert step_errors(job, capture)[:2] == (0, 0)


def test_two_ports_of_one_gpu_are_one_gpu(tmp_path: Path) -> None:
    capture = simulate(FIRST)
    other = {str(row["ip"]): str(row["ip"]).replace("10.", "11.", 1) for row in capture.inventory}
    second = capture.records.with_columns(pl.col("src", "dst").replace_strict(other))
    rows = [*capture.inventory, *(row | {"ip": other[str(row["ip"])]} for row in capture.inventory)]
    both = replace(capture, inventory=rows, members=sorted([*other, *other.values()]))
    assert layout(job_of(analysed([both], tmp_path, pl.concat([capture.records, second])), both)) == (8, 2, 4)


def judged(*seconds: float) -> list[bool]:
    end = np.cumsum(seconds)
    start = end - np.array(seconds)
    steps = Steps(start, end, np.append(start, end[-1]), np.ones(len(end)), "DP", "gaps")
    return [bool(x) for x in slow_steps(steps)[0]]


def test_a_boundary_seen_late_makes_no_slow_step_but_time_lost_does() -> None:
    calm = [1.0, 1.002, 0.998, 1.001, 0.999] * 4
    assert not any(judged(*calm, 1.2, 0.8, *calm))
    assert sum(judged(*calm, 1.2, 1.0, *calm)) == 1
    assert sum(judged(*calm, 1.2, 1.2, *calm)) == 2
