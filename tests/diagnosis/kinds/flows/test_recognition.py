"""Jobs, pairs and layouts of simulated captures, clean and spoilt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.diagnosis.kinds.flows.helpers import analysed, job_of, layout, step_errors, wrong_pairs
from tests.diagnosis.kinds.flows.simulate import T0, Job, Slow, noisy, simulate, together

SHAPES = {
    "ring": Job(),
    "scatter and gather": Job(mode="rsag", tp=4, dp=8),
    "tree": Job(mode="tree", tp=8, dp=8),
    "zero3": Job(mode="zero3", tp=1, dp=32),
    "pipeline": Job(tp=8, pp=4, dp=2, microbatches=8),
    "pipeline without replicas": Job(tp=8, pp=4, dp=1, microbatches=8),
    "tensor ranks share a machine": Job(tp=2, pp=2, dp=8, mode="rsag"),
    "interleaved": Job(tp=8, pp=4, dp=4, interleaved=True),
    "varying sequence length": Job(tp=8, pp=2, dp=4, varying=True),
    "one bucket": Job(buckets=(300_000_000,), tp=8, pp=2, dp=4),
    "one bucket, two replicas": Job(buckets=(300_000_000,), tp=8, pp=2, dp=2),
    "no tensor parallelism": Job(tp=1, dp=32, mode="rsag"),
}
SPOILT = {"loss": 0.1, "split": 0.05, "merge": 0.05, "twice": 0.03}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("spoilt", [False, True], ids=["clean", "spoilt"])
def test_a_job_is_recognised_whatever_its_layout_and_the_exporter(shape: str, spoilt: bool, tmp_path: Path) -> None:
    job = SHAPES[shape]
    capture = simulate(job)
    records = noisy(capture.records, **SPOILT) if spoilt else None
    found = job_of(analysed([capture], tmp_path, records), capture)
    assert len(wrong_pairs(found, capture)) <= 0.01 * len(capture.pairs)
    assert layout(found) == (job.tp, job.pp, job.dp)
    missed, extra, worst = step_errors(found, capture)
    assert (missed, extra) == (0, 0)
    assert worst < 0.02


def test_millisecond_times_still_give_steps(tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, pp=2, dp=4, forward=0.05))
    report = analysed([capture], tmp_path, noisy(capture.records, grid=1e-3, loss=0.03))
    missed, extra, worst = step_errors(job_of(report, capture), capture)
    assert (missed, extra) == (0, 0)
    assert worst < 0.02
    assert any("rounded to 1.00 ms" in limit for limit in report["limits"])


@pytest.mark.parametrize("inventory", [True, False], ids=["inventory", "no inventory"])
def test_tenants_of_one_fabric_are_distinguished(inventory: bool, tmp_path: Path) -> None:
    captures = together(
        Job(tp=8, dp=4, pp=2, seed=1),
        Job(tp=4, dp=8, mode="rsag", seed=2, steps=50),
        Job(tp=1, dp=16, mode="zero3", seed=3),
    )
    report = analysed(captures, tmp_path, inventory=inventory)
    assert len(report["jobs"]) == 3
    for capture in captures:
        job_of(report, capture)


def test_two_tenants_on_the_same_machines_stay_two_jobs(tmp_path: Path) -> None:
    first = simulate(Job(tp=4, dp=4, gpus=4, seed=1, steps=40))
    second = simulate(Job(tp=4, dp=4, gpus=4, seed=2, forward=0.027, steps=30))
    other = {ip: ip.replace("10.1", "10.2", 1) for ip in second.members}
    moved = replace(
        second,
        records=second.records.with_columns(pl.col("src", "dst").replace(other)),
        inventory=[{**row, "ip": other.get(str(row["ip"]), row["ip"])} for row in second.inventory],
        members=sorted(other.values()),
    )
    report = analysed([first, moved], tmp_path)
    assert [len(j["members"]) for j in report["jobs"]] == [16, 16]


def test_probes_between_jobs_and_storage_join_nothing(tmp_path: Path) -> None:
    captures = together(Job(tp=8, dp=4, steps=60), Job(tp=8, dp=4, pp=2, seed=4, steps=40))
    one, two = captures[0].members, captures[1].members
    rows = [(T0 + 0.7 + 5 * k, one[k], two[k], 4791, 33_000_000) for k in range(2)]
    rows += [
        (T0 + 0.13 * k, "10.250.0.1", ip, 4791, 7_000_001 * (k + 1) + 13 * n)
        for k in range(20)
        for n, ip in enumerate([*one, *two])
    ]
    rows += [(T0 + 0.2 * k, "172.16.0.9", one[0], 22, 3000 + k) for k in range(40)]
    extra = pl.DataFrame(
        {
            "start_time": [r[0] for r in rows],
            "duration": [0.004] * len(rows),
            "src": [r[1] for r in rows],
            "dst": [r[2] for r in rows],
            "src_port": [50000] * len(rows),
            "dst_port": [r[3] for r in rows],
            "proto": [17] * len(rows),
            "bytes": [r[4] for r in rows],
            "packets": [r[4] // 4096 + 1 for r in rows],
            "switches": ["leaf-x"] * len(rows),
        }
    )
    records = pl.concat([c.records for c in captures] + [extra], how="vertical_relaxed")
    for inventory in (True, False):
        report = analysed(captures, tmp_path / str(inventory), records, inventory=inventory)
        for capture in captures:
            job_of(report, capture)


def test_experts_are_distinguished_from_replicas_on_the_same_pairs(tmp_path: Path) -> None:
    job = Job(tp=2, dp=16, ep=16)
    capture = simulate(job)
    found = job_of(analysed([capture], tmp_path), capture)
    types = {p["type"] for p in found["pairs"]}
    assert types == {"EP", "DP"}
    assert layout(found) == (2, 1, 16)
    assert step_errors(found, capture)[:2] == (0, 0)


def test_without_byte_counts_timing_tells_the_pairs_and_the_report_says_so(tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, pp=4, dp=4, microbatches=8))
    report = analysed([capture], tmp_path, capture.records.with_columns(bytes=pl.lit(None, dtype=pl.Int64)))
    found = job_of(report, capture)
    assert not wrong_pairs(found, capture)
    assert step_errors(found, capture)[:2] == (0, 0)
    assert any("no byte counts" in limit for limit in report["limits"])


def test_without_an_inventory_tp_is_unknown_rather_than_guessed(tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, pp=1, dp=4))
    found = job_of(analysed([capture], tmp_path, inventory=False), capture)
    assert found["parallelism"]["tp"] is None
    assert found["parallelism"]["dp"] == 4


@pytest.mark.parametrize("seconds", [0.003, 0.05, 1.0])
def test_collectors_whose_clocks_disagree_cost_no_job_no_pair_and_no_accusation(seconds: float, tmp_path: Path) -> None:
    job = Job(tp=8, pp=4, dp=4, microbatches=8)
    capture = simulate(job)
    rng = np.random.default_rng(0)
    shift = {
        str(row["ip"]): offset
        for node, offset in enumerate(rng.normal(0, seconds, 16))
        for row in capture.inventory
        if row["node"] == f"node-{node:04d}"
    }
    moved = capture.records.with_columns(
        start_time=pl.col("start_time") + pl.col("src").replace_strict(shift, return_dtype=pl.Float64)
    )
    report = analysed([capture], tmp_path, moved)
    found = job_of(report, capture)
    assert len(wrong_pairs(found, capture)) <= 0.01 * len(capture.pairs)
    missed, extra, _ = step_errors(found, capture)
    assert missed + extra <= 1
    assert [d for d in found["diagnoses"] if d["kind"] == "slow_group"] == []
    assert any("clocks disagree" in limit for limit in report["limits"]) == (seconds > 0.01)


def test_a_capture_of_one_node_says_so(tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, pp=4, dp=4))
    own = [str(row["ip"]) for row in capture.inventory if row["node"] == "node-0002"]
    seen = capture.records.filter(pl.col("src").is_in(own) | pl.col("dst").is_in(own))
    report = analysed([capture], tmp_path, seen)
    assert report["usable_for_timeline"]
    assert any("node-0002" in limit for limit in report["limits"])


def test_the_same_capture_gives_the_same_answer_whatever_the_order_of_its_records(tmp_path: Path) -> None:
    capture = simulate(Job(tp=4, pp=2, dp=4, slow=(Slow("gpu", 10, 18, 1.5, dp=1),)))
    reports = [
        analysed([capture], tmp_path / str(seed), noisy(capture.records, loss=0.0, seed=seed)) for seed in (1, 1, 2)
    ]
    assert reports[0]["jobs"][0]["diagnoses"]
    assert reports[0] == reports[1]
    assert reports[0]["jobs"] == reports[2]["jobs"]
