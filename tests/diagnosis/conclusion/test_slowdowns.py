"""Stretches of slow steps: one row for what logs and flows both show, in the job's own numbers, and what it costs."""

from __future__ import annotations

from typing import Any

from diagnosis.conclusion.model import Slowdown
from diagnosis.conclusion.slowdowns import is_reportable, merge_slowdowns, of_flows, of_logs, step_offset
from diagnosis.evidence import FlowFinding, decode
from diagnosis.records.timeline_rows import IterationRow


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


def iterations(seconds: list[float]) -> list[IterationRow]:
    """Iterations from 1 on, each printed at its end."""
    at, rows = 0.0, []
    for number, length in enumerate(seconds, 1):
        at += length
        rows.append(IterationRow(number, at, length))
    return rows


def test_a_stretch_of_the_logs_costs_what_its_iterations_took_beyond_the_usual() -> None:
    rows = iterations([0.5] * 10 + [1.5] * 10 + [0.5] * 10)
    (row,) = of_logs((11, 20, 3.0), rows, 8)
    assert (row.steps, row.count, row.factor, row.lost_s, row.lost_gpu_s) == ((11, 20), 10, 3.0, 10.0, 80.0)
    assert (row.at, row.until, row.is_over, row.is_standstill) == (6.5, 20.0, True, False)


def test_a_stretch_to_the_last_iteration_is_not_over() -> None:
    (row,) = of_logs((11, 20, 3.0), iterations([0.5] * 10 + [1.5] * 10), None)
    assert (row.is_over, row.lost_gpu_s) == (False, None)


def test_one_slow_iteration_of_the_logs_is_a_standstill() -> None:
    (row,) = of_logs((11, 11, 20.0), iterations([0.5] * 10 + [10.0, 0.5]), 1)
    assert (row.is_standstill, row.is_over, row.lost_s) == (True, True, 9.5)


def test_logs_without_a_slow_phase_or_without_usual_iterations_show_no_loss() -> None:
    assert of_logs(None, iterations([0.5] * 10), 8) == []
    (row,) = of_logs((1, 10, 3.0), iterations([1.5] * 10), 8)
    assert (row.lost_s, row.is_over) == (0.0, False)


def one_long_step(times: float, *, last: bool = False, **found: Any) -> Slowdown:
    seconds = [1.0] * 20 + [times] + [1.0] * (0 if last else 10)
    (row,) = of_flows(flows(seconds, {"first": 21, "last": 21, **found}), 8)
    return row


def test_one_long_step_is_a_standstill_sooner_if_flows_name_the_culprit() -> None:
    assert one_long_step(9.0).is_standstill
    assert not one_long_step(5.0).is_standstill
    assert one_long_step(5.0, shares={"a": 0.9}).is_standstill


def test_a_stretch_of_the_flows_is_over_if_steps_follow() -> None:
    assert one_long_step(9.0).is_over
    assert not one_long_step(9.0, last=True).is_over


def test_a_long_step_has_the_times_of_the_capture_and_is_compared_with_the_usual_one() -> None:
    row = one_long_step(9.0)
    assert (row.at, row.until, row.factor, row.lost_s) == (20.0, 29.0, 9.0, 8.0)


def test_a_single_long_step_is_reported_only_as_a_standstill() -> None:
    assert is_reportable(one_long_step(9.0), 20.0)
    assert not is_reportable(one_long_step(7.0), 20.0)


def test_the_full_cost_is_enough_without_a_named_culprit() -> None:
    assert is_reportable(Slowdown("flows", (5, 9), 5, 1.4, 1.0, 20.0), 20.0)
    assert not is_reportable(Slowdown("flows", (5, 6), 2, 1.4, 1.0, 20.0), 20.0)


def test_slow_steps_with_three_usual_ones_between_are_two_stretches() -> None:
    seconds = [1.0] * 10 + [3.0] * 4 + [1.0] * 3 + [3.0] * 4 + [1.0] * 10
    two = flows(seconds, {"first": 11, "last": 14}, {"first": 18, "last": 21})
    assert [row.steps for row in of_flows(two, 8)] == [(11, 14), (18, 21)]
    one = flows(seconds[:15] + seconds[16:], {"first": 11, "last": 14}, {"first": 17, "last": 20})
    assert [row.steps for row in of_flows(one, 8)] == [(11, 20)]


