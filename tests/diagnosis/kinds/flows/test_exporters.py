"""One capture in every exporter's form gives one result, within the limits of the form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.diagnosis.kinds.flows.exporters import COARSE, EXPORTERS
from tests.diagnosis.kinds.flows.helpers import job_of, layout, parsed, records_of, step_errors, wrong_pairs
from tests.diagnosis.kinds.flows.simulate import Capture, Job, simulate
from tests.diagnosis.kinds.reports import flows_json


@pytest.fixture(scope="module")
def capture() -> Capture:
    return simulate(Job(tp=8, pp=2, dp=4, steps=12))


@pytest.fixture(scope="module")
def rows(capture: Capture) -> list[dict[str, Any]]:
    return capture.records.with_columns(pl.col("start_time").round(6)).sort("start_time").to_dicts()


@pytest.mark.parametrize("form", [f for f in EXPORTERS if COARSE.get(f, 0.0) < 1.0])
def test_the_same_job_is_seen_whatever_exported_it(
    form: str, capture: Capture, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    report = flows_json([parsed(EXPORTERS[form](rows), tmp_path)], inventory=capture.inventory)
    job = job_of(report, capture)
    assert report["why_not"] is None
    assert layout(job) == (8, 2, 4)
    assert wrong_pairs(job, capture) == []
    missed, extra, worst = step_errors(job, capture)
    assert (missed, extra) == (0, 0)
    assert worst < (0.01 if form in COARSE else 0.001)
    assert [d for d in job["diagnoses"] if d["kind"] != "slow_step"] == []


@pytest.mark.parametrize("form", [f for f in EXPORTERS if COARSE.get(f, 0.0) >= 1.0])
def test_whole_seconds_give_the_job_its_pairs_and_volumes_and_say_why_no_steps(
    form: str, capture: Capture, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    part = parsed(EXPORTERS[form](rows), tmp_path)
    report = flows_json([part], inventory=capture.inventory)
    job = job_of(report, capture)
    assert "whole seconds" in report["why_not"]
    assert any("come from byte counts alone" in said for said in report["limits"])
    assert part.facts["flow"]["bytes"] == capture.records["bytes"].sum()
    assert wrong_pairs(job, capture) == []
    assert job["steps"] == []


@pytest.mark.parametrize(
    "form", ["canonical-csv", "goflow2", "goflow2-protobuf", "google", "zeek-conn", "zeek-json", "parquet"]
)
def test_every_record_arrives_as_it_was_sent(form: str, rows: list[dict[str, Any]], tmp_path: Path) -> None:
    key = ["start", "src", "dst", "bytes", "src_port", "dst_port", "proto"]
    sent = pl.DataFrame(rows).with_columns(start=(pl.col("start_time") * 1e6).round().cast(pl.Int64) * 1000)
    read = records_of(parsed(EXPORTERS[form](rows), tmp_path))
    assert sorted(tuple(r[k] for k in key) for r in read) == sorted(sent.select(key).rows())


def test_whole_seconds_without_sizes_claim_no_layout(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    blind = [r | {"start_time": float(int(r["start_time"])), "duration": 1.0, "bytes": "", "packets": ""} for r in rows]
    (job,) = flows_json([parsed(EXPORTERS["canonical-csv"](blind), tmp_path)])["jobs"]
    assert job["parallelism"] == {"tp": None, "pp": None, "dp": None}
    assert {p["type"] for p in job["pairs"]} == {"other"}
