"""The table behind the timeline, its views, its exports, and its alignment with logs."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from diagnosis.kinds.flows.steps.rank_lanes import LaneRows, fold_lanes, write_table
from tests.diagnosis.kinds.flows.helpers import parsed
from tests.diagnosis.kinds.flows.simulate import T0, Job, simulate
from tests.diagnosis.kinds.reports import flows_json
from tests.patience import no_hang, steps_of
from triage.domain.flow_links import KnownJob, align_iterations, match_jobs
from triage.flow_tables import timeline_view, write_steps_csv
from triage.flow_trace import write_trace


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    work = tmp_path_factory.mktemp("timeline")
    capture = simulate(Job(tp=8, pp=4, dp=2, microbatches=8, steps=20))
    buffer = io.BytesIO()
    capture.records.write_parquet(buffer)
    report = flows_json([parsed(buffer.getvalue(), work / "p")], inventory=capture.inventory, tables=work / "tables")
    return report["jobs"][0], work / "tables" / report["jobs"][0]["table"]


def test_the_table_has_one_row_a_rank_and_step_with_phases_inside_the_step(
    written: tuple[dict[str, Any], Path],
) -> None:
    rows = pl.read_parquet(written[1])
    assert rows.height == 64 * 20
    assert rows["node"].n_unique() == 8
    assert (rows["dp_end"] <= rows["end"] + 1e-6).all()
    assert (rows["dp_start"] > rows["start"]).all()


def test_a_zoomed_view_draws_segments_and_a_wide_one_a_heat_map(written: tuple[dict[str, Any], Path]) -> None:
    job, table = written
    steps = job["steps"]
    near = timeline_view(table, steps[3]["start"], steps[5]["end"] - 1e-6)
    assert {s["step"] for s in near["segments"]} >= {4, 5, 6}
    assert {s["kind"] for s in near["segments"]} == {"PP", "DP"}
    assert len(near["lanes"]) == 64
    assert timeline_view(table, 0, 1)["lanes"] == []


def big_table(path: Path, ranks: int = 1024, steps: int = 2000) -> Path:
    step = np.repeat(np.arange(1, steps + 1), ranks)
    rank = np.tile(np.arange(ranks), steps)
    begin = T0 + step * 0.5
    names = pl.Series("rank", [f"10.{r % 8}.0.{r // 8}" for r in range(ranks)])
    rows = pl.DataFrame(
        {
            "step": step,
            "pp_start": begin + 0.1,
            "pp_end": begin + 0.2,
            "pp_busy_s": np.full(len(step), 0.05),
            "dp_start": begin + 0.3 + 0.05 * (rank == 17),
            "dp_end": begin + 0.45,
            "dp_busy_s": np.full(len(step), 0.1),
            "ep_start": pl.Series([None] * len(step), dtype=pl.Float64),
            "ep_end": pl.Series([None] * len(step), dtype=pl.Float64),
            "ep_busy_s": np.zeros(len(step)),
            "member": rank,
            "lane": (rank // 8).astype(np.uint16),
            "start": begin,
            "end": begin + 0.5,
        }
    )
    node = pl.Series("node", [f"node-{r // 8:03d}" for r in range(ranks)])
    members = pl.DataFrame({"rank": names, "node": node, "lane": np.arange(ranks, dtype=np.uint16) // 8})
    return write_table(LaneRows(iter([(rows, fold_lanes(rows))]), members, names, node), path)


def test_two_million_rows_fold_to_a_drawable_view(tmp_path: Path) -> None:
    table = big_table(tmp_path / "big.parquet")
    with no_hang():
        view = timeline_view(table, T0, T0 + 1100, 400)
    assert len(view["lanes"]) <= 256
    heat = view["heat"]
    assert len(heat["dp"]) == len(view["lanes"])
    assert all(len(line) == 400 for line in heat["dp"])
    few = big_table(tmp_path / "few.parquet", steps=20)
    assert steps_of(lambda: timeline_view(table, T0, T0 + 1100, 400)) < 2 * steps_of(
        lambda: timeline_view(few, T0, T0 + 11, 400)
    ), "it loops over rows"
    assert len(json.dumps(view)) < 3_000_000
    lane = view["lanes"].index("node-002")
    assert max(heat["late"][lane]) == 10
    assert sum(max(line) > 5 for line in heat["late"]) == 1


def test_the_trace_obeys_what_perfetto_asks_of_chrome_json(
    written: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    job, table = written
    at = job["steps"][2]["start"]
    tracks = [
        {
            "name": "job",
            "marks": [{"t": at, "until": at + 2.0, "name": "slow"}, {"t": at + 1.0, "until": at + 3.0, "name": "x"}],
        },
        {"name": "node-002", "marks": [{"t": at, "name": "Xid 79 <b>"}]},
    ]
    path = write_trace(table, tmp_path / "trace.json.gz", tracks)
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    for event in events:
        assert event["ph"] in {"X", "M", "i"}
        if event["ph"] == "X":
            assert isinstance(event["ts"], int)
            assert event["dur"] >= 0
            lanes[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert set(lanes) <= named
    for slices in lanes.values():
        assert slices == sorted(slices)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(slices))
    assert sum(e["ph"] == "X" and e["tid"] == 0 and e["pid"] == 0 for e in events) == 20
    assert [e["name"] for e in events if e["ph"] == "i"] == ["x", "Xid 79 <b>"]
    assert [e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == 0] == [
        "steps", "job", "node-002",
    ]  # fmt: skip


def test_the_same_table_gives_the_same_bytes(written: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    assert write_trace(written[1], tmp_path / "a").read_bytes() == write_trace(written[1], tmp_path / "b").read_bytes()


def test_csv_holds_every_row_and_no_formula(written: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    table = pl.read_parquet(written[1]).with_columns(node=pl.lit("=cmd()"))
    table.write_parquet(tmp_path / "t.parquet")
    write_steps_csv(tmp_path / "t.parquet", tmp_path / "t.csv")
    rows = list(csv.DictReader((tmp_path / "t.csv").open()))
    assert len(rows) == 64 * 20
    assert rows[0]["node"] == "'=cmd()"


def test_a_capture_is_matched_to_the_job_with_its_nodes() -> None:
    flows = {
        "jobs": [
            {"id": "flows-1", "members": ["10.0.0.1", "10.0.0.2"], "nodes": ["n1", "n2"]},
            {"id": "flows-2", "members": ["10.0.0.9"], "nodes": []},
        ]
    }
    jobs = {"a": KnownJob(["n1", "n2"]), "b": KnownJob(["n3", "n4"]), "c": KnownJob(["10.0.0.9"])}
    assert {(m.flow_job, m.job) for m in match_jobs(flows, jobs)} == {("flows-1", "a"), ("flows-2", "c")}


def seen_on(machines: int, t0: float = 0.0, t1: float = 100.0) -> dict[str, Any]:
    names = [f"n{i}" for i in range(machines)]
    steps = [{"start": t0, "end": t0 + 1.0}, {"start": t1 - 1.0, "end": t1}]
    return {"jobs": [{"id": "flows-1", "members": [f"10.0.0.{i}" for i in range(99)], "nodes": names, "steps": steps}]}


def test_the_share_of_the_larger_side_decides() -> None:
    def of(machines: int, known: int) -> list[tuple[int, int]]:
        names = [f"N{i}.cluster.local" for i in range(known)]
        return [(m.common, m.larger) for m in match_jobs(seen_on(machines), {"a": KnownJob(names)})]

    assert of(12, 16) == [(12, 16)]
    assert of(16, 12) == [(12, 16)]
    assert of(2, 200) == []
    assert of(200, 2) == []


def test_names_that_only_differ_in_their_domain_stay_apart() -> None:
    flows = {"jobs": [{"id": "flows-1", "members": [], "nodes": ["n1.east", "n1.west"], "steps": []}]}
    assert match_jobs(flows, {"a": KnownJob(["n1.north", "n1.south"])}) == []
    assert match_jobs(flows, {"a": KnownJob(["n1.east", "n1.west"])})[0].common == 2


def test_jobs_must_have_run_meanwhile_where_their_times_are_known() -> None:
    names = [f"n{i}" for i in range(4)]
    jobs = {
        "before": KnownJob(names, -500.0, -100.0),
        "whole": KnownJob(names, -500.0, 500.0),
        "touches": KnownJob(names, 90.0, 500.0),
        "goes-on": KnownJob(names, 10.0, None),
        "unknown": KnownJob(names),
    }
    found = {m.job: (m.t0, m.t1) for m in match_jobs(seen_on(4), jobs)}
    assert found == {"whole": (0.0, 100.0), "goes-on": (10.0, 100.0), "unknown": (None, None)}
    assert next(m.job for m in match_jobs(seen_on(4), jobs)) == "whole"


def test_iterations_of_the_log_fall_on_the_steps_of_the_flows() -> None:
    rng = np.random.default_rng(1)
    ends = T0 + np.cumsum(rng.normal(0.5, 0.03, 60))
    steps = [{"start": e - 0.5, "end": e} for e in ends]
    lines = [{"n": 100 + k, "t": ends[k] + 1.8 + rng.normal(0, 0.002)} for k in range(4, 60, 2)]
    found = align_iterations(steps, lines)
    assert found is not None
    assert found.iteration_of_first_step == 100
    assert found.offset_s == pytest.approx(-1.8, abs=0.01)


def test_iterations_that_do_not_fit_are_not_forced() -> None:
    rng = np.random.default_rng(2)
    steps = [{"start": T0 + k, "end": T0 + k + 1.0} for k in range(30)]
    lines = [{"n": k, "t": T0 + float(rng.uniform(0, 500))} for k in range(30)]
    assert align_iterations(steps, lines) is None
    assert align_iterations(steps[:2], lines) is None