def test_a_finding_of_another_stretch_widens_none() -> None:
    seconds = [1.0] * 10 + [3.0] * 3 + [1.0] * 10 + [3.0] * 3 + [1.0] * 10
    told = flows(seconds, {"first": 10, "last": 14}, {"first": 23, "last": 27})
    assert [row.steps for row in of_flows(told, 8)] == [(10, 14), (23, 27)]


def test_a_start_counts_if_the_job_began_before_the_capture() -> None:
    told = flows([2.0, 1.9, 1.8, 1.7] + [1.0] * 30, {"kind": "slow_step", "first": 1, "last": 4})
    ends = [step.end for step in told.jobs[0].steps]
    later = [IterationRow(number, at) for number, at in enumerate(ends, 5_001)]
    assert [row.steps for row in of_flows(told, 4, later)] == [(5_001, 5_004)]


def test_a_place_named_from_the_second_step_on_is_named() -> None:
    seconds = [1.0] + [3.0] * 4 + [1.0] * 30
    (row,) = of_flows(flows(seconds, {"first": 2, "last": 5, "shares": {"a": 0.9}}), 4)
    assert (row.steps, row.is_named) == ((2, 5), True)


def test_a_finding_that_covers_no_longer_step_is_no_stretch() -> None:
    assert of_flows(flows([1.0] * 20, {"first": 5, "last": 6}), 8) == []
    assert of_flows(flows([1.0] * 20), 8) == []


def test_steps_without_length_divide_by_nothing() -> None:
    (row,) = of_flows(flows([0.0] * 20 + [0.1] * 3, {"first": 21, "last": 23}), 8)
    assert (row.factor, row.is_standstill) == (1.0, False)


def test_only_iterations_within_the_capture_are_matched_with_its_steps() -> None:
    steps = flows([1.0] * 20).jobs[0].steps
    inside = [IterationRow(n, n + 0.4) for n in range(101, 121)]
    shifted = [IterationRow(row.number, float(row.at or 0) - 100) for row in inside]
    before = [IterationRow(n, n - 100.0 - 0.3) for n in range(1, 100)]
    after = [IterationRow(n, n - 100.0 + 0.7) for n in range(121, 400)]
    assert step_offset(steps, shifted) == 100
    assert step_offset(steps, before + shifted + after) == 100


def test_two_iterations_are_too_few_to_compare_numbers() -> None:
    steps = flows([1.0] * 20).jobs[0].steps
    assert step_offset(steps, [IterationRow(n, n - 99.6) for n in (101, 102)]) == 0
    assert step_offset(steps, [IterationRow(n, n - 99.6) for n in (101, 102, 103)]) == 100
    assert step_offset(steps, [IterationRow(n, n - 500.6) for n in (101, 102, 103)]) == 0


def test_stretches_at_other_times_are_two_though_their_numbers_are_the_same() -> None:
    logs = Slowdown("logs", (25, 34), 10, 2.0, 10.0, 80.0, 100.0, 120.0)
    for at, until in ((50.0, 90.0), (130.0, 150.0)):
        seen = Slowdown("flows", (25, 34), 10, 2.0, 11.0, 88.0, at, until)
        assert [row.source for row in merge_slowdowns([logs], [seen], 20.0)] == ["flows", "logs"]


def test_stretches_without_times_are_compared_by_their_numbers() -> None:
    logs = Slowdown("logs", (25, 34), 10, 2.0, 10.0, 80.0)
    for steps in ((10, 24), (35, 44)):
        seen = Slowdown("flows", steps, 10, 2.0, 11.0, 88.0, 100.0, 120.0)
        assert len(merge_slowdowns([logs], [seen], 20.0)) == 2
    same = Slowdown("flows", (34, 44), 10, 2.0, 11.0, 88.0, 100.0, 120.0)
    assert [row.steps for row in merge_slowdowns([logs], [same], 20.0)] == [(34, 44)]


def test_flows_with_half_of_the_slow_steps_are_enough_and_lasting_in_one_is_lasting() -> None:
    logs = Slowdown("logs", (25, 34), 10, 2.0, 10.0, 80.0, 100.0, 120.0, is_over=False)
    half = Slowdown("flows", (30, 34), 5, 2.1, 5.0, 40.0, 110.0, 120.0)
    (row,) = merge_slowdowns([logs], [half], 20.0)
    assert (row.source, row.is_over) == ("flows", False)
