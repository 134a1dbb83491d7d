"""What real exporters and layouts do to a capture: clocks apart, shared addresses, experts across machines, storage."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from diagnosis.kinds.flows.capture.sharing import endpoint, host_of
from tests.diagnosis.kinds.flows.helpers import analysed, job_of, layout, parsed, step_errors, wrong_pairs
from tests.diagnosis.kinds.flows.simulate import T0, Capture, Job, Slow, noisy, simulate
from tests.diagnosis.kinds.reports import flows_json
from triage.flow_tables import port_lines, ports_view


def apart(capture: Capture, offsets: dict[str, float]) -> pl.DataFrame:
    """The records as collectors with clocks of their own (one a first switch) would stamp them."""
    first = pl.col("switches").str.split(";").list.first()
    return capture.records.with_columns(pl.col("start_time") + first.replace_strict(offsets, default=0.0))


def test_collectors_clocks_are_put_right_and_shown(tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, dp=8, rails=False, steps=24))
    report = analysed([capture], tmp_path, apart(capture, {"leaf-1": 0.31, "leaf-2": -0.2}))
    missed, extra, worst = step_errors(job_of(report, capture), capture)
    assert (missed, extra) == (0, 0)
    assert worst < 0.01
    found = {row["collector"]: row["offset_s"] for row in report["clocks"]}
    assert found["leaf-1"] - found["leaf-0"] == pytest.approx(0.31, abs=2e-3)
    assert found["leaf-2"] - found["leaf-3"] == pytest.approx(-0.2, abs=2e-3)
    assert any("put on one time axis" in limit for limit in report["limits"])


def test_clocks_that_agree_are_left_alone(tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, pp=4, dp=2, microbatches=8, rails=False, slow=(Slow("gpu", 8, 14, 1.5, dp=1),)))
    assert analysed([capture], tmp_path)["clocks"] == []


def test_a_capture_of_one_direction_is_not_blamed_on_the_clocks(tmp_path: Path) -> None:
    capture = simulate(Job(tp=4, pp=2, dp=2, steps=16))
    whole, half = capture.records, capture.records.filter(pl.col("src") < pl.col("dst"))
    said = [" ".join(analysed([capture], tmp_path, records)["limits"]) for records in (whole, half)]
    assert ["one direction only" in limits for limits in said] == [False, True]
    assert "clocks" not in said[1]


def test_ranks_of_one_address_are_distinguished_by_their_ports(tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, pp=2, dp=4))
    gpu = {str(row["ip"]): 29_600 + int(str(row["gpu"])) for row in capture.inventory}
    host = {str(row["ip"]): f"172.20.0.{int(str(row['node'])[-4:]) + 1}" for row in capture.inventory}
    records = capture.records.with_columns(
        pl.col("src", "dst").replace_strict(host),
        src_port=pl.col("src").replace_strict(gpu),
        dst_port=pl.col("dst").replace_strict(gpu),
        proto=pl.lit(6),
    )
    named = replace(
        capture,
        members=sorted(f"{host[m]}:{gpu[m]}" for m in capture.members),
        inventory=[{"ip": f"172.20.0.{n + 1}", "node": f"n{n}"} for n in range(8)],
    )
    report = analysed([named], tmp_path, records)
    assert layout(job_of(report, named)) == (8, 2, 4)
    assert any("shared by several ranks" in note for note in report["notes"])


def test_ports_drawn_for_each_connection_do_not_split_an_address(tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, dp=4, steps=12))
    rng = np.random.default_rng(1)
    drawn = pl.Series(rng.integers(32_768, 60_999, capture.records.height))
    records = capture.records.with_columns(src_port=drawn, dst_port=drawn.reverse())
    assert job_of(analysed([capture], tmp_path, records), capture)


@pytest.mark.parametrize("name", ["10.0.0.1", "fd00::7"])
def test_an_endpoints_name_gives_its_address_back(name: str) -> None:
    assert host_of(endpoint(name, 29500)) == name
    assert host_of(name) == ""


def test_experts_spread_over_machines_are_an_all_to_all_though_neighbours_exchange_unseen(tmp_path: Path) -> None:
    capture = simulate(Job(tp=2, dp=16, ep=8, gpus=8, microbatches=3, steps=24))
    found = job_of(analysed([capture], tmp_path), capture)
    # Neighbours of the gradients' rings are in both; there the gradients count.
    assert {(kind, said) for _, kind, said in wrong_pairs(found, capture)} <= {("EP", "DP")}
    assert layout(found) == (2, 1, 16)
    assert sum(p["type"] == "EP" for p in found["pairs"]) > len(capture.pairs) / 3


def test_storage_that_a_job_reads_is_no_member_even_without_an_inventory(tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, dp=8, steps=24))
    rng = np.random.default_rng(3)
    span = capture.ends[-1] - T0
    rows = 60
    reads = pl.DataFrame(
        {
            "start_time": T0 + rng.uniform(0, span, rows),
            "duration": rng.uniform(0.002, 0.02, rows),
            "src": [f"10.200.9.{n % 4 + 1}" for n in range(rows)],
            "dst": [capture.members[n * 7 % 8] for n in range(rows)],
            "src_port": [7777] * rows,
            "dst_port": rng.integers(32_768, 60_999, rows),
            "proto": [6] * rows,
            "bytes": rng.integers(1_000_000, 50_000_000, rows),
            "packets": [9000] * rows,
            "switches": ["storage"] * rows,
        }
    ).cast(dict(capture.records.schema))
    records = pl.concat([capture.records, reads.select(capture.records.columns)])
    assert job_of(analysed([capture], tmp_path, records, inventory=False), capture)


def test_a_slow_machine_is_found_though_sequences_vary_in_length(tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, pp=2, dp=4, varying=True, steps=40, slow=(Slow("gpu", 14, 24, 1.6, dp=1, pp=1),)))
    job = job_of(analysed([capture], tmp_path), capture)
    assert job["step_s"]["varies"]
    assert any("node-0005" in x.get("culprits", []) for x in job["diagnoses"])


def test_steps_of_varying_length_alone_are_not_called_slow(tmp_path: Path) -> None:
    capture = simulate(Job(tp=8, pp=2, dp=4, varying=True, steps=40))
    assert job_of(analysed([capture], tmp_path), capture)["diagnoses"] == []


def test_weights_gathered_all_through_the_step_keep_their_boundaries_in_a_poor_capture(tmp_path: Path) -> None:
    capture = simulate(Job(mode="zero3", tp=1, dp=32, steps=30, slow=(Slow("gpu", 10, 18, 1.6, dp=9),)))
    job = job_of(analysed([capture], tmp_path, noisy(capture.records, loss=0.1, split=0.05, merge=0.08)), capture)
    missed, extra, worst = step_errors(job, capture)
    assert (missed, extra) == (0, 0)
    assert worst < 0.02


def test_port_counters_become_a_table_of_bandwidth(tmp_path: Path) -> None:

    times = [1_750_000_000 + n for n in range(600)]
    columns = {"SaveTimeUTC": times, "PortName": ["e1"] * 600, "InOctets": [2e9, 1e9] * 300, "OutOctets": [0.0] * 600}
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer)
    report = flows_json([parsed(buffer.getvalue(), tmp_path / "work")], tables=tmp_path)
    (row,) = report["ports"]
    assert row["ports"][0]["in_bps"] == pytest.approx(12e9, rel=0.01)
    assert "add flow records" in report["why_not"]
    view = ports_view(tmp_path / row["table"], row["t0"], row["t1"] + 1)
    assert view["ports"] == ["e1"]
    assert len(view["bps"][0]) == len(view["times"])
    assert port_lines(tmp_path / row["table"], "no such port")["times"] == []
