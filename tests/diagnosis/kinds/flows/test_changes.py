"""Changes during a capture, and traffic other than training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from diagnosis.kinds.flows.capture.capture import Flows
from diagnosis.kinds.flows.layout.lockstep import _equal_size_share
from diagnosis.kinds.flows.layout.presence import Presence
from tests.diagnosis.kinds.flows.helpers import analysed, job_of, layout, step_errors
from tests.diagnosis.kinds.flows.simulate import T0, Capture, Job, simulate


def flows_between(rows: list[tuple[float, int, int]]) -> Flows:
    start, src, dst = (np.array(column) for column in zip(*rows, strict=True))
    none = np.zeros(len(rows), dtype=np.int32)
    size = np.ones(len(rows))
    no = none.astype(bool)
    return Flows(start, start + 0.1, src.astype(np.int32), dst.astype(np.int32), size, none, none, no, no)


def test_one_that_ends_where_another_begins_took_its_place() -> None:
    rows = [(float(t), a, b) for t in range(100) for a, b in ((0, 1), (1, 2 if t < 50 else 3), (2 if t < 50 else 3, 0))]
    at_once = Presence.of(flows_between(rows), 4)
    assert at_once(np.array([0, 1, 2, 3])) == 3
    assert at_once(np.array([0, 1])) == 2
    assert at_once(np.array([2, 3])) == 1


def test_those_that_leave_at_the_end_are_counted() -> None:
    rows = [(float(t), a, (a + 1) % n) for t in range(100) for n in (6 if t < 60 else 4,) for a in range(n)]
    assert Presence.of(flows_between(rows), 6)(np.arange(6)) == 6


def test_rings_that_agree_in_time_but_not_in_size_are_strangers() -> None:
    rng = np.random.default_rng(5)
    end, size = np.arange(40.0), rng.integers(1 << 20, 1 << 22, 40).astype(float)
    assert _equal_size_share((end, size), (end + 1e-4, size)) == 1.0
    assert _equal_size_share((end, size), (end + 1e-4, np.roll(size, 1))) < 0.1
    assert _equal_size_share((end[:3], size[:3]), (end, size)) == 1.0  # too few to tell


def with_addresses(capture: Capture, after: float, renamed: dict[str, str]) -> pl.DataFrame:
    """The records, in which some addresses have another name from a time on."""
    later = pl.col("start_time") >= after
    names = pl.when(later).then(pl.col("src", "dst").replace(renamed)).otherwise(pl.col("src", "dst"))
    return capture.records.with_columns(names)


@pytest.mark.parametrize("job", [Job(tp=8, pp=2, dp=4), Job(tp=4, dp=8, mode="rsag")], ids=["pipeline", "gradients"])
def test_a_spare_machine_in_the_middle_leaves_the_layout_as_it_was(job: Job, tmp_path: Path) -> None:
    capture = simulate(job)
    old = [row for row in capture.inventory if row["node"] == capture.inventory[8]["node"]]
    spare = [row | {"ip": f"10.99.0.{i + 1}", "node": "spare"} for i, row in enumerate(old)]
    renamed = {str(a["ip"]): str(b["ip"]) for a, b in zip(old, spare, strict=True)}
    capture.inventory += spare
    records = with_addresses(capture, capture.ends[14] + 0.01, renamed)
    capture.members += list(renamed.values())
    found = job_of(analysed([capture], tmp_path, records), capture)
    assert layout(found) == (job.tp, job.pp, job.dp)
    assert step_errors(found, capture)[:2] == (0, 0)


def stored(capture: Capture, heads: int = 8) -> pl.DataFrame:
    """Parts of one size, which every member writes to some of ``heads`` stores now and then."""
    rng = np.random.default_rng(3)
    count = 60 * len(capture.members)
    turn = rng.integers(3, size=count)
    start = T0 + 1.0 + 2.0 * turn + rng.uniform(0, 0.5, count)
    rows: dict[str, Any] = {
        "start_time": start,
        "duration": rng.uniform(0.002, 0.004, count),
        "src": np.array(capture.members)[np.arange(count) % len(capture.members)],
        "dst": [f"10.200.8.{n}" for n in rng.integers(1, heads + 1, count)],
        "src_port": rng.integers(32_768, 60_999, count),
        "dst_port": np.full(count, 7480),
        "bytes": np.full(count, 8 << 20),
        "packets": np.full(count, 6000),
    }
    columns = [c for c in capture.records.columns if c in rows]
    table = pl.DataFrame(rows).select(pl.col(c).cast(capture.records.schema[c]) for c in columns)
    return pl.concat([capture.records, table], how="diagonal")


@pytest.mark.parametrize("inventory", [True, False], ids=["inventory", "no inventory"])
def test_an_object_store_that_takes_parts_of_one_size_is_no_member(inventory: bool, tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, dp=4, pp=2))
    found = job_of(analysed([capture], tmp_path, stored(capture), inventory=inventory), capture)
    assert (found["parallelism"]["pp"], found["parallelism"]["dp"]) == (2, 4)


@pytest.mark.parametrize("rails", [True, False], ids=["rails", "a leaf for two machines"])
def test_collectors_an_hour_apart_are_put_on_one_axis(rails: bool, tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, dp=8, rails=rails))
    leaves = pl.col("switches").str.split(";").list.first()
    ahead = leaves.str.extract(r"(\d+)$").cast(pl.Int64) % 2 == 1
    records = capture.records.with_columns(pl.col("start_time") + 3600.0 * ahead.cast(pl.Float64))
    report = analysed([capture], tmp_path, records)
    found = job_of(report, capture)
    assert layout(found) == (8, 1, 8)
    assert step_errors(found, capture)[:2] == (0, 0)
    assert [row["offset_s"] for row in report["clocks"]] == pytest.approx([3600.0] * len(report["clocks"]), abs=0.002)
    assert any("up to 3,600 s off" in limit for limit in report["limits"])


def test_a_collector_that_began_later_is_left_alone(tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, pp=2, dp=4, steps=40, rails=False))
    leaves = pl.col("switches").str.split(";").list.first()
    seen = (leaves != "leaf-1") | (pl.col("start_time") > T0 + 2.0)
    report = analysed([capture], tmp_path, capture.records.filter(seen))
    assert report["clocks"] == []


def test_two_jobs_an_hour_apart_stay_where_they_are(tmp_path: Path) -> None:
    first, second = simulate(Job(tp=8, dp=4)), simulate(Job(tp=8, dp=4, first_node=4, seed=2, begin=3600.0))
    report = analysed([first, second], tmp_path)
    assert len(report["jobs"]) == 2
    assert report["clocks"] == []
    assert job_of(report, second)["steps"][0]["start"] > T0 + 3599


def test_tensor_ranks_on_two_machines_are_one_job_with_hops_of_their_own(tmp_path: Path) -> None:
    capture = simulate(Job(tp=16, dp=4, steps=20))
    records = capture.records
    rng = np.random.default_rng(4)
    hops = [(f"10.17.0.{m + 1}", f"10.10.0.{m + 2}") for m in range(0, 8, 2)]
    hops += [(f"10.17.0.{m + 2}", f"10.10.0.{m + 1}") for m in range(0, 8, 2)]
    begins = np.linspace(T0 + 0.3, capture.ends[-1], 1200)
    rows = [(t + rng.uniform(0, 1e-4), 0.0011, a, b) for t in begins for a, b in hops]
    table = pl.DataFrame(rows, schema=["start_time", "duration", "src", "dst"], orient="row")
    table = table.with_columns(bytes=pl.lit(23_592_960), packets=pl.lit(5760))
    table = table.select(pl.col(c).cast(records.schema[c]) for c in records.columns if c in table.columns)
    found = job_of(analysed([capture], tmp_path, pl.concat([records, table], how="diagonal")), capture)
    assert found["parallelism"]["dp"] == 4
    types = {frozenset((p["a"], p["b"])): p["type"] for p in found["pairs"]}
    assert {types[frozenset(hop)] for hop in hops} == {"other"}
