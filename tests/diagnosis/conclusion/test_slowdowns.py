"""Stretches of slow steps: one row for what logs and flows both show, in the job's own numbers, and what it costs."""

from __future__ import annotations

from typing import Any

from diagnosis.conclusion.model import Slowdown
from diagnosis.conclusion.slowdowns import is_reportable, merge_slowdowns, of_flows, step_offset
from diagnosis.evidence import FlowFinding, decode
from diagnosis.report_records import IterationRow


def flows(seconds: list[float], *found: dict[str, Any]) -> FlowFinding:
    """A job whose steps take these seconds from time 0 on. ``found``: rows with the numbers of steps (from 1)."""
    at, steps = 0.0, []
    for length in seconds:
        steps.append({"start": at, "end": at + length, "slow": False})
        at += length
    rows = [
        {"kind": "slow_group", **row, "t0": steps[row["first"] - 1]["start"], "t1": steps[row["last"] - 1]["end"]}
        for row in found
    ]
    return decode({"jobs": [{"members": ["a", "b"], "steps": steps, "diagnoses": rows}]}, FlowFinding)


def test_a_fault_that_comes_and_goes_within_one_finding_is_one_stretch() -> None:
    slow = [1.0] * 10 + [3.0, 1.0, 1.0, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0, 1.0, 3.0] + [1.0] * 10
    (row,) = of_flows(flows(slow, {"first": 9, "last": 22, "shares": {"a": 0.9}}), 8)
    assert (row.steps, row.count, row.lost_gpu_s, row.is_named) == ((9, 22), 3, 48.0, True)


def test_a_job_that_warms_up_needs_the_full_cost_though_a_place_is_named() -> None:
    warm, later = [1.6] * 4 + [1.0] * 30, [1.0] * 20 + [1.6] * 4 + [1.0] * 10
    (begin,) = of_flows(flows(warm, {"first": 1, "last": 4, "shares": {"leaf0": 0.4}}), 4)
    (middle,) = of_flows(flows(later, {"first": 21, "last": 24, "shares": {"leaf0": 0.4}}), 4)
    assert [is_reportable(row, 20.0) for row in (begin, middle)] == [False, True]


def test_long_first_steps_without_a_named_place_are_a_warm_up_and_no_stretch() -> None:
    warm = [2.0, 1.9, 1.8, 1.7] + [1.0] * 30
    assert of_flows(flows(warm, {"kind": "slow_step", "first": 1, "last": 4}), 4) == []
    lasting = [1.0] * 20 + [2.0] * 4 + [1.0] * 10
    assert len(of_flows(flows(lasting, {"kind": "slow_step", "first": 21, "last": 24}), 4)) == 1


def test_a_stretch_is_numbered_as_the_logs_number_its_iterations() -> None:
    slow = [1.0] * 10 + [3.0] * 4 + [1.0] * 10
    told = flows(slow, {"first": 11, "last": 14})
    ends = [step.end for step in told.jobs[0].steps]
    iterations = [IterationRow(n, t) for n, t in enumerate(ends, 5_001)]
    assert [row.steps for row in of_flows(told, 8, iterations)] == [(5_011, 5_014)]
    assert [row.steps for row in of_flows(told, 8)] == [(11, 14)]


def test_times_in_whole_seconds_do_not_shift_the_numbers_of_short_steps() -> None:
    steps = flows([0.3] * 40).jobs[0].steps
    assert step_offset(steps, [IterationRow(n, float(int(step.end))) for n, step in enumerate(steps, 1)]) == 0


def test_one_stretch_that_logs_and_flows_show_is_reported_once_with_the_times_of_the_flows() -> None:
    logs = Slowdown("logs", (25, 34), 10, 2.0, 10.0, 80.0, 100.0, 120.0)
    seen = Slowdown("flows", (25, 35), 11, 2.1, 11.0, 88.0, 99.0, 121.0)
    assert [(r.steps, r.source) for r in merge_slowdowns([logs], [seen], 20.0)] == [((25, 35), "flows")]


def test_the_logs_keep_their_stretch_if_the_capture_shows_only_a_part_of_it() -> None:
    logs = Slowdown("logs", (25, 34), 10, 2.0, 10.0, 80.0, 100.0, 120.0)
    part = Slowdown("flows", (25, 27), 3, 2.1, 3.0, 24.0, 99.0, 106.0)
    assert [r.steps for r in merge_slowdowns([logs], [part], 20.0)] == [(25, 34)]


def test_a_quarter_of_the_cost_is_enough_if_flows_name_the_culprit() -> None:
    cheap = Slowdown("flows", (5, 9), 5, 1.4, 1.0, 8.0)
    assert not is_reportable(cheap, 20.0)
    assert is_reportable(Slowdown("flows", (5, 9), 5, 1.4, 1.0, 8.0, is_named=True), 20.0)
    assert not is_reportable(Slowdown("flows", (5, 9), 5, 1.4, 1.0, 4.0, is_named=True), 20.0)
