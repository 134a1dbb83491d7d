"""Rings whose rounds are records of their own: when a round begins shows who sent late, not who computed longer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from diagnosis.kinds.flows.capture.capture import Capture, Flows
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.pairs import DP, classify_pairs
from diagnosis.kinds.flows.layout.parallelism import Layout
from diagnosis.kinds.flows.slow.late.late_members import late_members
from diagnosis.kinds.flows.slow.late.slow_stages import without_explained
from diagnosis.kinds.flows.slow.slowness import SlowReport
from diagnosis.kinds.flows.steps.stage_times import StageTimes
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.transfers import KIND, Transfers, _without_later_rounds
from diagnosis.kinds.flows.tell import one_job

MEMBERS, ROUNDS, STEPS, SLOW_HOP = 4, 6, 20, 2
EDGES = np.arange(STEPS + 1.0)
TRAINED = Steps(EDGES[:-1], EDGES[1:], EDGES, np.ones(STEPS), "DP", "gaps")


def rounds() -> Flows:
    """Each step a ring goes round; a member sends on as soon as it has sent and got what it needs. One hop is slow."""
    rows = []
    for step in range(STEPS):
        at = [step + 0.3] * MEMBERS
        for _ in range(ROUNDS):
            ends = [at[a] + (0.016 if a == SLOW_HOP else 0.01) for a in range(MEMBERS)]
            rows += [(at[a], ends[a], a, (a + 1) % MEMBERS) for a in range(MEMBERS)]
            at = [max(ends[a], ends[a - 1]) for a in range(MEMBERS)]
    start, end, src, dst = (np.array(column) for column in zip(*sorted(rows), strict=True))
    none, no = np.full(len(start), -1, dtype=np.int32), np.zeros(len(start), dtype=bool)
    return Flows(start, end, src.astype(np.int32), dst.astype(np.int32), np.full(len(start), 1e6), none, none, no, no)


def whole() -> Flows:
    """The same, but a record lasts from a member's begin to the end of the ring."""
    flows = rounds()
    first = np.flatnonzero(flows.start - np.floor(flows.start) < 0.3001)
    return Flows(*(column[first] for column in flows.columns()))


def capture_of(flows: Flows) -> Capture:
    names = [f"10.0.0.{member}" for member in range(MEMBERS)]
    return Capture(flows, names, [], 0.0, resolution_s=1e-6, has_bytes=True, notes=[])


def table(flows: Flows) -> pl.DataFrame:
    own = pl.DataFrame({"unit": 0, "src": flows.src, "size": flows.size, "start": flows.start, "end": flows.end})
    return own.with_columns(length=pl.col("end") - pl.col("start"))


def test_later_rounds_are_left_out_and_whole_transfers_stay() -> None:
    assert len(_without_later_rounds(table(rounds()), 1e-6)) == MEMBERS * STEPS
    assert len(_without_later_rounds(table(whole()), 1e-6)) == MEMBERS * STEPS


@pytest.mark.parametrize(("flows", "is_exact"), [(rounds(), True), (whole(), False)])
def test_records_that_begin_as_others_end_are_on_one_clock(flows: Flows, is_exact: bool) -> None:
    pairs = classify_pairs(JobFlows(np.arange(MEMBERS), flows), capture_of(flows))
    assert pairs.exact_clock is is_exact


@pytest.mark.parametrize(("every", "named"), [(1, [[1]]), (8, [])])
def test_who_was_seen_late_in_few_steps_is_not_late_in_those_between(every: int, named: list[list[int]]) -> None:
    seen = range(0, STEPS, every)
    rows = [(member, step, 0.2 if member == 1 else 0.0) for member in range(MEMBERS) for step in seen]
    late = pl.DataFrame(rows, {"src": pl.Int32, "step": pl.Int32, "behind": pl.Float64}, orient="row")
    late = late.with_columns(added="behind")
    cells = pl.DataFrame({"kind": [DP], "first": [0.1], "last": [0.2]}, schema_overrides={"kind": KIND})
    transfers = Transfers(cells, late, pl.DataFrame(), [], [])
    found = late_members(transfers, TRAINED, Layout(None, 1, MEMBERS), capture_of(whole()), 1.0)
    assert [slow.culprits for slow in found] == named


@pytest.mark.parametrize(("last", "stays"), [(STEPS, False), (8, True)])
def test_who_is_always_late_while_its_stages_compute_as_usual_waits_for_transfers(last: int, stays: bool) -> None:
    times = StageTimes(np.arange(4), np.array([0, 1, 0, 1]), 2, np.ones((4, STEPS)), np.array([0, 0, 1, 1]), EDGES)
    layout = Layout(None, 2, 2, pp_groups=[np.array([0, 1]), np.array([2, 3])])
    late = SlowReport("slow_group", 0.0, float(last), "", culprits=[1], measure="late")
    assert without_explained([late], [], cast("Any", layout), times, TRAINED) == ([late] if stays else [])


@pytest.mark.parametrize(
    ("flows", "last", "stays"), [(rounds(), 8, False), (rounds(), STEPS, True), (whole(), 8, True)]
)
def test_where_layers_may_count_as_steps_only_who_stays_late_is_named(
    flows: Flows, last: int, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = SlowReport("slow_group", 0.0, float(last), "", culprits=[1], measure="late")
    monkeypatch.setattr(one_job, "measure_transfers", lambda *_: lambda: None)
    monkeypatch.setattr(one_job, "late_members", lambda *_: [late])
    monkeypatch.setattr(one_job, "find_uneven_work", lambda *_: None)
    pairs = classify_pairs(JobFlows(np.arange(MEMBERS), flows), capture_of(flows))
    job = SimpleNamespace(steps=TRAINED, divided=(), pairs=pairs, layout=Layout(None, 1, MEMBERS))
    one_job._find_slow_members(cast("Any", job), capture_of(flows))
    assert job.slow == ([late] if stays else [])
